"""A key that servers echo in refusals appears nowhere: no file, no output, no exception, no variable in a traceback."""

import asyncio
import json
import traceback
from dataclasses import replace
from itertools import product

import pytest
import stub_batches
from notebook_files import write_notebook
from stub_server import Fault, StubServer, spec_for

from toolkit.audit.verify import verify_study
from toolkit.batch import run_batch
from toolkit.batch.template import check_parameters
from toolkit.cli import main
from toolkit.errors import InputError, ModelError, StudyError, redacted, redacted_json, redacted_words
from toolkit.models.base import Message, ModelRequest
from toolkit.models.registry import open_batch_client, open_model
from toolkit.runs import gateway
from toolkit.runs.ledger import answer_of
from toolkit.runs.limits import RetryPolicy
from toolkit.store.documents import Call
from toolkit.study import Study
from toolkit.words import JUDGE_ROLES

# Not in the form of any provider's key: nothing but knowing it can black it out.
KEY = "canary0123456789abcdefCANARY"
PROVIDERS = ("openai", "anthropic")
STATUSES = (400, 401, 500)
FULL = pytest.mark.full
QUICK = RetryPolicy(attempts=2, first_wait=0.0)


def echo(status):
    """Return a refusal with the key in its body and in its headers, where a message is cut as well."""
    said = f"Incorrect API key provided: {'a ' * 126}{KEY}. Bearer {KEY}"
    headers = {"X-Request-Id": KEY, "WWW-Authenticate": f"Bearer {KEY}", "X-Echo": said}
    return Fault(
        status=status, body={"error": {"type": "invalid", "message": said, "param": KEY}}, headers=headers
    )


def keyed_study(
    folder,
    server,
    provider,
    mode,
    more='api_key_env = "CANARY_KEY"',
    end="",
):
    """Write a study of the six CTI prompts that sends the key; its judges ask nobody."""
    address = server.address(provider)
    judges = "\n".join(
        f'{role} = {{ name = "{role}", provider = "scripted", planted = {{}} }}' for role in JUDGE_ROLES
    )
    path = folder / "keyed.toml"
    path.write_text(
        f'name = "keyed"\noutput = "results/keyed"\nscenarios = ["CTI_ANALYSIS"]\nmode = "{mode}"\n'
        f'batch_poll_seconds = 0.05\nmodels = [{{ name = "answerer", provider = "{provider}", '
        f'base_url = "{address}", usd_per_million_input = 1.0, usd_per_million_output = 2.0, {more} }}]\n{end}\n'
        f"[judges]\n{judges}\n"
    )
    return path


@pytest.fixture(autouse=True)
def _quick_and_keyed(monkeypatch):
    monkeypatch.setenv("CANARY_KEY", KEY)
    monkeypatch.setattr(gateway, "RetryPolicy", lambda: QUICK)


def run_and_look(path, capfd):
    """Run a study with ``--debug``; the key must be in no output and no file; return what was said."""
    with pytest.raises(SystemExit) as ended:
        main(["--debug", "run", str(path), "--yes"])
    assert ended.value.code == 1
    out, err = capfd.readouterr()
    part = KEY[:16]
    assert part not in out + err
    files = [file for file in path.parent.rglob("*") if file.is_file()]
    assert any(file.suffix == ".db" for file in files)
    assert not [file for file in files if part.encode() in file.read_bytes()]
    return out


@pytest.mark.parametrize(
    ("provider", "mode", "status"),
    [
        ("openai", "single", 401),
        ("anthropic", "batch", 400),
        *(pytest.param(*each, marks=FULL) for each in product(PROVIDERS, ("single", "batch"), STATUSES)),
        # A batch that is refused whole or line by line in words that hold the key: asked singly, the same again.
        ("openai", "brought", 400),
        ("anthropic", "brought", 400),
    ],
)
def test_a_key_in_a_refusal_is_in_no_file_and_no_output(
    tmp_path, store_folder, capfd, monkeypatch, provider, mode, status
):
    """Both clients, single calls and batches, and what a batch brings: the runs fail with a reason."""
    said = {"type": "invalid_request_error", "message": f"unknown key {KEY}"}
    monkeypatch.setattr(stub_batches, "_ERROR", said)
    faults = {"batch_http_fault": lambda method, path: echo(status)}
    if mode == "brought":
        refusal = f"not with {KEY}" if provider == "openai" else None
        faults = {"batch_fault": lambda custom_id: "error", "batch_refusal": refusal}
    with StubServer(faults=lambda n, body: echo(status), **faults) as server:
        path = keyed_study(tmp_path, server, provider, "single" if mode == "single" else "batch")
        assert "6 failed" in run_and_look(path, capfd)
        assert (server.batch_requests > 0) == (mode != "single")
        headers = [value for seen in server.seen for value in seen.headers.values()]
        assert any(KEY in value for value in headers) or mode == "batch"
        assert mode != "brought" or (len(server.batches), server.count) == (1, 6)


