"""Hallucination judges: the seed's words, k votes and what they say together, and how often they are right."""

import asyncio
import itertools
import json
import random
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from cases import cases
from small_study import STUDY
from stub_server import Fault

from toolkit.cli import MODES as COMMAND_MODES
from toolkit.errors import BudgetReached, InputError, ModelError
from toolkit.hallucination.comparison import (
    compare_hallucination,
    comparison_requests,
    hallucination_tasks,
)
from toolkit.hallucination.labelled import OWN, LabelledItem, some_items
from toolkit.hallucination.votes import (
    MODES,
    MOST_VOTES,
    conversation,
    hallucination_requests,
    judge_hallucination,
)
from toolkit.judges.request import JudgeSpec
from toolkit.models.base import Answer, ModelReply, Usage
from toolkit.study import Study

CASES = cases(__file__)

SEED = tomllib.loads((Path(__file__).parent / "data" / "seed_004.toml").read_text("utf-8"))
SEED_ITEM = LabelledItem(**SEED["item"])
CLOSED = LabelledItem("closed", "Which port?", "Port 22.", documents="sshd listens on 2222.")
SHAPES = [SEED_ITEM, replace(SEED_ITEM, reference=None), CLOSED, replace(CLOSED, reference="Port 2222.")]
SPEC = JudgeSpec("primary", "judge-a", "scripted", "judge-a-2025", seed=7)


def requests_of(*given):
    """The requests that put one answer to one judge."""
    return tuple(hallucination_requests(*given))


# --- one judge on one answer ----------------------------------------------------------------------------------------


def voted(*said, mode="boolean"):
    """What a judge makes of the seed's item where it answers in this order."""
    requests = []

    async def ask(request):
        requests.append(request)
        one = said[request.repeat % MOST_VOTES]
        await asyncio.sleep(0)
        if isinstance(one, BaseException):
            raise one
        reply = one if isinstance(one, ModelReply) else ModelReply(one, "stop", Usage(90, 9), "m")
        return Answer(request.identity(), reply, 0.01, 5.0, 1, False)

    judging = judge_hallucination(SEED_ITEM, judge=SPEC, ask=ask, mode=mode, k=len(said))
    try:
        return asyncio.run(judging), requests
    except BudgetReached:
        assert len(requests) == len(said)  # nothing that was paid for is left behind
        raise


@pytest.mark.parametrize(
    ("mode", "prompt"), [("boolean", SEED["boolean"]), ("cot-seed", SEED["boolean"] + SEED["explain"])]
)
def test_the_open_domain_prompts_of_the_seed_are_sent_to_the_letter(mode, prompt):
    """Three messages, word for word and line for line, with the seed's sampling parameters and k."""
    requests = requests_of(SEED_ITEM, SPEC, mode, 5)
    assert len(requests) == 5
    for request in requests:
        said = [(message.role, message.content) for message in request.messages]
        assert said == [("user", prompt), ("assistant", SEED["greeting"]), ("user", SEED["texts"])]
        assert (request.temperature, request.max_tokens, request.top_p) == (0.5, 256, 1.0)
        assert request.response_schema is None
    (request,) = requests_of(CLOSED, replace(SPEC, temperature=None, endpoint="http://x/v1"), "score", 1)
    assert (request.temperature, request.top_p, request.endpoint) == (None, None, "http://x/v1")


@pytest.mark.parametrize("mode", MODES)
def test_every_shape_of_item_has_its_own_words_and_they_go_first(mode):
    """The prompt counts the texts that are sent, and names the document where there is one; providers can cache it."""
    prompts = [conversation(item, mode) for item in SHAPES]
    assert len({prompt[0].content for prompt in prompts}) == 4
    for item, prompt in zip(SHAPES, prompts, strict=True):
        texts = [text for text in (item.documents, item.question, item.reference, item.answer) if text]
        assert f"Given {('two', 'three', 'four')[len(texts) - 2]} texts," in prompt[0].content
        assert ("document" in prompt[0].content) is (item.documents is not None)
        assert ("perfect answer" in prompt[0].content) is (item.reference is not None)
        places = [prompt[2].content.index(text) for text in texts]
        assert places == sorted(places)
        assert not re.search(r"\{[a-z_]+\}", "".join(message.content for message in prompt))
    other = replace(CLOSED, item_id="b", question="Who?", answer="You.", documents="Nobody.")
    assert conversation(CLOSED, mode)[:2] == conversation(other, mode)[:2]


