"""What was sent comes home and is kept, whatever fails beside it; and keys are missed before anything is sent."""

import json
from functools import partial

import pytest
from stub_server import DrawnFaults, Fault, StubServer
from stub_study import batch_study, is_judge, plain, stub_study

from toolkit.errors import InputError
from toolkit.models.prices import price_of
from toolkit.runs import gateway
from toolkit.runs.limits import RetryPolicy
from toolkit.store.documents import Call
from toolkit.study import Study

pytestmark = pytest.mark.usefixtures("store_folder")

PRICE = "usd_per_million_input = 1.0, usd_per_million_output = 2.0"
OWN = '''
"""Every reply is read by two judges at once, and the reader of item 7 has a bug."""
import asyncio

from toolkit.models.base import Message, ModelRequest
from toolkit.prompt_test import Measurement, Prompt, PromptResponseTest, PromptWithContext, ResultType, TestItem
from toolkit.prompt_test import mean_result


class Read(PromptResponseTest):
    name = "read"
    asks_judges = True

    def __init__(self, judges=(), bug=True):
        self.judges, self.bug, self.read = judges, bug, 0

    def make_test_items(self):
        return tuple(TestItem(f"i{n}", (PromptWithContext(Prompt(f"Number {n}?", f"i{n}")),)) for n in range(24))

    def annotators(self):
        return {judge.role: self.reader(judge) for judge in self.judges} | {"code": self.code}

    def reader(self, judge):
        async def read(reply, ask):
            text = f"{judge.role} reads {reply.prompt.prompt_id}"
            request = ModelRequest(judge.provider, judge.model, (Message("user", text),), endpoint=judge.endpoint)
            answer = await ask(request)
            self.read += 1
            return answer.reply.text

        return read

    async def code(self, reply, ask):
        if self.bug and reply.prompt.prompt_id == "i7":
            while self.read < 6:
                await asyncio.sleep(0.01)
            raise ZeroDivisionError("bug")

    def measure_quality(self, item_annotations):
        return [Measurement("x", 1.0, "share of items")]

    def result_types(self):
        return (ResultType("x", "share of items"),)

    def aggregate_measurements(self, measured_items):
        return [mean_result("x", measured_items, "x", "share of items")]
'''


def model(name, server, more=""):
    return f'{{ name = "{name}", provider = "compatible", base_url = "{server.openai_url}", {PRICE}{more} }}'


def own_study(folder, models, judges, more=""):
    (folder / "my_test.py").write_text(OWN)
    path = folder / "own.toml"
    roles = "\n".join(
        f"{role} = {judge}" for role, judge in zip(("primary", "secondary"), judges, strict=True)
    )
    path.write_text(
        f'name = "own"\ntest = "my_test.py:Read"\nmodels = [{", ".join(models)}]\n{more}\n'
        f"[judges]\n{roles}\ntertiary = false\n"
    )
    return path


def kept(store):
    """Return the ids that the server gave to the replies in the ledger, sorted."""
    return sorted(json.loads(call.raw)["id"] for call in store.objects(Call).filter(state="done"))


def answered(server, faults=None):
    drawn = faults.drawn if faults else {}
    return sorted(f"chatcmpl-{number}" for number in range(server.count) if drawn.get(number) is None)


FAULTS = (
    *(Fault(kind) for kind in ("hang", "drop", "half", "cut", "html")),
    *(Fault(status=status) for status in (429, 500, 529)),
)


@pytest.mark.parametrize(
    ("share", "bug"),
    [(0.0, "SystemExit"), (0.3, "ZeroDivisionError")],
    ids=["quiet", "chaos"],
)
def test_a_bug_in_an_annotator_loses_no_reply(tmp_path, monkeypatch, share, bug):
    """Judges' calls are under way when it raises or exits: the server answered n, n are kept, few more were begun."""
    monkeypatch.setattr(f"{__name__}.OWN", OWN.replace("ZeroDivisionError", bug))
    monkeypatch.setattr(gateway, "RetryPolicy", partial(RetryPolicy, first_wait=0.01, longest_wait=0.02))
    faults = DrawnFaults(7, {FAULTS: share})

    def of_others(number, body):  # the reply that the bug waits for might come last, or never
        return None if "Number 7?" in str(body) else faults(number, body)

    with StubServer(faults=of_others, latency=0.15) as server:
        judges = [model("a", server), model("b", server)]
        study = Study.load(
            own_study(tmp_path, [model("m", server)], judges, "concurrency = 8\ntimeout_seconds = 4")
        )
        with pytest.raises(InputError, match=f"annotator failed on item 'i7': .*{bug}.*bug"):
            study.execute(progress=False)
        assert answered(server, faults) == kept(study.store)
        calls = study.store.database["calls"]
        assert calls.count_documents({"state": "claimed"}) == 0
        # Of 48 judge calls those that were out when the bug showed, and no more.
        assert 6 <= calls.count_documents({"purpose": "judge", "state": "done"}) < 30