REQUEST = ModelRequest("", "m", (Message("user", "Which port?"),), max_tokens=10)
WAYS = {
    "asked singly": lambda model, request: model.ask(request),
    "asked in a batch": lambda client, request: client.submit({"a": request}, "name"),
    "polled": lambda client, _: client.state("batch_0"),
    "read": lambda client, _: client.results("batch_0", "", ()),
}


async def ask(way, spec):
    """Open a client, ask in one of the ways, and close it."""
    client = open_model(spec, seconds=5) if way == "asked singly" else open_batch_client(spec)
    try:
        await WAYS[way](client, replace(REQUEST, provider=spec.provider))
    finally:
        await client.close()


@pytest.mark.parametrize(
    "fault",
    [
        echo(401),
        Fault("html"),
        *(pytest.param(each, marks=FULL) for each in (echo(400), echo(500), Fault("drop"))),
    ],
    ids=lambda fault: f"{fault.kind} {fault.status}",
)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_exception_shows_no_key_even_with_its_variables(provider, way, fault):
    """Text, repr and a traceback that prints the variables of every frame, as IPython's verbose one does."""
    with StubServer(faults=lambda n, body: fault, batch_http_fault=lambda method, path: fault) as server:
        spec = spec_for(provider, server, api_key_env="CANARY_KEY")
        with pytest.raises(ModelError) as caught:
            asyncio.run(ask(way, spec))
        error = caught.value
        assert server.count + server.batch_requests > 0
    assert KEY not in str(error) + repr(error) + repr(vars(error))
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [frame for frame in shown.stack if frame.filename != __file__]  # the stub's fault is ours
    assert any("toolkit" in frame.filename for frame in frames)
    assert not [frame for frame in frames if KEY in str(frame) + str(frame.locals)]
    assert KEY not in "".join(traceback.format_exception(error))


OF_A_VARIABLE = "hunter2hunter2"
# Put together here, or whoever looks for keys in a source would find them.
FORMS = {
    "AWS": "AKIA" + "ABCDEFGHIJKLMN12",
    "AWS for a while": "ASIA" + "ABCDEFGHIJKLMN12",
    "Slack": "xoxb-" + "123456789012-abcdefABCDEF",
    "a hook of Slack": "hooks.slack.com/services/" + "T000/B000/XXXX",
    "GitHub": "ghp_" + "a1B2" * 9,
    "GitHub, fine": "github_pat_" + "11ABCDEFG0abcdefghij",
    "Google": "AIza" + "Sy0a" * 9,
    "OpenAI": "sk-proj-" + "abcdef0123456789abcdef",
    "Anthropic": "sk-ant-api03-" + "AbC123def456",
    "Hugging Face": "hf_" + "aB3c" * 8,
    "JWT": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3",
    "PEM": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    "a variable": OF_A_VARIABLE,
    "a password of an address": "pa55word99",
}
NAMES = """
api_key apikey X-API-Key x-goog-api-key password Passwd AUTHORIZATION proxy-authorization token access_token
id-token secret client_secret Cookie set-cookie aws_secret_access_key private_key Ocp-Apim-Subscription-Key
credentials
""".split()  # noqa: SIM905 - a table of words
ORDINARY = (
    "The password: hunter2 stood in the mail, and password=Winter2024! in the body of the POST.",
    "max_tokens = 2000; 12 tokens; key_findings: none; the bearer of bad news; Basic training was given.",
    "mongodb://admin:Spring24@10.0.0.5/ was in the log of the proxy; hf_hub_download; pk_customer_2024_table.",
    "SHA-256 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53, commit 4b825dc642cb6eb9a060e54bf8d69288",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----, CVE-2024-3094, task-20240101-abcdef0123456789",
    "AKIAIOSFODNN7EXAMPLE is what the pages of AWS have; sk-learn-compatible-estimators; false-but-long-1; lm-studio",
)


