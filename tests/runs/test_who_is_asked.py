"""Who is asked how much: equal calls once, nobody who is retired, limits shared, and who answered."""

import json
from dataclasses import replace

import pytest
from processes import unjudged_study
from stub_server import Fault, StubServer

from toolkit.errors import InputError, StudyError
from toolkit.models.base import Usage
from toolkit.models.catalogue import model_spec
from toolkit.models.prices import aud_cost, price_of
from toolkit.models.tokens import count_tokens
from toolkit.prompts.dataset import load_dataset
from toolkit.runs.estimate import EXPECTED_REPLY_TOKENS, confirm_needed, estimate_summary
from toolkit.runs.gateway import SHARE_ENV, at_once_of, endpoints_of, named_models, share_of
from toolkit.runs.provenance import asked_models
from toolkit.study import Study
from toolkit.words import DIMENSIONS

pytestmark = pytest.mark.usefixtures("store_folder")

PRICE = "usd_per_million_input = 1.0, usd_per_million_output = 2.0"
VERDICT = json.dumps(dict.fromkeys(DIMENSIONS, 3))


def equal_study(folder, server, more="", judges=""):
    """Write a study of 6 prompts of which every second is the text before it again, twice, with three judges."""
    texts = [prompt.text for prompt in load_dataset("demo").prompts if prompt.level == "S"][:3]
    rows = [
        {
            "prompt_id": f"p{n}_s",
            "text": texts[n // 2],
            "scenario": "CTI_ANALYSIS",
            "category": "c",
            "length_bin": "S",
        }
        for n in range(6)
    ]
    (folder / "equal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = f'provider = "compatible", base_url = "{server.openai_url}", structured = true, {PRICE}'
    roles = "\n".join(
        f'{role} = {{ name = "{role}", {model} }}' for role in ("primary", "secondary", "tertiary")
    )
    path = folder / "equal.toml"
    path.write_text(
        f'name = "equal"\ndataset = "equal.jsonl"\nrepeats = 2\nmodels = [{{ name = "m", {model} }}]\n{more}\n'
        f"[judges]\n{judges}\n{roles}\n"
    )
    return path


def by_model(server, since=0):
    """Return the requests that the server saw, of the model and of each judge."""
    seen = [one.body["model"] for one in server.seen[since:]]
    return [seen.count(name) for name in ("m", "primary", "secondary", "tertiary")]


def test_the_estimate_counts_what_will_be_asked(tmp_path):
    """12 runs are 6 calls and 18 judge calls, at the price of those, and paid calls are counted alike."""
    with StubServer() as server:
        study = Study.load(equal_study(tmp_path, server))
        frame = study.estimate()
        assert frame["calls"].tolist() == [6, 6, 6, 6]
        price = price_of(study.plan.models["m"])
        sent = sum(count_tokens(text) for text in {run.prompt.text for run in study.plan.runs}) * 2
        expected = aud_cost(Usage(sent, 6 * EXPECTED_REPLY_TOKENS), price)
        assert frame["expected_aud"][0] == pytest.approx(expected)
        study.execute(progress=False)
        assert by_model(server) == frame["calls"].tolist()
        after = study.estimate()
        assert (after["calls"].tolist(), after["paid_calls"].tolist()) == ([0] * 4, [6] * 4)


def test_equal_replies_share_judges_that_do_not_see_the_task(tmp_path):
    """Before they came nobody knows; from then on the estimate is exact, and so is what is asked."""
    refused = [True]

    def faults(number, body):
        return Fault(status=400) if refused[0] and body["model"] != "m" else None

    with StubServer(
        faults=faults, answer=lambda body: "Isolate the host." if body["model"] == "m" else VERDICT
    ) as server:
        study = Study.load(equal_study(tmp_path, server, judges='rubric = "seed-v1"'))
        frame = study.estimate()
        assert frame["calls"].tolist() == [6, 6, 6, 6]
        study.execute(progress=False)
        left = study.estimate()
        assert left["calls"].tolist() == [0, 2, 2, 2]
        refused[0], since = False, server.count
        study.execute(progress=False)
        assert by_model(server, since) == left["calls"].tolist()
        assert study.estimate()["paid_calls"].tolist() == [6, 2, 2, 2]


@pytest.mark.parametrize(("confirm", "asks"), [(0.01, True), (0.03, False)])
def test_no_more_is_confirmed_than_the_budget_lets_out(tmp_path, confirm, asks):
    """The worst case is a dollar, but the budget stops before."""
    with StubServer() as server:
        study = Study.load(
            equal_study(tmp_path, server, more=f"budget = {{ aud = 0.02, confirm_above_aud = {confirm} }}")
        )
        frame = study.estimate()
        assert frame["worst_aud"].sum() > 0.1
        if asks:
            with pytest.raises(Exception, match=r"may cost AUD 0\.02"):
                confirm_needed(frame, confirm)
        else:
            confirm_needed(frame, confirm)


DAY = "2026-01-31"


@pytest.fixture
def study(study_file):
    """Six runs and eighteen judgements by scripted models."""
    return Study.load(study_file())


def retire(study, *, model="", role="", day=DAY):
    """Return the study as if a provider had retired one of its models."""
    models, judges = dict(study.plan.models), dict(study.plan.judge_models)
    for specs, name in ((models, model), (judges, role)):
        if name:
            specs[name] = replace(specs[name], retired=day)
    other = Study(study.file, study.path)
    vars(other).update(plan=replace(study.plan, models=models, judge_models=judges), store=study.store)
    return other


@pytest.mark.parametrize("which", [{"model": "scripted"}, {"role": "secondary"}])
def test_nothing_is_sent_before_the_study_names_another(study, which):
    """Neither to the retired one nor to the others; the line says which, since when, and what to do."""
    with pytest.raises(
        StudyError, match=f"retired by their providers: .* since {DAY}. Nothing was sent: name"
    ):
        retire(study, **which).execute(progress=False)
    assert study.store.database["calls"].count_documents({}) == 0


def test_what_a_retired_model_said_counts_on(study):
    """A finished study runs as before; a judge of one that is not judged is refused, but not where it only asks."""
    assert study.execute(progress=False).judged == 6
    gone = retire(study, model="scripted", role="secondary")
    assert (gone.execute(progress=False).new_calls, gone.execute(progress=False, replay=True).judged) == (
        0,
        6,
    )


def test_a_retired_model_keeps_nobody_from_judging_its_answers(study):
    """Only judges are asked then."""
    study.execute(progress=False)
    for name in ("judgements", "runs"):
        study.store.database[name].delete_many({})
    study.store.database["calls"].delete_many({"purpose": "judge"})
    gone = retire(study, model="scripted")
    assert gone.execute(progress=False).judged == 6


def test_an_announced_end_is_no_end(study):
    """Until the day it is asked; the estimate says the day, and afterwards that the study will not start."""
    ahead = retire(study, role="primary", day="9999-01-01")
    assert "is served until 9999-01-01" in estimate_summary(ahead.estimate()).text
    gone = estimate_summary(retire(study, role="primary").estimate())
    assert f"was retired by its provider on {DAY}: this study will not start" in gone.text
    assert ahead.execute(progress=False).judged == 6
    assert "retired" not in estimate_summary(retire(study, role="primary").estimate()).text


LIMITS = {"compatible": {"concurrency": 5, "requests_per_minute": 61, "tokens_per_minute": 1000}}


def test_a_limit_is_divided_and_rounded_down(tmp_path, monkeypatch):
    """Two notebooks of 5 requests at once have 2 each: together never more than the study says."""
    study = unjudged_study(tmp_path, "http://127.0.0.1:9", limits=LIMITS)
    (alone,) = endpoints_of(study.plan)
    assert (alone.concurrency, alone.requests_per_minute, alone.tokens_per_minute) == (5, 61, 1000)
    monkeypatch.setenv(SHARE_ENV, "2")
    (shared,) = endpoints_of(study.plan)
    assert (shared.concurrency, shared.requests_per_minute, shared.tokens_per_minute) == (2, 30, 500)


def test_a_limit_too_small_to_be_shared_is_refused(monkeypatch):
    """The line names the limit and how many may run at once; a default of ours gives way instead."""
    monkeypatch.setenv(SHARE_ENV, "4")
    with pytest.raises(
        InputError, match=r"limits.openai.concurrency: 3 cannot be shared by 4 .* --workers 3"
    ):
        share_of(3, "limits.openai.concurrency")
    assert share_of(3, None) == 1


def test_a_local_model_is_asked_one_at_a_time_and_a_provider_ten(study):
    """Unless the study says otherwise: the local one works on one request."""
    (entry, _), *_ = named_models(study.plan)
    assert [at_once_of(study.plan, entry, model_spec(name)) for name in ("smollm2-135m", "gpt-4o")] == [1, 10]


@pytest.mark.parametrize("text", ["", "x", "0", "-1"])
def test_a_share_that_is_none_is_the_whole(monkeypatch, text):
    """Only a batch sets it; whatever else stands there divides nothing."""
    monkeypatch.setenv(SHARE_ENV, text)
    assert share_of(0.5, "limit") == 0.5


PRICES = "usd_per_million_input = 1, usd_per_million_output = 2"
STUDY = f"""
name = "%s"
models = [{{ name = "scripted", {PRICES} }}]
scenarios = ["CTI_ANALYSIS"]
[judges]
primary = {{ name = "judge-a", provider = "scripted", {PRICES} }}
secondary = {{ name = "judge-b", provider = "scripted", replies = ["Good."], {PRICES} }}
tertiary = {{ name = "judge-c", provider = "scripted", {PRICES} }}
"""


@pytest.mark.parametrize("first", [True, False], ids=["who paid", "who shares the calls"])
def test_calls_and_cost_are_those_of_the_frame(tmp_path, first):
    """A second study that asks the same shares every call, the repairs of a judge who writes prose too."""
    for name in ("one", "two"):
        path = tmp_path / f"{name}.toml"
        path.write_text(STUDY % name)
        study = Study.load(path)
        study.execute(progress=False)
        if first:
            break
        study.store.close()
    study = Study.load(path)
    calls = study.calls()
    said = asked_models(study.plan, study.store, study.judgements()["call_id"].dropna())
    assert len(calls) == 6 + 18 + 6  # one repair of each reply that could not be read
    assert set(calls["paid_by"]) == {"one"}
    assert sum(one.calls for one in said) == len(calls)
    assert sum(one.aud for one in said) == pytest.approx(calls["aud_cost"].sum(), rel=1e-12)
    assert calls["aud_cost"].sum() > 0