def test_k_calls_differ_in_repeat_and_seed_alone_and_two_judges_never_share_one():
    """Repeats are 0 to k - 1, the seed goes with them where the provider takes one, and a larger k keeps the first."""
    plain = requests_of(CLOSED, SPEC, "cot", 3)
    assert [(request.repeat, request.seed) for request in plain] == [(0, None), (1, None), (2, None)]
    seeded = requests_of(CLOSED, replace(SPEC, seed_supported=True), "cot", 3)
    assert [(request.repeat, request.seed) for request in seeded] == [(0, 7), (1, 8), (2, 9)]
    assert len({request.messages for request in (*plain, *seeded)}) == 1
    assert requests_of(CLOSED, SPEC, "cot", 5)[:3] == plain
    second = requests_of(CLOSED, replace(SPEC, role="secondary", repeat=1), "cot", MOST_VOTES)
    first = requests_of(CLOSED, SPEC, "cot", MOST_VOTES)
    assert len({request.identity() for request in (*first, *second)}) == 2 * MOST_VOTES
    renamed = replace(SPEC, role="tertiary", specialization="x", temperature=0.9, max_tokens=7)
    assert requests_of(CLOSED, renamed, "cot", 3) == plain


def test_what_cannot_be_asked_is_refused():
    for k in (0, -1, MOST_VOTES + 1):
        with pytest.raises(InputError, match=f"k is {k}"):
            requests_of(CLOSED, SPEC, "cot", k)
    with pytest.raises(InputError, match="boolean, cot-seed, cot, score"):
        requests_of(CLOSED, SPEC, "maybe", 5)
    assert COMMAND_MODES == MODES  # spelled out in the command, so that help needs no import


def test_the_score_is_the_share_of_yes_among_the_readable_replies():
    """Unreadable replies are missing, never a no, and their cost counts."""
    verdict, requests = voted("no", "yes\nIt is made up.", "Hm.", "yes\nNo such port.", "", mode="cot-seed")
    assert (verdict.decision, verdict.metric) == (True, pytest.approx(2 / 3))
    assert verdict.votes == (0.0, 1.0, None, 1.0, None)
    assert verdict.reasons == (None, None, "no verdict: 'Hm.'", None, "empty")
    assert verdict.explanation == "It is made up."
    assert (verdict.aud_cost, verdict.reason) == (pytest.approx(0.05), None)
    about = (verdict.item_id, verdict.judge, verdict.judge_model, verdict.mode)
    assert about == ("watermelon", "primary", "judge-a", "cot-seed")
    assert verdict.call_ids == tuple(request.identity() for request in requests)


@pytest.mark.parametrize(("said", "mode", "decision", "score", "reason"), CASES["decided"])  # fmt: skip
def test_the_votes_that_can_be_read_decide_or_nobody_does(said, mode, decision, score, reason):
    """A tie is no decision and says split; without a readable vote there is no score, and never zero."""
    verdict, _ = voted(*said, mode=mode)
    assert (verdict.decision, len(verdict.votes)) == (decision, len(said))
    assert verdict.metric == (None if score is None else pytest.approx(score))
    assert verdict.reason is None if reason is None else re.fullmatch(reason, verdict.reason)
    assert verdict.explanation is None


def test_chain_of_thought_is_explained_by_the_first_vote_that_agrees():
    said = ("It invents a port.\nVerdict: yes", "Port 22 is right.\nVerdict: no", "So it is.\nVerdict: no")
    verdict, _ = voted(*said, mode="cot")
    assert (verdict.decision, verdict.explanation) == (False, "Port 22 is right.")


def test_a_vote_without_reply_leaves_the_others_standing_and_other_errors_are_raised_at_the_end():
    """Its reason is kept, it costs nothing, and its call is named so that it can be asked again."""
    filtered = ModelReply("no", "filter", Usage(1, 1), "m")
    verdict, _ = voted("no", ModelError("no answer in 60 s", reason="timeout"), filtered)
    assert (verdict.decision, verdict.metric) == (False, 0.0)
    assert verdict.reasons == (None, "timeout: no answer in 60 s", "filtered: 'no'")
    assert (verdict.aud_cost, len(verdict.call_ids)) == (pytest.approx(0.02), 3)
    for error in (BudgetReached("no money"), ZeroDivisionError()):
        with pytest.raises(type(error)):
            voted("no", error, "no")