def test_a_key_that_is_missed_late_loses_no_reply(tmp_path, monkeypatch):
    """What a test of one's own asks its judges nobody knows beforehand: the first judge's replies are kept."""
    with StubServer(latency=0.15) as server:
        judges = [model("a", server), model("b", server, ', api_key_env = "SECOND_KEY"')]
        path = own_study(tmp_path, [model("m", server)], judges, "concurrency = 8\noptions = { bug = false }")
        monkeypatch.setenv("SECOND_KEY", "sk-second")
        study = Study.load(path)
        study.execute(progress=False)
        study.store.database["calls"].delete_many({"purpose": "judge"})
        before = server.count
        monkeypatch.delenv("SECOND_KEY")
        with pytest.raises(InputError, match="SECOND_KEY"):
            study.execute(progress=False)
        late = [f"chatcmpl-{number}" for number in range(before, server.count)]
        assert set(late) <= set(kept(study.store))


@pytest.mark.parametrize("judged", [False, True], ids=["model", "judge"])
def test_keys_are_missed_before_the_first_request(
    tmp_path,
    monkeypatch,
    toolkit,
    judged,
):
    """One line names every provider and variable, nothing is sent; what is finished needs no key any more."""
    keys = ("FIRST_KEY", "SECOND_KEY")
    for key in keys:
        monkeypatch.delenv(key, raising=False)

    with StubServer() as one, StubServer() as two:
        second = model("second", two, ', api_key_env = "SECOND_KEY"')
        models = [model("first", one, ', api_key_env = "FIRST_KEY"'), *([] if judged else [second])]
        judges = f"primary = {second}" if judged else "primary = false"
        path = tmp_path / "keys.toml"
        path.write_text(
            f'name = "keys"\nlength_bins = ["S"]\nscenarios = ["CTI_ANALYSIS"]\nmodels = [{", ".join(models)}]\n'
            f"[judges]\n{judges}\nsecondary = false\ntertiary = false\n"
        )
        for there in ((), keys[:1], keys[1:]):
            for key in there:
                monkeypatch.setenv(key, "sk-some-key")
            code, out, err = toolkit("run", path, "--yes")
            lacking = [key for key in keys if key not in there]
            assert (code, out, len(err.splitlines())) == (2, "", 1)
            assert [key for key in keys if f"compatible needs {key}" in err] == lacking
            assert "Nothing was sent" in err
            for key in there:
                monkeypatch.delenv(key)
        assert (one.count, two.count) == (0, 0)
        for key in keys:
            monkeypatch.setenv(key, "sk-some-key")
        assert toolkit("run", path, "--yes")[0] == 0
        seen = one.count, two.count
        assert min(seen) > 0
        for key in keys:
            monkeypatch.delenv(key)
        for command in (["run"], ["run", "--replay"], ["status"], ["estimate"]):
            assert toolkit(*command, path)[0] == 0
        assert (one.count, two.count) == seen
        # Only what is still to be asked needs its key.
        study = Study.load(path)
        database = study.store.database
        database["calls"].delete_many({"model": "second"})
        database["runs"].delete_many({"model": "second"})
        database["runs"].update_many({}, {"$set": {"ensemble_key": None}})
        database["annotations"].delete_many({})
        study.store.close()
        _, _, err = toolkit("run", path)
        assert [key for key in keys if f"compatible needs {key}" in err] == ["SECOND_KEY"]


def test_a_probe_whose_sibling_fails_keeps_what_was_sent(tmp_path, monkeypatch):
    """Outside of runs too: one judge of a probe lacks its key, which is missed before anything is sent."""
    from toolkit.probes.job import probe_judges

    with StubServer() as server:
        judges = [model("a", server), model("b", server, ', api_key_env = "SECOND_KEY"')]
        path = tmp_path / "probed.toml"
        path.write_text(
            f'name = "probed"\nlength_bins = ["S"]\nscenarios = ["CTI_ANALYSIS"]\nmodels = [{model("m", server)}]\n'
            f"[judges]\nprimary = {judges[0]}\nsecondary = {judges[1]}\ntertiary = false\n"
        )
        monkeypatch.setenv("SECOND_KEY", "sk-second")
        study = Study.load(path)
        study.execute(progress=False)
        seen = server.count
        monkeypatch.delenv("SECOND_KEY")
        with pytest.raises(InputError, match="compatible needs SECOND_KEY"):
            probe_judges(study.plan, study.store, replies=2, attacks=2, progress=False)
        assert server.count == seen
        monkeypatch.setenv("SECOND_KEY", "sk-second")
        asked = probe_judges(study.plan, study.store, replies=2, attacks=2, progress=False).new_calls
        assert server.count == seen + asked > seen
        monkeypatch.delenv("SECOND_KEY")
        assert probe_judges(study.plan, study.store, replies=2, attacks=2, progress=False).new_calls == 0


