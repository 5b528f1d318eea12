"""Judges in a study: killed one after another, asked again, repeated, related, shuffled, expected."""

import json
from collections.abc import Callable

import pytest
from stub_server import Fault
from stub_study import REASONED, is_judge

from toolkit.store.documents import Annotation, Rubric, Run
from toolkit.study import Study
from toolkit.words import DIMENSIONS

REPLY = "1. Block 192.0.2.7 at the firewall. 2. Keep the logs. The port is 443, e.g. HTTPS. Ask the owner."
AT = ", seed_supported = true, logprobs = true, structured = true"
FOCUS = "[bias_controls]\nfsp_enabled = true\n"
Begin = Callable[..., Study]


def answer(body):
    """Answer as a model or as a judge who gives four points."""
    return REASONED if is_judge(body) else f"{REPLY} {len(body['messages'][-1]['content'])}"


@pytest.fixture
def begin(server, open_study):
    """Open a study of six runs by models that take a schema and a seed and give log-probabilities."""
    server.answer = answer
    return lambda **more: open_study(also=AT, **more)


def asked_of(server):
    """Return how many requests each model got."""
    names = [seen.body["model"] for seen in server.seen]
    return {name: names.count(name) for name in dict.fromkeys(names)}


def test_one_judge_then_two_are_killed_in_the_middle_and_the_holes_are_filled_later(server, begin):
    """Aggregates rest on three, two and one judge; `toolkit run --only-judge` asks for what is missing alone."""
    judged = []

    def faults(number, body):
        if not is_judge(body):
            return None
        judged.append(body["model"])
        dead = {"tertiary"} if len(judged) > 6 else set()
        dead |= {"secondary"} if len(judged) > 12 else set()
        return Fault(status=400) if body["model"] in dead else None

    server.faults = faults
    study = begin()
    first = study.execute(progress=False)
    runs = study.runs()
    assert sorted(runs["judge_count"]) == [1, 1, 2, 2, 3, 3]
    assert list(runs["judged"]) == list(runs["judge_count"] >= 2)
    assert runs.loc[runs["judge_count"] < 2, "composite"].isna().all()
    assert (runs.loc[runs["judge_count"] >= 2, "composite"] == 4.0).all()
    assert first.judged == 4
    assert "`toolkit run STUDY --only-judge` asks the judges again" in first.summary().text
    again = study.execute(progress=False, only_judge=True).summary().text  # to no avail
    assert ("asks the judges again" in again, "name another judge for those that" in again) == (False, True)
    failed = study.judgements().query("failed")
    assert len(failed) == 6
    assert failed["failure"].str.startswith("bad_request").all()
    assert failed["composite"].isna().all()
    server.faults, before = None, asked_of(server)
    second = study.execute(progress=False, only_judge=True)
    new = {name: count - before[name] for name, count in asked_of(server).items()}
    assert new == {"answerer": 0, "primary": 0, "secondary": 2, "tertiary": 4}
    assert (second.judged, second.new_calls) == (6, 6)
    assert (study.runs()["judge_count"] == 3).all()
    assert study.execute(progress=False).new_calls == 0


def test_judges_judge_three_times_and_count_once(server, begin):
    """Test-retest: every time is a call and a judgement of its own, and the ensemble takes each judge's mean."""
    scores = iter(range(10**6))

    def wavering(body):
        if not is_judge(body):
            return answer(body)
        score = 3 + next(scores) % 3 if body["model"] == "primary" else 4
        return json.dumps({"reasons": "So.", **dict.fromkeys(DIMENSIONS, score)})

    server.answer = wavering
    study = begin(judges="repeats = 3", bins='["S"]')
    outcome = study.execute(progress=False)
    assert (outcome.succeeded, outcome.judged, outcome.new_calls) == (2, 2, 2 + 2 * 9)
    judgements = study.judgements()
    assert sorted(judgements["judge_repeat"]) == [0] * 6 + [1] * 6 + [2] * 6
    assert len({seen.body["seed"] for seen in server.seen if seen.body["model"] == "primary"}) == 3
    assert (study.runs()["judge_count"] == 3).all()
    of_primary = judgements.query("judge == 'primary'").groupby("run_id")["composite"].mean()
    runs = study.runs().set_index("run_id")
    for run_id, mean in of_primary.items():
        assert runs.loc[run_id, "composite"] == pytest.approx((mean + 4 + 4) / 3)
    status = {"planned": 6, "done": 6, "scored": 6, "failed": 0, "missing": 0, "left_out": 0}
    assert study.status()["judgements"] == status
    assert study.execute(progress=False).new_calls == 0
    assert study.estimate()["calls"].sum() == 0
    assert study.execute(progress=False, replay=True).judged == 2
    assert len(study.judgements()) == 18


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(("related", "count", "asked"), [("mark", 3, 6), ("exclude", 2, 0)])
def test_a_judge_of_the_model_s_own_family_is_marked_or_left_out(server, begin, related, count, asked):
    """The mark is in the frame and the caption; one that is left out is not even asked."""
    study = begin(judges=f'related = "{related}"', model=', family = "family-primary"')
    assert study.execute(progress=False).judged == 6
    assert asked_of(server).get("primary", 0) == asked
    assert (study.runs()["judge_count"] == count).all()
    assert study.judgements()["related"].sum() == asked
    told = study.status()["judgements"]
    assert (told["planned"], told["missing"]) == (6 * count, 0)
    assert study.estimate()["calls"].sum() == 0
    assert study.execute(progress=False).new_calls == 0
    run = study.store.objects(Run).first()
    assert run.ensemble_evaluation["aggregated"]["related_count"] == (1 if asked else 0)
    caption = next(p for p in study.figures(only=["judge_agreement"]) if p.suffix == ".txt").read_text()
    assert ("6 of 18 judgements are by a judge of the judged model's own family." in caption) == (asked > 0)


