"""Every way of judging on the planted study that ships: all is judged, and what breaks on the way is a reason."""

import asyncio
import json
import re

import pytest
from places import PLANTED

from toolkit.errors import ModelError
from toolkit.judges.request import JudgeSpec
from toolkit.models.scripted import ScriptedModel
from toolkit.probes.drift import drift_job, measure_drift
from toolkit.probes.job import ask_elements, probe_judges
from toolkit.prompts.dataset import load_dataset
from toolkit.store import embedded
from toolkit.study import Study
from toolkit.words import DIMENSIONS

FOCUS = '[bias_controls]\nfsp_enabled = true\nfsp_mode = "{}"'
PER_SENTENCE = FOCUS.format("per_sentence")
MODES = {
    "scores": "",
    "pairs": 'mode = "pairs"',
    "both": 'mode = "both"',
    "seed": 'rubric = "seed-v1"',
    "repeats": "repeats = 2",
    "shuffled": "shuffle_dimensions = true",
    "expected": "expected_scores = true",
    "references": "reference = true",
    "listed": FOCUS.format("listed"),
    "per_sentence": PER_SENTENCE,
    "normalized": f"{PER_SENTENCE}\nlength_normalization = true",
}


@pytest.fixture(scope="module")
def begin(tmp_path_factory):
    """Open the planted study, cut down to two bases and without planted failures, in one store for all."""
    folder = tmp_path_factory.mktemp("modes")
    names = ("prompt_id", "text", "base", "scenario", "category")
    prompts = [vars(prompt) for prompt in load_dataset("rq1_controlled").prompts[:6]]
    rows = (
        {name: prompt[name] for name in names} | {"reference": "So.", "length_bin": prompt["level"]}
        for prompt in prompts
    )
    (folder / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    opened = []

    def begin(name, judges="", **changes):
        text = PLANTED.read_text(encoding="utf-8")
        changes = {
            "name": f'"{name}"',
            "bases": "2",
            "repeats": "1",
            "output": f'"results/{name}"',
            **changes,
        }
        for key, value in changes.items():
            text = re.sub(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.MULTILINE)
        text = re.sub(r"failures = 0.0\d", "failures = 0.0", text)
        own, _, table = judges.partition("[")
        text = text.replace("[judges]\n", f"[judges]\n{own}\n") + (table and f"[{table}")
        path = folder / f"{name}.toml"
        path.write_text(text)
        opened.append(Study.load(path))
        return opened[-1]

    yield begin
    for study in opened:
        study.close()
    embedded.stop(folder / "results" / ".store")


QUICK = ("pairs",)


@pytest.mark.parametrize(
    "mode", [pytest.param(m, marks=[] if m in QUICK else pytest.mark.full) for m in MODES]
)
def test_every_mode_judges_all_replies(begin, mode):
    """No failure, nothing left to ask, and the judges differ by the severity that is planted."""
    study = begin(mode, MODES[mode], **({"dataset": '"own.jsonl"'} if mode == "references" else {}))
    outcome = study.execute(progress=False)
    assert (outcome.succeeded, outcome.failed, outcome.final, outcome.to_judge) == (18, 0, {}, 0)
    assert (outcome.judged, outcome.judgements_failed) == ((None, None) if mode == "pairs" else (18, 0))
    if mode in ("pairs", "both"):
        assert outcome.stages["votes"]["read"] == outcome.stages["votes"]["planned"] > 0
    if mode != "pairs":
        judgements = study.judgements()
        assert len(judgements) == 18 * 3 * (2 if mode == "repeats" else 1)
        means = judgements.groupby("judge", observed=True)[[*DIMENSIONS]].mean().mean(axis=1)
        if mode != "normalized":
            assert means["tertiary"] - means["primary"] == pytest.approx(-0.4, abs=0.2)
            assert means["primary"] == pytest.approx(3.0, abs=0.6 if mode == "references" else 0.4)
    assert study.execute(progress=False).new_calls == 0


@pytest.mark.parametrize("focus", ["", PER_SENTENCE])
def test_probes_elements_and_drift_have_an_answer_of_every_judge(begin, focus):
    study = begin(f"probed{len(focus)}", focus)
    study.execute(progress=False)
    plan, store = study.plan, study.store
    probes = probe_judges(plan, store, replies=2, attacks=1, progress=False)
    assert probes.unanswered == 0
    assert not probes.frame().query("made")["reason"].any()
    assert not any(judgement.failed for judgement in ask_elements(plan, store, progress=False))
    assert measure_drift(study, drift_job(plan, store, 3)).fields["unreadable"] == 0


def ends(*_):
    """Do what ends a coroutine with an error of its own."""
    raise StopIteration("the script is at its end")


def test_a_script_that_breaks_is_a_reason():
    request = JudgeSpec("primary", "judge", "scripted", "judge").request(())
    with pytest.raises(ModelError, match="StopIteration: the script") as error:
        asyncio.run(ScriptedModel(ends).ask(request))
    assert error.value.reason == "script_failed"


def test_a_parser_that_breaks_costs_no_reply(begin, monkeypatch):
    """The judgement is missing with the reason; once the parser is mended, a replay reads what was paid for."""
    study = begin("parser")
    with monkeypatch.context() as patch:
        patch.setattr("toolkit.judges.judgement.parse_judgement", ends)
        outcome = study.execute(progress=False)
    assert (outcome.judged, outcome.judgements_failed) == (0, 54)
    text = outcome.summary().text
    assert "final   54 x parser failed, not asked again: an error of the toolkit" in text
    assert (text.count("not estimable"), text.count("no reply has a score")) == (0, 1)
    assert "asks the judges again" not in text
    assert study.judgements()["aud_cost"].gt(0).all()
    again = study.execute(progress=False, replay=True)
    assert (again.judged, again.new_calls) == (18, 0)