def test_a_reply_by_another_model_is_said_once_and_counts(tmp_path, toolkit):
    """Run and status name each pair with its calls; a dated version of the name is the model that was asked."""
    served = {
        "gpt-x": "gpt-x-2024-08-06",
        "gpt-y": "GPT-Y",
        "gpt-z": "gpt-z-mini\n2024",
        "gpt-w": "gpt-z-mini\n2024",
    }
    with StubServer(change=lambda reply: reply | {"model": served[reply["model"]]}) as server:
        path = tmp_path / "others.toml"
        path.write_text(
            f'name = "others"\nlength_bins = ["S"]\nscenarios = ["CTI_ANALYSIS"]\n'
            f"models = [{', '.join(model(name, server) for name in served)}]\n"
            "[judges]\nprimary = false\nsecondary = false\ntertiary = false\n"
        )
        for command in ("run", "status"):
            for arguments in ([command, path], [command, path, "--json"]):
                code, out, _ = toolkit(*arguments)
                assert code == 0
                if "--json" in arguments:
                    pairs = [
                        {"asked": asked, "answered_by": "gpt-z-mini 2024"} for asked in ("gpt-w", "gpt-z")
                    ]
                    assert json.loads(out)["answered_by_others"] == [pair | {"calls": 2} for pair in pairs]
                else:
                    for asked in ("gpt-w", "gpt-z"):
                        line = f"{asked} was asked, gpt-z-mini 2024 answered 2 calls"
                        assert out.count(line) == 1
                    assert out.count("was asked") == 2
        study = Study.load(path)
        assert (study.runs()["status"] == "succeeded").all()


WORDS = "isolate " * 900  # a token each, as the server counts and as we do
# What a provider's usage is instead of its count, and the tokens billed besides the words of a reply.
GAPS = {
    "input alone": (lambda usage: dict(list(usage.items())[:1]), 0),
    "reasoning beside": (
        lambda usage: {**usage, "reasoning_tokens": 1500, "total_tokens": usage["total_tokens"] + 1500},
        1500,
    ),
    "zeros": (lambda usage: dict.fromkeys(usage, 0), 0),
    "null": (lambda usage: None, 0),
    "2^39": (lambda usage: dict.fromkeys(usage, 2**39), 0),
}


@pytest.mark.parametrize(
    ("gap", "batch"),
    [
        *((gap, False) for gap in GAPS if gap != "2^39"),
        ("2^39", True),
        ("2^39", False),
        ("reasoning beside", True),
    ],
)
def test_what_is_booked_is_at_least_what_was_billed(tmp_path, monkeypatch, gap, batch):
    """Whatever is missing in a provider's usage; and the cap is never passed."""
    monkeypatch.setenv("BATCH_KEY", "sk-canary-0123456789")
    change, besides = GAPS[gap]

    def changed(reply):
        return {**reply, "usage": change(reply["usage"])}

    def answer(body):
        return plain(body) if is_judge(body) else WORDS

    with StubServer(answer=answer, change=changed) as server:
        path = batch_study(tmp_path, server, provider="openai")
        if not batch:
            path = stub_study(tmp_path, server.openai_url, more="[budget]\naud = 0.2")
        study = Study.load(path)
        study.execute(progress=False)
        calls = [call for call in study.store.objects(Call) if call.state == "done"]
        study.store.close()
        answered = server.count + sum(len(batch.requests) for batch in server.batches)
    usd = (server.input_tokens + 2 * (server.output_tokens + besides * answered)) / 1e6
    rate = price_of(study.plan.models["answerer"]).aud_per_usd
    billed = usd * rate * (0.5 if batch else 1.0)
    assert len(calls) == answered > 0
    assert sum(call.aud_cost for call in calls) >= billed * (1 - 1e-12)
    assert batch or sum(call.aud_cost for call in calls) <= 0.2
    assert any(call.tokens_estimated for call in calls) == (gap != "reasoning beside")
    assert all("doubt" in call.attempts[-1] for call in calls) == (gap == "2^39")
