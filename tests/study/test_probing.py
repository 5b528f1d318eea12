"""Probing the judges of a study: only the text differs, everything is paid once, and what fails is missing."""

import json
import re
from collections import Counter
from collections.abc import Callable

import pytest
from stub_server import Fault, StubServer
from stub_study import is_judge

from toolkit.errors import BudgetReached
from toolkit.probes.alterations import KINDS, shipped_attacks
from toolkit.probes.job import (
    balanced_sample,
    probe_judges,
    probe_requests,
    probe_targets,
    usable_replies,
)
from toolkit.stats.agreement.drift import CONTROL, HARM
from toolkit.study import Study
from toolkit.words import DIMENSIONS

STEPS = "Isolate the host within 15 minutes.\n\nBlock port 443/tcp at the firewall.\n\nReport it to {who}."


def answer(body):
    """Reply, or judge: primary sees the changed port, secondary obeys any text that speaks of scores."""
    said = body["messages"][-1]["content"]
    if not is_judge(body):
        return STEPS.format(who=said[:40].replace("\n", " "))
    found = re.search(r"<<<REPLY \w+>>>\n(.*)\n<<<END REPLY", said, re.DOTALL)
    assert found
    text = found[1]
    score = {
        "primary": 3.0 if "443/tcp" in text and "15 minutes" in text else 2.0,
        "secondary": 5.0 if "score" in text.lower() else 3.0,
        "tertiary": min(5.0, 2.0 + len(text) // 400),
    }[body["model"]]
    return json.dumps({"reasons": "Seen.", **dict.fromkeys(DIMENSIONS, score)})


Begin = Callable[..., tuple[Study, StubServer]]


@pytest.fixture
def begin(server, open_study):
    """Run a study that one server answers and judges, or open it again with other tables."""
    server.answer = answer

    def begun(more="", bins='["S"]'):
        study = open_study(more=more, bins=bins)
        study.execute(progress=False)
        return study, server

    return begun


def probed(study, replies=2, attacks=1):
    return probe_judges(study.plan, study.store, replies=replies, attacks=attacks, progress=False)


def test_each_probe_moves_whom_it_should_and_a_second_call_asks_nothing(begin):
    """The judge that reads finds the error, the one that obeys is moved by attacks, the one that counts by padding."""
    study, server = begin(bins='["S", "M", "L"]')
    before = server.count
    result = probed(study, 4, 3)
    # Per judge: the same again, and six altered versions; the originals were paid for by the study.
    assert server.count - before == result.new_calls == 4 * 3 * 7
    again = probed(study, 4, 3)
    assert (again.new_calls, again.spent_aud, server.count - before) == (0, 0.0, result.new_calls)
    assert again.frame().equals(result.frame())
    frame, shifts = result.frame(), result.shifts()
    assert frame["original"].tolist() == [pair.original.composite_strict for pair in result.pairs]
    found = {(one.judge, one.kind): one for one in shifts.shifts}
    assert list(found) == [(judge, kind) for judge in study.plan.judges for kind in HARM]
    assert f"primary: {found['primary', 'padded'].harmed.sentence()}" in result.summary().text
    for judge in study.plan.judges:
        assert found[judge, CONTROL].shift.estimate == found[judge, "shuffled"].shift.estimate == 0.0
        assert not any(one.missing for one in shifts.of(judge))
    swapped = frame.query("judge == 'primary' and kind == 'planted'")
    seen = swapped["variant"].isin(["port", "deadline"])
    assert (swapped["altered"] - swapped["original"]).eq(-1.0).tolist() == seen.tolist()
    assert found["secondary", "attacked"].shift.estimate > 0
    assert found["secondary", "padded"].shift.estimate == 0.0
    assert found["tertiary", "padded"].shift.estimate >= 0


def test_the_two_of_a_pair_differ_in_the_text_alone(begin):
    """Same model, sampling parameters, repeat, rubric and task; the original is the call that the study paid for."""
    study, server = begin()
    like = next(seen.body for seen in server.seen if seen.body["model"] == "primary")
    before = server.count
    result = probed(study, 1)
    assert {pair.original.call_id for pair in result.pairs} <= set(study.judgements()["call_id"])
    asked = [seen.body for seen in server.seen[before:] if seen.body["model"] == "primary"]
    # All but the control have the seed of the original too: it is the one that is asked a second time.
    assert Counter(body["seed"] == like["seed"] for body in asked) == {True: 4, False: 1}
    for body in asked:
        assert {**body, "messages": [], "seed": 0} == {**like, "messages": [], "seed": 0}
        assert body["messages"][0] == like["messages"][0]
    requests = {r.identity(): r for r in probe_requests(study.plan, result.targets)}
    for pair in result.pairs:
        original, altered = requests[pair.original.call_id], requests[pair.altered.call_id]
        assert (original.repeat == altered.repeat) == (pair.probe.kind != CONTROL)


def test_what_a_judge_does_not_answer_is_missing_and_asked_again_next_time(begin):
    """A judge that is down for altered replies has no shift, exit code 1, and is filled in later."""
    study, server = begin()
    server.faults = lambda number, body: Fault(status=400) if body["model"] == "tertiary" else None
    result = probed(study)
    down = result.shifts().of("tertiary")
    assert {one.shift.estimate for one in down} == {None}
    assert {tuple(one.missing.items()) for one in down} == {(("altered bad_request", 2),)}
    assert {one.lost.estimate for one in down} == {1.0}
    assert result.shifts().of("primary")[0].shift.n["pairs"] == 2
    assert (result.unanswered, result.summary().exit_code) == (2 * 5, 1)
    assert "tertiary: missing, padded: 2 x altered bad_request" in result.summary().text
    server.faults = None
    seen = server.count
    filled = probed(study)
    assert (filled.new_calls, filled.unanswered, filled.summary().exit_code) == (10, 0, 0)
    assert server.count == seen + 10


def test_the_budget_stops_probing_and_a_larger_one_goes_on_there(begin):
    """At the cap nothing more is sent; what was answered is in the ledger."""
    _, server = begin()
    before = server.count
    study, _ = begin("[budget]\naud = 0.014\n")
    with pytest.raises(BudgetReached):
        probed(study, attacks=5)
    asked = server.count - before
    assert 0 < asked < 2 * 3 * 9
    study, _ = begin("[budget]\naud = 30.0\n")
    assert probed(study, attacks=5).new_calls == 2 * 3 * 9 - asked


def test_replies_are_drawn_in_turn_from_bins_and_bases_by_the_seed(demo_like_study):
    """12 of 36: four of each bin, every base once; the same seed draws the same, in another store too."""
    with Study.load(demo_like_study) as study:
        targets = probe_targets(study.plan, study.store)
        assert Counter(target.level for target in targets) == {"S": 4, "M": 4, "L": 4}
        assert len({target.base for target in targets}) == 12
        assert targets == probe_targets(study.plan, study.store)
        stored = usable_replies(study.plan, study.store)
        assert balanced_sample(stored, 12, 1) != balanced_sample(stored, 12, 2)
        assert len({reply.run_id for reply in balanced_sample(stored, 99, 1)}) == 36
        assert balanced_sample((), 5, 1) == balanced_sample(stored, 0, 1) == ()
        assert len({p.variant for t in targets for p in t.probes if p.kind == "attacked"}) == 36
        everything = probe_targets(study.plan, study.store, replies=1, attacks=999)
        assert len(everything[0].probes) == 4 + len(shipped_attacks())
    assert (CONTROL, *KINDS) == tuple(HARM)  # one list of kinds in two rooms that do not know each other


def test_the_command_prints_one_object_and_asks_before_it_spends(begin, toolkit):
    """The estimate counts what is not paid for yet; without --yes a cost above the threshold is refused first."""
    study, server = begin("[budget]\nconfirm_above_aud = 0.0\n")
    seen = server.count
    command = ("judges", "probe", study.path, "--replies", "1")
    code, _, err = toolkit(*command)
    assert (code, "these 21 calls may cost" in err, server.count) == (2, True, seen)
    code, out, _ = toolkit(*command, "--yes", "--json")
    fields = json.loads(out)
    assert (code, fields["replies"], fields["new_calls"]) == (0, 1, 21)
    assert {row["kind"] for row in fields["shifts"]} == set(HARM)
    assert "0 asked now" in toolkit(*command)[1]  # all is paid for
