"""Probing the judges of a study: only the text differs, everything is paid once, and what fails is missing."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from stub_server import Fault, StubServer

from toolkit import judge_probes as probing
from toolkit.errors import BudgetReached, InputError
from toolkit.judge_probes import (
    balanced_sample,
    cards_of,
    probe_judges,
    probe_requests,
    probe_targets,
    write_cards,
)
from toolkit.judges.alterations import KINDS, shipped_attacks
from toolkit.stats.agreement.probe_shift import CONTROL, HARM
from toolkit.study import Study
from toolkit.words import DIMENSIONS

STEPS = "Isolate the host within 15 minutes.\n\nBlock port 443/tcp at the firewall.\n\nReport it to {who}."


def verdict(score: float) -> str:
    return json.dumps({"reasons": "Seen.", **dict.fromkeys(DIMENSIONS, score)})


def judge_of(body: dict) -> str | None:
    return body["model"] if body["model"] in ("primary", "secondary", "tertiary") else None


def reply_in(body: dict) -> str:
    """Return the reply that a judge was shown between the markers."""
    found = re.search(r"<<<REPLY \w+>>>\n(.*)\n<<<END REPLY", body["messages"][-1]["content"], re.DOTALL)
    assert found
    return found[1]


def answer(body: dict) -> str:
    """Reply, or judge: primary sees the changed port, secondary obeys any text that speaks of scores."""
    judge = judge_of(body)
    if judge is None:
        return STEPS.format(who=body["messages"][-1]["content"][:40].replace("\n", " "))
    text = reply_in(body)
    if judge == "primary":
        return verdict(3.0 if "443/tcp" in text and "15 minutes" in text else 2.0)
    if judge == "secondary":
        return verdict(5.0 if "score" in text.lower() else 3.0)
    return verdict(min(5.0, 2.0 + len(text) // 400))


def stub_study(folder: Path, address: str, extra: str = "", bins: str = '["S", "M", "L"]') -> Path:
    price = "usd_per_million_input = 1.0, usd_per_million_output = 2.0"
    server = f'provider = "compatible", base_url = "{address}", {price}'
    judges = "\n".join(
        f'{role} = {{ name = "{role}", {server} }}' for role in ("primary", "secondary", "tertiary")
    )
    path = folder / "stub.toml"
    path.write_text(
        f'name = "stub"\noutput = "results/stub"\nscenarios = ["CTI_ANALYSIS"]\nlength_bins = {bins}\n'
        f'models = [{{ name = "answerer", {server} }}]\n[judges]\n{judges}\n{extra}'
    )
    return path


def test_each_probe_moves_whom_it_should_and_a_second_call_asks_nothing(
    tmp_path: Path, store_folder: Path
) -> None:
    """The judge that reads finds the error, the one that obeys is moved by attacks, the one that counts by padding."""
    with StubServer(answer=answer) as server:
        study = Study.load(stub_study(tmp_path, server.openai_url))
        study.execute(progress=False)
        before = server.count
        result = probe_judges(study.plan, study.store, replies=4, attacks=3, progress=False)
        # Per judge: the same again, and six altered versions; the originals were paid for by the study.
        assert server.count - before == result.new_calls == 4 * 3 * 7
        again = probe_judges(study.plan, study.store, replies=4, attacks=3, progress=False)
        assert (again.new_calls, again.spent_aud, server.count - before) == (0, 0.0, result.new_calls)
    assert again.frame().equals(result.frame())
    found = {(one.judge, one.kind): one for one in result.shifts().shifts}
    assert set(found) == {(judge, kind) for judge in study.plan.judges for kind in HARM}
    for judge in study.plan.judges:
        assert found[judge, CONTROL].shift.estimate == found[judge, "shuffled"].shift.estimate == 0.0
        assert not any(one.missing for one in result.shifts().of(judge))
    swapped = result.frame().query("judge == 'primary' and kind == 'planted'")
    seen = swapped["variant"].isin(["port", "deadline"])
    assert (swapped["altered"] - swapped["original"]).eq(-1.0).tolist() == seen.tolist()
    assert found["secondary", "attacked"].shift.estimate > 0
    assert found["secondary", "padded"].shift.estimate == 0.0
    assert found["tertiary", "padded"].shift.estimate >= 0
    study.store.close()


def test_the_two_of_a_pair_differ_in_the_text_alone(tmp_path: Path, store_folder: Path) -> None:
    """Same model, sampling parameters, repeat, rubric and task; the original is the call that the study paid for."""
    with StubServer(answer=answer) as server:
        study = Study.load(stub_study(tmp_path, server.openai_url, bins='["S"]'))
        study.execute(progress=False)
        paid = set(study.judgements()["call_id"])
        like = next(seen.body for seen in server.seen if judge_of(seen.body) == "primary")
        before = server.count
        result = probe_judges(study.plan, study.store, replies=1, attacks=1, progress=False)
        assert {pair.original.call_id for pair in result.pairs} <= paid
        asked = [seen.body for seen in server.seen[before:] if judge_of(seen.body) == "primary"]
        assert len(asked) == 5
        # All but the control have the seed of the original too: it is the one that is asked a second time.
        assert Counter(body["seed"] == like["seed"] for body in asked) == {True: 4, False: 1}
        for body in asked:
            assert set(body) == set(like)
            for name in set(like) - {"messages", "seed"}:
                assert body[name] == like[name]
            assert body["messages"][0] == like["messages"][0]
    requests = {r.identity(): r for r in probe_requests(study.plan, result.targets)}
    for pair in result.pairs:
        original, altered = requests[pair.original.call_id], requests[pair.altered.call_id]
        assert (original.repeat == altered.repeat) == (pair.probe.kind != CONTROL)
    study.store.close()


def test_what_a_judge_does_not_answer_is_missing_and_asked_again_next_time(
    tmp_path: Path, store_folder: Path
) -> None:
    """A judge that is down for altered replies has no shift, exit code 1, and is filled in later."""

    def faults(number: int, body: dict) -> Fault | None:
        return Fault(status=400) if judge_of(body) == "tertiary" else None

    with StubServer(answer=answer) as server:
        study = Study.load(stub_study(tmp_path, server.openai_url, bins='["S"]'))
        study.execute(progress=False)
        server.faults = faults
        result = probe_judges(study.plan, study.store, replies=2, attacks=1, progress=False)
        down = result.shifts().of("tertiary")
        assert {one.shift.estimate for one in down} == {None}
        assert {tuple(one.missing.items()) for one in down} == {(("altered bad_request", 2),)}
        assert {one.lost.estimate for one in down} == {1.0}
        assert result.shifts().of("primary")[0].shift.n["pairs"] == 2
        assert (result.unanswered, result.summary().exit_code) == (2 * 5, 1)
        assert "tertiary: missing, padded: 2 x altered bad_request" in result.summary().text
        server.faults = None
        seen = server.count
        filled = probe_judges(study.plan, study.store, replies=2, attacks=1, progress=False)
        assert (filled.new_calls, filled.unanswered, filled.summary().exit_code) == (10, 0, 0)
        assert server.count == seen + 10
    study.store.close()


def test_the_budget_stops_probing_and_a_larger_one_goes_on_there(tmp_path: Path, store_folder: Path) -> None:
    """At the cap nothing more is sent; what was answered is in the ledger."""
    with StubServer(answer=answer) as server:
        path = stub_study(tmp_path, server.openai_url, bins='["S"]')
        study = Study.load(path)
        study.execute(progress=False)
        study.store.close()
        before = server.count
        path.write_text(path.read_text() + "[budget]\naud = 0.03\n")
        study = Study.load(path)
        with pytest.raises(BudgetReached):
            probe_judges(study.plan, study.store, replies=2, attacks=30, progress=False)
        asked = server.count - before
        assert 0 < asked < 2 * 3 * 34
        study.store.close()
        path.write_text(path.read_text().replace("aud = 0.03", "aud = 30.0"))
        study = Study.load(path)
        whole = probe_judges(study.plan, study.store, replies=2, attacks=30, progress=False)
        assert whole.new_calls == 2 * 3 * 34 - asked
        study.store.close()


def test_replies_are_drawn_in_turn_from_bins_and_bases_by_the_seed(demo_like_study: Path) -> None:
    """12 of 36: four of each bin, every base once; the same seed draws the same, in another store too."""
    study = Study.load(demo_like_study)
    targets = probe_targets(study.plan, study.store)
    assert Counter(target.length_bin for target in targets) == {"S": 4, "M": 4, "L": 4}
    assert len({target.base for target in targets}) == 12
    assert targets == probe_targets(study.plan, study.store)
    runs = study.plan.runs
    assert balanced_sample(runs, 12, 1) != balanced_sample(runs, 12, 2)
    assert len(balanced_sample(runs, 99, 1)) == len({run.key for run in balanced_sample(runs, 99, 1)}) == 36
    assert balanced_sample((), 5, 1) == balanced_sample(runs, 0, 1) == ()
    assert len({p.variant for t in targets for p in t.probes if p.kind == "attacked"}) == 36
    everything = probe_targets(study.plan, study.store, replies=1, attacks=999)
    assert len(everything[0].probes) == 4 + len(shipped_attacks())
    assert (CONTROL, *KINDS) == tuple(HARM)  # one list of kinds in two rooms that do not know each other
    study.store.close()


def test_a_study_without_replies_is_refused(study_file: Callable[..., Path]) -> None:
    study = Study.load(study_file())
    with pytest.raises(InputError, match="no stored reply to probe; run the study first"):
        probe_judges(study.plan, study.store, progress=False)
    study.store.close()


def test_cards_and_shifts_of_one_dimension_rest_on_the_study_and_on_its_probes(
    demo_like_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One card a judge; the files of a card are written where they should be."""
    study = Study.load(demo_like_study)
    result = probe_judges(study.plan, study.store, replies=2, attacks=1, progress=False)
    with pytest.raises(InputError, match="score 'beauty' is unknown"):
        result.frame("beauty")
    frame = result.frame("clarity")
    assert frame["original"].tolist() == [pair.original.scores["clarity"] for pair in result.pairs]
    cards = cards_of(study, result)
    assert [card.judge for card in cards] == ["primary", "secondary", "tertiary"]
    assert cards[0].agreement[0].n == {"answers": 36, "bases": 12}
    assert [one.kind for one in cards[0].probes] == list(HARM)
    assert not cards_of(study)[0].probes
    monkeypatch.setattr(probing, "cards_of", lambda study, result: cards[:1])  # drawing takes a second a card
    assert len(write_cards(study, result, tmp_path)) == 7
    caption = (tmp_path / "figures" / "judge_card_primary_probed.txt").read_text()
    assert "Scripted models answer and judge." in caption
    study.store.close()


def test_the_command_prints_one_object_and_asks_before_it_spends(
    tmp_path: Path, store_folder: Path, toolkit: Callable
) -> None:
    """The estimate counts what is not paid for yet; without --yes a cost above the threshold is refused first."""
    with StubServer(answer=answer) as server:
        path = stub_study(tmp_path, server.openai_url, "[budget]\nconfirm_above_aud = 0.0\n", bins='["S"]')
        study = Study.load(path)
        study.execute(progress=False)
        seen = server.count
        command = ("judges", "probe", path, "--replies", "1")
        code, _, err = toolkit(*command)
        assert (code, "these 21 calls may cost" in err, server.count) == (2, True, seen)
        code, out, _ = toolkit(*command, "--yes", "--json")
        fields = json.loads(out)
        assert (code, fields["replies"], fields["new_calls"]) == (0, 1, 21)
        assert {row["kind"] for row in fields["shifts"]} == set(HARM)
        assert "0 asked now" in toolkit(*command)[1]  # all is paid for
        study.store.close()