@pytest.fixture
def _variables(monkeypatch):
    values = {
        "MY_SERVICE_SECRET": OF_A_VARIABLE, "MONGODB_URI_OF_A_TEST": "mongodb://me:pa55word99@h/db",
        "TOKENIZERS_PARALLELISM": "false-but-long-1", "LM_API_KEY": "lm-studio", "KEY_FOLDER": "/tmp/keys/mine",
        "MAX_TOKENS": "200000000",
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(name, value)


def study_of(folder, extra, end="", server=None):
    """Write such a study, with this extra of its model."""
    nobody = StubServer(url="http://127.0.0.1:9")
    return keyed_study(folder, server or nobody, "compatible", "single", f"extra = {extra}", end)


@pytest.mark.usefixtures("_variables")
@pytest.mark.parametrize(
    "shape", ["{{ {} = {} }}", "{{ deep = {{ er = [1, {{ {} = {} }}] }} }}", "{{ {} = [{}] }}"]
)
@pytest.mark.parametrize("name", NAMES)
def test_a_field_with_the_name_of_a_secret_is_refused_before_a_call(tmp_path, name, shape):
    """Whatever its value is; the line names the field and says where the key belongs."""
    path = study_of(tmp_path, shape.format(f'"{name}"', '"Qx7"'))
    with pytest.raises(StudyError, match="put it into an environment variable") as caught:
        Study.load(path)
    assert f"{name}" in str(caught.value)
    assert "Qx7" not in str(caught.value)


@pytest.mark.usefixtures("_variables")
@pytest.mark.parametrize("kind", FORMS)
def test_a_secret_is_refused_in_a_study_file_and_a_grid_and_goes_from_what_comes_back(tmp_path, kind):
    """Under any name, as a value and as a name, in a note as in an extra; in text, in JSON and in a message."""
    secret = FORMS[kind]
    text = json.dumps(secret)
    for path in (
        study_of(tmp_path, f"{{ harmless = {text} }}"),
        study_of(tmp_path, f"{{ {text} = 1 }}"),
        study_of(tmp_path, "{}", f"note = {json.dumps(f'With {secret} in it')}"),
        study_of(tmp_path, "{}", f"[sampling.extra]\nx = [{text}]"),
    ):
        with pytest.raises(StudyError, match="environment variable") as caught:
            Study.load(path)
        assert secret not in str(caught.value)
    template = write_notebook(tmp_path / "t.ipynb", "x = None")
    with pytest.raises(InputError, match=r"x\[0\] .*environment variable") as refused:
        check_parameters(template, {"x": [secret]})
    assert secret not in str(refused.value)
    for shown in (redacted(f"see {secret} there"), redacted_json(json.dumps({"a": f"see {secret} there"}))):
        assert secret.split("\n")[-1] not in shown
        assert "see " in shown
        assert " there" in shown
    assert secret not in redacted_words(secret) + str(InputError(secret))
    # What was asked with is in the store anyway; a value of the environment is refused before it is asked.
    assert (redacted(secret, f"quote {secret}") == secret) == (
        kind not in ("a variable", "a password of an address")
    )


@pytest.mark.parametrize("name", ["secrets", "api_key", "Authorization", "token"])
@pytest.mark.parametrize("values", ["one-of-16-letters-1", ["a1b2c3d4e5f6g7h8", "one-of-16-letters-2"]])
def test_every_value_of_a_secret_field_in_what_comes_back_is_blacked_out(name, values):
    """Also the second one of a list; its neighbours stay."""
    shown = json.loads(redacted_json(json.dumps({"id": "r1", name: values, "list": ["x", "y"]})))
    blacked = "[key]" if isinstance(values, str) else ["[key]"] * 2
    assert shown == {"id": "r1", name: blacked, "list": ["x", "y"]}


@pytest.mark.usefixtures("_variables")
def test_ordinary_text_and_parameters_stay_as_they_are(tmp_path):
    """Incidents tell of passwords, tokenizers have tokens, datasets have hashes."""
    for text in ORDINARY:
        assert redacted(text) == text
        reply = {
            "content": text,
            "logprobs": [{"token": "abc"}, {"token": "\u4f60\u597d\u5417"}],
            "key": "a-1",
        }
        assert redacted_json(json.dumps(reply)) == json.dumps(reply)
    extra = (
        '{ max_tokens_to_sample = 5, key_findings = "yes", prompt_cache_key = "study-1", stop = ["</s>"], pad_token = '
        '"<pad>", tokenizer = "o200k", user = "researcher", pass_k = 3, logit_bias = { 50256 = -100 } }'
    )
    note = json.dumps(" ".join(ORDINARY))
    assert Study.load(study_of(tmp_path, extra, f"note = {note}")).file.models[0].extra


@pytest.mark.usefixtures("_variables")
def test_a_secret_echoed_in_a_reply_that_was_paid_for_is_in_no_file_and_no_output(
    tmp_path, store_folder, capfd
):
    """In model, id, text and fields beside them; the call is what it was, and the ledger gives the study again."""
    secrets = [secret for kind, secret in FORMS.items() if kind != "PEM"]

    def echoing(reply):
        said = f"{ORDINARY[0]} {' '.join(secrets)}"
        reply["choices"][0]["message"]["content"] = said
        reply |= {"id": f"id-{OF_A_VARIABLE}", "model": f"m {OF_A_VARIABLE}"}
        return reply | {"headers": {"Authorization": "Qx7Qx7"}}

    with StubServer(change=echoing) as server:
        path = study_of(tmp_path, "{}", server=server)
        with pytest.raises(SystemExit) as ended:
            main(["run", str(path), "--yes", "--json"])
        assert ended.value.code == 0
    with Study.load(path) as study:
        calls = list(study.store.each_where(Call, {"purpose": "run"}))
        assert {call["_id"] for call in calls} == set(study.plan.call_ids)
        assert all(call["text"].startswith(ORDINARY[0]) for call in calls)
        assert verify_study(study).fields["differences"] == []
        study.figures(only=["model_means"])
    out, err = capfd.readouterr()
    content = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and file != path]
    for secret in [*secrets, "Qx7Qx7"]:
        assert secret not in out + err
        assert not [part for part in content if secret.encode() in part], secret