# --- the judges of a study on a labelled set ------------------------------------------------------------------------


def items(count=40, **changes):
    """Items of which every second is hallucinated, and says so where only the test's judge looks."""
    return [
        LabelledItem(
            f"item-{n}",
            f"Which port does service {n} use?",
            f"Port {1000 + n}." + (" It was invented." if n % 2 else " It is documented."),
            **{"hallucinated": bool(n % 2)} | changes,
        )
        for n in range(count)
    ]


def said_of(body, yes):
    """Yes or no in the form that the mode of a request asks for."""
    asked = json.dumps(body["messages"])
    word = "yes" if yes else "no"
    if "between 0" in asked:
        return "0.8" if yes else "0.1"
    return f"I thought about it.\nVerdict: {word}" if "Verdict" in asked else word


def perfect(body):
    """Judge every item as its label says."""
    return said_of(body, "invented" in body["messages"][-1]["content"])


@pytest.fixture
def study_at(server, tmp_path, store_folder):
    """Write a study whose judge, or whose two judges, are the server, which judges as the labels say."""
    server.answer = perfect
    at = f'provider = "compatible", base_url = "{server.openai_url}", usd_per_million_input = 1.0'
    at += ", usd_per_million_output = 2.0"

    def write(settings="", second=False):
        other = f'{{ name = "stub-2", model = "other", {at} }}' if second else "false"
        path = tmp_path / "small.toml"
        text = STUDY.format(settings=settings, judges="").partition("[judges]")[0]
        judges = f'primary = {{ name = "stub", {at} }}\nsecondary = {other}\ntertiary = false\n'
        path.write_text(f"{text}[judges]\n{judges}")
        return path

    return write


def compared(study, given, modes, k):
    """What the judges of a study make of items."""
    tasks = hallucination_tasks(study.plan, given, modes)
    return compare_hallucination(study.plan, study.store, tasks, k, progress=False)


@pytest.fixture
def command(tmp_path, toolkit):
    """Call ``toolkit judges hallucination`` on items, with one mode; returns exit code and both outputs."""

    def call(study, given, k, *more):
        path = tmp_path / "items.jsonl"
        path.write_text(
            "".join(json.dumps({name: getattr(item, name) for name in OWN}) + "\n" for item in given)
        )
        return toolkit(
            "judges", "hallucination", path, "--study", study, "--mode", "boolean", "--k", k, *more
        )

    return call


def test_a_perfect_judge_is_measured_as_one(server, command, study_at, tmp_path):
    """Every rate is 1, every vote agrees, the cost is there; a second run asks nothing and says the same."""
    study = study_at()
    code, out, _ = command(study, items(), 3, "--json", "--figures", tmp_path / "out")
    fields = json.loads(out)
    assert (code, server.count) == (0, 120)
    judge, majority, length = fields["rows"]
    found = {one["name"]: one["estimate"] for one in judge["estimates"]}
    assert {found[name] for name in ("accuracy", "sensitivity", "specificity", "F1")} == {1.0}
    assert found["Cohen's kappa with the label"] == found["Fleiss' kappa among the votes"] == 1.0
    assert judge["counts"]["tp"] == judge["counts"]["tn"] == 20
    bill = (server.input_tokens * 1.0 + server.output_tokens * 2.0) / 1e6
    assert judge["aud"] > bill  # an Australian dollar is less than one of the United States
    assert judge["aud_per_correct"] == pytest.approx(judge["aud"] / 40)
    assert (majority["judge"], length["judge"]) == ("always the majority", "length alone")
    assert {Path(p).suffix[1:] for p in fields["files"]} == {"pdf", "svg", "png", "csv", "txt", "tex"}
    assert all(Path(path).stat().st_size for path in fields["files"])
    assert {tuple(one["role"] for one in seen.body["messages"]) for seen in server.seen} == {
        ("user", "assistant", "user")
    }
    again = command(study, items(), 3, "--json")
    assert (again[0], server.count, json.loads(again[1])["rows"]) == (0, 120, fields["rows"])