@pytest.mark.parametrize(
    "other",
    [{"judges": 'rubric = "seed-v1"'}, {"more": FOCUS}],
    ids=["rubric", "focus"],
)
def test_another_way_of_judging_judges_the_stored_replies_again_and_both_stay(server, begin, other):
    """No run is asked again; the first judgements are there still, and going back costs nothing."""
    study = begin()
    study.execute(progress=False)
    changed = begin(**other)
    two = dict.fromkeys(DIMENSIONS, 2)
    server.answer = lambda body: json.dumps(two if "judges" in other else {"reasons": "So.", **two})
    assert (changed.execute(progress=False).new_calls, asked_of(server)["answerer"]) == (18, 6)
    assert (changed.runs()["composite"] == 2).all()
    assert study.store.objects(Annotation).count() == 36
    contents = {rubric.name: json.loads(rubric.content) for rubric in study.store.objects(Rubric)}
    assert contents["default"]["version"] == study.plan.rubric.version
    assert set(contents) == {"default", changed.plan.rubric.name}
    back = begin()
    assert back.execute(progress=False).new_calls == 0
    assert (back.runs()["composite"] == 4).all()


def test_segment_by_segment_every_length_gets_the_same_requests_and_the_same_error_costs_the_same(
    server, begin
):
    """A wrong port in a reply of 4 and in one of 10 sentences costs one major finding in both; nothing else does."""
    short = "Block 192.0.2.7. Keep the logs. SSH is on port 443. Ask the owner."
    long = short + " Write down who did what." * 6

    def sees(body):
        text = body["messages"][-1]["content"]
        if not is_judge(body):
            return long if "T1566" in text or len(text) > 2500 else short
        names = list(body["response_format"]["json_schema"]["schema"]["properties"])
        if "findings" not in names:
            return json.dumps({name: "So." if name == "reasons" else 4 for name in names})
        wrong = {"what": "SSH is on 22", "dimension": "technical_accuracy", "severity": "major"}
        segment = text[text.index("<<<SEGMENT") : text.index("<<<END SEGMENT")]
        return json.dumps({"findings": [wrong] if "port 443" in segment else []})

    server.answer = sees
    study = begin(more=f'{FOCUS}fsp_mode = "per_sentence"')
    assert study.execute(progress=False).judged == 6
    judgements = study.judgements()
    details = {one["call_id"]: one["detail"] for one in study.store.database["annotations"].find()}
    segments = judgements["call_id"].map(lambda call: details[call]["segments"])
    assert set(segments) == {4, 10}
    requests = [seen.body["messages"] for seen in server.seen if is_judge(seen.body)]
    assert len(requests) == (segments + 1).sum()
    # One prefix for each prompt and its reply, whatever the segment and the judge.
    assert len({str(messages[:3]) for messages in requests}) == 6
    assert (judgements["technical_accuracy"] == 4.0).all()
    assert (judgements[["clarity", "relevance"]] == 5.0).all(axis=None)
    assert (judgements[["completeness", "actionability"]] == 4.0).all(axis=None)
    assert study.execute(progress=False).new_calls == 0
    assert study.status()["judgements"]["missing"] == 0


def test_expected_scores_stand_beside_the_sampled_ones_also_when_they_come_from_the_ledger(server, begin):
    """A judge between 4 and 5 has an expected score of its probabilities, and a replay reads it from the raw reply."""
    study = begin(judges="expected_scores = true", bins='["S"]')
    whole = json.dumps({"reasons": "So.", **dict.fromkeys(DIMENSIONS, 4)})
    server.answer = lambda body: whole if is_judge(body) else REPLY
    server.digits = {"4": 0.6, "5": 0.3, "x": 0.1}
    study.execute(progress=False)
    judgements = study.judgements()
    assert judgements["composite"].tolist() == [4.0] * 6
    assert judgements["expected_composite"].tolist() == pytest.approx([(0.6 * 4 + 0.3 * 5) / 0.9] * 6)
    assert judgements["expected_mass"].tolist() == pytest.approx([0.9] * 6)
    schema = next(seen.body for seen in server.seen if is_judge(seen.body))["response_format"]
    assert schema["json_schema"]["schema"]["properties"]["clarity"]["enum"] == [0, 1, 2, 3, 4, 5]
    study.store.database["annotations"].delete_many({})
    study.execute(progress=False, replay=True)
    again = study.judgements()
    assert again["expected_composite"].tolist() == judgements["expected_composite"].tolist()


def test_dimensions_are_asked_in_an_order_that_differs_from_task_to_task_and_repeats_itself(server, begin):
    """The order is the seed's: a second plan of the same study sends the same requests."""
    begin(judges="shuffle_dimensions = true").execute(progress=False)
    formats = [seen.body["response_format"] for seen in server.seen if is_judge(seen.body)]
    orders = {tuple(one["json_schema"]["schema"]["properties"]) for one in formats}
    assert len(orders) > 3
    for order in orders:  # the reason of each score stands before it
        assert order[::2] == tuple(f"{name}_reason" for name in order[1::2])
        assert sorted(order[1::2]) == sorted(DIMENSIONS)
    assert begin(judges="shuffle_dimensions = true").execute(progress=False).new_calls == 0