def test_a_secret_that_is_json_itself_costs_no_reply(tmp_path, store_folder, monkeypatch):
    """Credentials are often JSON: an echo of them in the reply's own JSON is blacked out, and the reply is kept."""
    monkeypatch.setenv("CLOUD_CREDENTIALS", '{"type": "account", "id": "q7"}')
    echo = {"account": {"type": "account", "id": "q7"}}
    with StubServer(change=lambda reply: reply | echo) as server:
        path = study_of(tmp_path, "{}", server=server)
        with Study.load(path) as study:
            assert study.execute(progress=False).failed == 0
            calls = list(study.store.each_where(Call, {"purpose": "run"}))
    assert calls
    assert all(call["state"] == "done" and '"q7"' not in call["raw"] for call in calls)
    assert all(answer_of(call).reply.text for call in calls)


@pytest.mark.usefixtures("_variables")
def test_a_prompt_with_the_value_of_a_variable_is_asked_of_nobody(tmp_path, store_folder):
    """It would be sent and stored, and no reply could be told from it."""
    (tmp_path / "q.csv").write_text(f"prompt,answer\nWho has {OF_A_VARIABLE}?,a\nWho?,b\n")
    path = tmp_path / "s.toml"
    model = '{ name = "m", provider = "scripted", replies = ["a"] }'
    path.write_text(
        f'name = "s"\ntest = "keyed"\ndataset = "q.csv"\nmodels = [{model}]\n[options]\nscorer = "label"\n'
    )
    with pytest.raises(StudyError, match="holds the value of the variable MY_SERVICE_SECRET") as caught:
        repr(Study.load(path).plan)
    assert OF_A_VARIABLE not in str(caught.value)


@pytest.mark.usefixtures("_variables")
def test_a_notebook_of_a_batch_holds_no_secret_and_takes_the_place_of_nothing(tmp_path):
    """Neither its outputs, nor its traceback, nor its record; a folder of others is refused before anything runs."""
    printed = "import os\nx = 0\nsecret = os.environ['MY_SERVICE_SECRET']\nprint('it is', secret)"
    template = write_notebook(tmp_path / "t.ipynb", printed, "raise ValueError(f'no {secret}')")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "summary.csv").write_text("mine")
    with pytest.raises(InputError, match=r"not of batch t, such as summary.csv"):
        run_batch(template, {"list": [{"x": 1}]}, out=tmp_path / "mine", progress=False)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["summary.csv"]
    done = run_batch(template, {"list": [{"x": 1}]}, out=tmp_path / "out", progress=False)
    assert "ValueError: no [key]" in done.cells[0].error
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert any(b"it is [key]" in path.read_bytes() for path in files)
    assert not [path for path in files if OF_A_VARIABLE.encode() in path.read_bytes()]