def test_a_judge_that_errs_is_measured(server, study_at):
    """Sensitivity .9 and specificity .7 by script: both lie in their intervals."""

    def errs(body):
        text = body["messages"][-1]["content"]
        wrong = random.Random(text).random()  # by item, so that its votes agree
        return said_of(body, wrong < 0.9 if "invented" in text else wrong < 0.3)

    with Study.load(study_at()) as study:
        server.answer = errs
        (judge,) = compared(study, items(200), ("boolean",), 1).deciders
    for name, truth in (("sensitivity", 0.9), ("specificity", 0.7)):
        assert judge.found.rate(name).low <= truth <= judge.found.rate(name).high
    assert judge.agreement.estimate is None  # one vote an item agrees with nobody


def test_every_judge_in_every_mode_has_a_row(server, study_at):
    """Two judges and four modes are eight rows, 28 + 16 comparisons, and verdicts that can be looked at."""
    with Study.load(study_at(second=True)) as study:
        given = items(6)
        found = compared(study, given, MODES, 2)
        tasks = hallucination_tasks(study.plan, given, MODES)
        assert server.count == 2 * 4 * 6 * 2 == len(comparison_requests(tasks, 2))
    assert found.outcome == {"planned": 96, "failed": 0, "failures": {}, "budget": None}
    frame = found.to_frame()
    rows = [(judge, mode) for judge in ("primary", "secondary") for mode in MODES]
    assert frame[["judge", "mode"]].head(8).to_records(index=False).tolist() == rows
    assert frame["n"].tolist() == [6] * 10
    assert len(found.contrasts) == len(found.contrasts_frame()) == 28 + 16
    verdicts = found.verdicts_frame()
    assert len(verdicts) == 48
    by_cot = verdicts[verdicts["mode"] == "cot"]
    assert by_cot["decision"].tolist() == by_cot["hallucinated"].tolist()


def test_what_is_missing_is_missing_and_never_a_no(server, command, study_at):
    """Unreadable replies leave items undecided; a vote without a reply is said, and asked again by the next run."""
    study, refused = study_at(), Fault(status=400)
    rather = "I would rather not say."
    server.answer = lambda body: rather if "service 3 " in json.dumps(body) else perfect(body)
    server.faults = lambda n, body: refused if "service 4 " in json.dumps(body) else None
    code, out, _ = command(study, items(10), 2, "--json")
    fields = json.loads(out)
    row = fields["rows"][0]
    assert (code, sum(fields["failures"].values()), fields["unreadable"]) == (1, 2, {"no verdict": 2})
    assert (row["counts"]["undecided_yes"], row["counts"]["undecided_no"], row["unreadable"]) == (1, 1, 4)
    found = {one["name"]: one for one in row["estimates"]}
    assert (found["accuracy"]["estimate"], found["accuracy"]["missing"]) == (1.0, 2)
    assert found["accuracy, undecided counted as wrong"]["estimate"] == 0.8
    server.faults, asked = (lambda n, body: None), server.count
    code, out, _ = command(study, items(10), 2, "--json")
    assert (code, server.count, json.loads(out)["rows"][0]["counts"]["undecided_no"]) == (0, asked + 2, 0)
    assert "\nno vote   2 x no verdict\n" in command(study, items(10), 2)[1] + "\n"


def test_a_reached_budget_leaves_what_was_judged_and_cost_is_confirmed_first(server, command, study_at):
    """Exit code 3, what is paid for counts wherever it stands, and a larger budget goes on without asking again."""
    code, out, err = command(study_at("budget = { confirm_above_aud = 0.0001 }"), items(40), 2)
    assert (code, out, server.count) == (2, "", 0)
    assert "confirm_above_aud" in err
    assert "--yes" in err
    little = study_at("concurrency = 1\nbudget = { aud = 0.006 }")
    assert (command(little, items(40)[-3:], 2)[0], server.count) == (0, 6)
    code, out, _ = command(little, items(40), 2, "--json")
    fields, asked = json.loads(out), server.count
    row = fields["rows"][0]
    assert (code, "budget" in fields["budget"], 6 < asked < 80) == (3, True, True)
    assert (
        asked - 2 <= 2 * sum(row["counts"].values()) <= asked
    )  # the last three too, behind the unasked ones
    assert row["unasked"] == 40 - sum(row["counts"].values()) > 0
    assert row["counts"]["undecided_yes"] == row["counts"]["undecided_no"] == 0
    study = study_at("budget = { confirm_above_aud = 0.0001, aud = 2.0 }")
    code, out, _ = command(study, items(40), 2, "--json", "--yes")
    assert (code, server.count, json.loads(out)["rows"][0]["counts"]["tp"]) == (0, 80, 20)
    assert command(study, items(40), 2)[0] == 0  # all is paid for, so nothing is left to confirm


def test_what_cannot_be_compared_is_one_line(command, study_file, toolkit):
    """One name twice, no item, no reply, no judge: refused before anything is asked."""
    path = study_file()
    with Study.load(path) as study, pytest.raises(InputError, match="no answer to judge"):
        compared(study, [], MODES, 1)
    for more, says in (((path.with_name("same.csv"),), "'same' is there twice"), ((), "no answer to judge")):
        path.with_name("same.csv").write_text("item_id,question,answer\nsame,Q?,A\nsame,Q?,B\n")
        code, out, err = toolkit("judges", "hallucination", *more, "--study", path)
        assert (code, out, says in err, err.count("\n")) == (2, "", True, 1)
    path.write_text(re.sub("(?m)^(primary|secondary|tertiary) = .*", r"\1 = false", path.read_text()))
    code, _, err = command(path, items(4), 1)
    assert (code, "has no judges" in err) == (2, True)


def test_a_limit_keeps_the_prevalence_of_the_file_and_grows(server, command, study_at):
    """Every 4th, 5th or 10th item is hallucinated, in a part as in the file; a larger part asks only what is new."""

    def given(share):
        words = ["It was invented." if n % share == 0 else f"It is {n}." for n in range(120)]
        return [
            LabelledItem(f"i{n}", f"What of {n}?", word, hallucinated=n % share == 0)
            for n, word in enumerate(words)
        ]

    for share, limit in itertools.product((4, 5, 10), (20, 40)):
        part = some_items(given(share), limit, seed=3)
        assert abs(sum(item.hallucinated for item in part) - limit / share) <= 0.5
        assert set(some_items(given(share), 20, seed=3)) <= set(part)
    assert some_items(given(4), None, 1) == some_items(given(4), 10_000, 1) == tuple(given(4))
    assert some_items(given(4), 10, seed=2) != some_items(given(4), 10, seed=1)
    study = study_at()
    for limit in (20, 40):
        code, out, _ = command(study, given(5), 1, "--limit", limit, "--json")
        fields = json.loads(out)
        assert (code, server.count, fields["items"]) == (0, limit, limit)
        assert fields["hallucinated"] == fields["rows"][0]["counts"]["tp"] == limit / 5
    assert f"(prevalence {fields['prevalence']:.3f})" in command(study, given(5), 1, "--limit", 40)[1]


def test_answers_about_one_document_are_one_cluster_in_every_interval(server, command, study_at):
    """Each answer four times under its document knows no more than once: no interval shrinks, no p value falls."""

    def errs(body):
        text = body["messages"][-1]["content"]
        wrong = random.Random(text.split("service ")[1].split()[0]).random() < 0.3
        return said_of(body, ("invented" in text) != wrong)

    once = [replace(one, documents=f"About service {n} .") for n, one in enumerate(items(40))]
    often = [replace(one, item_id=f"{one.item_id}-{copy}") for one in once for copy in range(4)]
    study, server.answer = study_at(), errs
    few, many = (json.loads(command(study, given, 1, "--json")[1]) for given in (once, often))
    by_name = [{one["name"]: one for one in found["rows"][0]["estimates"]} for found in (few, many)]
    named = ("accuracy", "F1", "precision", "Cohen's kappa with the label")
    for before, after in ([found[name] for found in by_name] for name in named):
        assert after["estimate"] == pytest.approx(before["estimate"])
        assert after["n"]["bases"] <= 40
        assert after["high"] - after["low"] >= 0.95 * (before["high"] - before["low"])
    for before, after in zip(few["contrasts"], many["contrasts"], strict=True):
        assert after["high"] - after["low"] >= 0.95 * (before["high"] - before["low"])
        assert (after["p_value"] < 0.05) == (not after["low"] <= 0 <= after["high"])
    length = many["rows"][2]["estimates"][-1]
    assert (length["name"], length["n"]["bases"]) == ("AUC", 40)
