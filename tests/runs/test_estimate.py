"""The estimate: what a study will cost and how long it takes, run by run, and never less at worst than it can be."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from toolkit.judges.request import judge_request, repair_request
from toolkit.models.base import Message, ModelReply, ModelRequest, Usage
from toolkit.models.catalogue import model_spec
from toolkit.models.prices import aud_cost, price_of
from toolkit.models.tokens import count_tokens
from toolkit.runs import estimate
from toolkit.runs.estimate import (
    EXPECTED_JUDGE_TOKENS,
    EXPECTED_REPLY_TOKENS,
    EXPECTED_SECONDS,
    LOW_SHARE,
    REASON_TOKENS,
    estimate_summary,
)
from toolkit.runs.gateway import Endpoint, worst_aud
from toolkit.study import Study
from toolkit.words import JUDGE_ROLES, money

PRICE = "usd_per_million_input = 1.0, usd_per_million_output = 2.0"
PRICED = f'models = [{{ name = "scripted", {PRICE} }}]'

JUDGES_OF_OTHER_WORDS = ('provider = "scripted", usd', 'provider = "scripted", tokens_per_o200k = 1.5, usd')


@pytest.fixture
def opened(study_file):
    """Open a study of six runs whose models have a price, with the file's text changed as told."""

    def load(settings="", judges="", changes=()):
        path = study_file(settings, judges)
        text = path.read_text().replace('models = [{ name = "scripted" }]', PRICED)
        text = text.replace('provider = "scripted" }', f'provider = "scripted", {PRICE} }}')
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)
        return Study.load(path)

    return load


def row(frame, who):
    return frame.set_index("who").loc[who]


ALL_PAID = dict.fromkeys(("model", *JUDGE_ROLES), (0, 6))


def open_calls(study):
    """Return calls still to be asked and paid for, by who."""
    frame = study.estimate()
    return {who: (calls, paid) for who, calls, paid in frame[["who", "calls", "paid_calls"]].values.tolist()}


def test_a_new_study_rests_on_the_documented_constants(opened):
    """Six runs and eighteen judgements at 587 and 120 tokens, low at a quarter, worst at max_tokens."""
    study = opened("repeats = 2")
    frame = study.estimate()
    price = price_of(study.plan.models["scripted"])
    sent = sum(count_tokens(run.prompt.text) for run in study.plan.runs)
    runs = row(frame, "model")
    assert (runs["calls"], runs["paid_calls"], runs["input_tokens"], runs["basis"]) == (
        12,
        0,
        sent,
        "assumed",
    )
    assert runs["expected_aud"] == pytest.approx(aud_cost(Usage(sent, 12 * EXPECTED_REPLY_TOKENS), price))
    low = aud_cost(Usage(sent, int(12 * LOW_SHARE * EXPECTED_REPLY_TOKENS)), price)
    assert runs["low_aud"] == pytest.approx(low)
    most = aud_cost(Usage(sent + 12 * 16, 12 * study.file.sampling.max_tokens), price)
    assert runs["worst_aud"] == pytest.approx(most)
    for role in JUDGE_ROLES:
        judge = row(frame, role)
        assert (judge["calls"], judge["basis"]) == (12, "assumed")
        each = EXPECTED_JUDGE_TOKENS + 7 * REASON_TOKENS  # the default rubric asks for a reason of each score
        got = aud_cost(Usage(judge["input_tokens"], 12 * each), price)
        assert judge["expected_aud"] == pytest.approx(got)
        assert judge["input_tokens"] > sent + 12 * EXPECTED_REPLY_TOKENS
    assert (frame["low_aud"] < frame["expected_aud"]).all()
    assert (frame["expected_aud"] < frame["worst_aud"]).all()


@pytest.mark.parametrize("changes", [(), (JUDGES_OF_OTHER_WORDS,)])
def test_worst_is_never_less_than_what_the_budget_sets_aside(opened, changes):
    """Every call's own worst case, judges reading a reply of max_tokens, is covered by the estimate's."""
    study = opened(changes=changes)
    plan, frame = study.plan, study.estimate()
    for who, spec in {"model": plan.models["scripted"], **plan.judge_models}.items():
        endpoint = Endpoint(spec, price_of(spec), open=pytest.fail, concurrency=1)
        requests = [
            run.request
            if who == "model"
            else judge_request(
                plan.judges[who],
                plan.rubric,
                task=run.prompt.text,
                response=" a" * study.file.sampling.max_tokens,
            )
            for run in plan.runs
        ]
        if who != "model":  # at worst every judge is shown its error and asked once more
            longest = int(study.file.judges.max_tokens / spec.tokens_per_o200k)
            said = ModelReply(" a" * longest, "length", Usage(1, 1), "m")
            requests += [repair_request(request, said, "truncated: " + "'a' " * 15) for request in requests]
        reserved = sum(worst_aud(request, endpoint) for request in requests)
        assert reserved <= row(frame, who)["worst_aud"] <= 1.6 * reserved


def test_prompts_beyond_a_limit_are_estimated_at_their_own_price(opened):
    """A request is priced by its own length, however many there are; the worst case takes what may pass the limit."""
    study = opened("repeats = 2")
    longest = max(count_tokens(run.prompt.text) for run in study.plan.runs)

    def estimated(tokens):
        row = f"input = 1.0, output = 2.0, over = {{ tokens = {tokens}, input = 10.0, output = 20.0 }}"
        return opened("repeats = 2", changes=[(PRICE, f"prices = [{{ {row} }}]")]).estimate()

    plain = study.estimate()
    columns = ["low_aud", "expected_aud", "worst_aud"]
    # All prompts together are longer than either limit.
    short, long = estimated(10 * longest + 9000), estimated(10)
    assert short[columns].to_numpy() == pytest.approx(plain[columns].to_numpy())
    assert long[columns].to_numpy() == pytest.approx(10 * plain[columns].to_numpy())
    # The longest is not above it, unless it is counted at worst.
    at = estimated(longest)
    assert row(at, "model")["expected_aud"] == pytest.approx(row(plain, "model")["expected_aud"])
    assert row(at, "model")["worst_aud"] > row(plain, "model")["worst_aud"]
    some = row(estimated(longest - 1), "model")["expected_aud"]
    assert row(plain, "model")["expected_aud"] < some < 10 * row(plain, "model")["expected_aud"]


def test_a_price_that_doubles_next_week_is_in_the_worst_case(opened):
    """The expected cost is today's; a change that is further away than a week is not counted."""
    once = opened().estimate()
    for days, factor in ((6, 2.0), (20, 1.0)):
        day = datetime.now(UTC).date() + timedelta(days=days)
        rows = f"{{ input = 1.0, output = 2.0 }}, {{ input = 2.0, output = 4.0, from = {day} }}"
        frame = opened(changes=[(PRICE, f"prices = [{rows}]")]).estimate()
        assert frame["expected_aud"].tolist() == pytest.approx(once["expected_aud"].tolist())
        assert frame["worst_aud"].tolist() == pytest.approx((factor * once["worst_aud"]).tolist())


def test_a_long_sample_does_not_fit_at_the_price_of_a_short_one(opened):
    """314 kB to Claude Haiku 5.5: what is reserved for it is at least what its input alone is billed."""
    text = "GET /index.html 200 " * 15_700
    spec = model_spec("claude-haiku-5-5")
    request = ModelRequest("anthropic", spec.model, (Message("user", text),), max_tokens=10)
    endpoint = Endpoint(spec, price_of(spec), open=pytest.fail, concurrency=1)
    sent = count_tokens(text) * spec.tokens_per_o200k
    assert sent > 100_000
    assert worst_aud(request, endpoint) > sent * 0.50 / 1e6 * endpoint.price.aud_per_usd


def test_a_tokenizer_that_is_not_public_is_estimated_by_its_factor(opened):
    """Prompts, rubric, replies and what a budget sets aside grow by it; the estimate says so; length bins do not."""
    mine = ('name = "scripted", usd', 'name = "mine", provider = "scripted"FACTOR, usd')
    model, factor = mine[1].replace("FACTOR", ""), mine[1].replace("FACTOR", ", tokens_per_o200k = 1.5")
    plain = opened(changes=[(mine[0], model)])
    study = opened(changes=[(mine[0], factor), JUDGES_OF_OTHER_WORDS])
    once, more = plain.estimate(), study.estimate()
    # Everybody counts alike: input, and assumed output, are half as much again.
    assert (more["input_tokens"] - 1.5 * once["input_tokens"]).abs().max() <= 6
    assert more["expected_aud"].tolist() == pytest.approx((1.5 * once["expected_aud"]).tolist(), rel=0.001)
    request = study.plan.runs[0].request
    ends = [
        Endpoint(one.plan.models["mine"], price_of(one.plan.models["mine"]), open=pytest.fail, concurrency=1)
        for one in (plain, study)
    ]
    assert [end.spec.counted_by for end in ends] == [("o200k_base", 1.0), ("o200k_base", 1.5)]
    reserved = [
        worst_aud(request, end) - 2e-6 * request.max_tokens * ends[0].price.aud_per_usd for end in ends
    ]
    assert reserved[1] > 1.4 * reserved[0] > 0
    assert study.prompts()["tokens"].tolist() == plain.prompts()["tokens"].tolist()
    # Judges of other words than the model: its reply is longer for them by their factor, once.
    mixed = opened(changes=[JUDGES_OF_OTHER_WORDS, (mine[0], model)]).estimate()
    assert row(mixed, "primary")["input_tokens"] == pytest.approx(row(more, "primary")["input_tokens"], abs=9)
    assert row(mixed, "model")["input_tokens"] == row(once, "model")["input_tokens"]


def test_worst_counts_every_retry_with_twice_the_tokens(opened):
    """Two retries: three requests of 2,000 + 4,000 + 8,000 tokens, and judges who read the longest."""
    plain = opened().estimate()
    study = opened(judges='[replies]\ntruncated = "retry"\nretries = 2')
    retried = study.estimate()
    price = price_of(study.plan.models["scripted"])
    sent = 3 * (row(plain, "model")["input_tokens"] + 6 * 16)
    assert row(retried, "model")["worst_aud"] == pytest.approx(aud_cost(Usage(sent, 6 * 14_000), price))
    # The judge has no public tokenizer of its own: half as much again; and it may be asked once more.
    more = row(retried, "primary")["worst_aud"] - row(plain, "primary")["worst_aud"]
    assert more == pytest.approx(aud_cost(Usage(2 * 6 * 6_000 * 3 // 2, 0), price))
    assert retried["expected_aud"].tolist() == plain["expected_aud"].tolist()


def test_done_calls_are_what_the_rest_is_measured_by(opened):
    """After half of a study the other half is expected to be like it; fewer than five calls say too little."""
    study = opened("repeats = 2")
    study.execute(progress=False, limit=4)
    assert set(study.estimate()["basis"]) == {"assumed"}
    study.execute(progress=False, limit=6)
    frame = study.estimate()
    assert set(frame["basis"]) == {"measured"}
    calls = list(study.store.database["calls"].find({"purpose": "run"}))
    lengths = [call["output_tokens"] for call in calls]
    runs = row(frame, "model")
    price = price_of(study.plan.models["scripted"])
    expected = (
        aud_cost(Usage(int(runs["input_tokens"]), 0), price) + sum(lengths) * 2 / 1e6 * price.aud_per_usd
    )
    assert (runs["calls"], runs["paid_calls"]) == (6, 6)
    assert runs["expected_aud"] == pytest.approx(expected, rel=0.01)
    assert runs["seconds"] == pytest.approx(max(0.6, 1.0) * sum(c["latency_ms"] for c in calls) / 6000)


def test_what_is_paid_is_known_for_every_run(opened):
    """A run whose judgement of one judge is missing has that one call open, whatever its place in the plan."""
    study = opened()
    study.execute(progress=False)
    assert open_calls(study) == ALL_PAID
    database = study.store.database
    run = database["runs"].find_one({"prompt_id": study.plan.runs[4].prompt.prompt_id})
    database["runs"].update_one({"_id": run["_id"]}, {"$set": {"ensemble_key": None}})
    lost = database["annotations"].find_one_and_delete({"run_id": run["run_id"], "judge": "secondary"})
    # Its call is in the ledger, so that making the judgement again costs nothing; without that it is asked.
    assert open_calls(study) == ALL_PAID
    database["calls"].delete_one({"_id": lost["call_id"]})
    assert open_calls(study) == ALL_PAID | {"secondary": (1, 5)}


def test_judges_asked_in_another_way_are_paid_again(opened):
    """Another temperature is another call: same rubric, same model, and yet the estimate says what will be asked."""
    opened().execute(progress=False)
    study = opened(judges="temperature = 0.4")
    assert open_calls(study) == ALL_PAID | dict.fromkeys(JUDGE_ROLES, (6, 0))
    assert study.execute(progress=False).new_calls == 18
    assert open_calls(study) == ALL_PAID


def test_a_reply_in_the_ledger_is_paid_though_its_run_was_lost(opened):
    """Killed between the reply and its run: the reply is there, its length is known, and only judges are ahead."""
    study = opened()
    before = row(study.estimate(), "primary")["input_tokens"]
    study.execute(progress=False)
    study.store.database["runs"].delete_many({})
    assert row(study.estimate(), "primary")["calls"] == 0
    study.store.database["calls"].delete_many({"purpose": "judge"})
    frame = study.estimate()
    lengths = sum(call["output_tokens"] for call in study.store.database["calls"].find({"purpose": "run"}))
    assert row(frame, "model")["calls"] == 0
    judge = row(frame, "primary")
    assert (judge["calls"], judge["input_tokens"]) == (6, before - 6 * EXPECTED_REPLY_TOKENS + lengths)


@pytest.mark.parametrize(
    ("policy", "calls"),
    [("exclude", (0, 0)), ("retry", (6, 6)), ("keep", (0, 6))],
    ids=lambda value: str(value),
)
def test_a_truncated_reply_is_followed_as_the_study_will(opened, policy, calls):
    """Excluded replies have no judges ahead, kept ones have, and those to be retried a call of twice the tokens."""
    study = opened(judges=f'[replies]\ntruncated = "{policy}"\nretries = 1')
    study.execute(progress=False)
    study.store.database["runs"].delete_many({})
    study.store.database["annotations"].delete_many({})
    study.store.database["calls"].delete_many({"purpose": "judge"})
    study.store.database["calls"].update_many({"purpose": "run"}, {"$set": {"finish_reason": "length"}})
    frame = study.estimate()
    assert (row(frame, "model")["calls"], row(frame, "primary")["calls"]) == calls
    if policy == "retry":
        price = price_of(study.plan.models["scripted"])
        sent = row(frame, "model")["input_tokens"] + 6 * 16
        assert row(frame, "model")["worst_aud"] == pytest.approx(aud_cost(Usage(sent, 6 * 4000), price))


def test_rates_and_concurrency_decide_the_time(opened):
    """Latency over what goes at once, or the rate where that is slower; one provider's rows add up, judges last."""
    frame = opened("repeats = 10\nconcurrency = 20").estimate()
    assert row(frame, "model")["seconds"] == pytest.approx(60 * EXPECTED_SECONDS / 20)
    assert frame.attrs["seconds"] == pytest.approx(4 * 60 * EXPECTED_SECONDS / 20)
    frame = opened("repeats = 10\n[limits.scripted]\nrequests_per_minute = 12").estimate()
    assert frame["seconds"].tolist() == [300.0] * 4
    frame = opened("repeats = 10\n[limits.scripted]\ntokens_per_minute = 1000").estimate()
    tokens = row(frame, "model")["input_tokens"] + 60 * EXPECTED_REPLY_TOKENS
    assert row(frame, "model")["seconds"] == pytest.approx(60 * tokens / 1000, rel=1e-3)
    assert opened().estimate()["seconds"].tolist() == pytest.approx(
        [6 * EXPECTED_SECONDS] + [2 * EXPECTED_SECONDS] * 3
    )


def test_providers_go_side_by_side(opened):
    """Judges of three providers take as long as the slowest of them, after the runs."""
    study = opened(
        "repeats = 10",
        changes=[
            ('"judge-a", provider = "scripted"', '"judge-a", provider = "openai", concurrency = 2'),
            ('"judge-b", provider = "scripted"', '"judge-b", provider = "groq"'),
        ],
    )
    frame = study.estimate()
    assert frame.attrs["seconds"] == pytest.approx(60 * EXPECTED_SECONDS / 10 + 60 * EXPECTED_SECONDS / 2)
    frame = opened(
        "repeats = 10\nconcurrency = 4",
        changes=[('judge-b", provider = "scripted"', 'judge-b", provider = "groq"')],
    ).estimate()
    assert frame.attrs["seconds"] == pytest.approx(4 * 60 * EXPECTED_SECONDS / 4)  # of two providers together


def test_batch_mode_is_half_the_price_within_a_day(opened):
    """Half of low and expected where there is a batch endpoint; at worst it brings nothing and single calls follow."""
    openai = [
        ('provider = "scripted", usd', 'provider = "scripted", planted = {}, usd'),
        ('name = "scripted", usd', 'name = "scripted", provider = "openai", usd'),
    ]
    single = opened(changes=openai).estimate()
    frame = opened('mode = "batch"', changes=openai).estimate()
    for column, share in {"low_aud": 0.5, "expected_aud": 0.5, "worst_aud": 1.0}.items():
        assert row(frame, "model")[column] == pytest.approx(share * row(single, "model")[column])
        assert row(frame, "primary")[column] == row(single, "primary")[column]
    assert frame["seconds"].isna().tolist() == [True, False, False, False]
    assert row(frame, "model")["worst_seconds"] == 86_400
    summary = estimate_summary(frame)
    assert summary.fields["seconds"] is None
    assert "within a day" in summary.text
    assert summary.text.endswith("within 24.0 h")
    json.dumps(summary.fields, allow_nan=False)


def test_the_summary_sets_the_budget_beside_it(opened):
    """What is spent counts; expected and worst each fit or do not; the last sentence has all totals and the time."""
    frame = opened(judges="[budget]\naud = 0.08").estimate()
    summary = estimate_summary(frame)
    fields = summary.fields
    assert fields["low_aud"] < fields["expected_aud"] < 0.08 < fields["worst_aud"]
    assert (fields["expected_fits"], fields["worst_fits"], fields["spent_aud"]) == (True, False, 0.0)
    assert "the expected cost fits, the worst does not fit" in summary.text
    last = summary.text.splitlines()[-1]
    for name in ("low_aud", "expected_aud", "worst_aud"):
        assert money(fields[name]) in last
    assert last.startswith("24 calls")
    assert last.endswith("in about 28 s")
    frame.attrs["spent_aud"] = 0.05
    assert estimate_summary(frame).fields["expected_fits"] is False


def test_each_text_of_ten_thousand_runs_is_counted_once(opened, monkeypatch):
    """So that the time of an estimate hangs on the prompts and not on the runs."""
    study = opened("repeats = 278", changes=[('scenarios = ["CTI_ANALYSIS"]', "")])
    assert len(study.plan.runs) == 10_008
    counted = Counter()
    monkeypatch.setattr(estimate, "count_tokens", lambda *text: counted.update([text]) or count_tokens(*text))
    frame = study.estimate()
    assert set(counted.values()) == {1}
    assert len(counted) < 10_008 / 20
    assert frame["calls"].tolist() == [10_008] * 4


def test_a_context_that_is_too_small_is_said(opened):
    """Of a model and of a judge; where it is known and not enough, and nowhere else."""
    study = opened()
    assert study.estimate().attrs["contexts"] == {}
    models = (PRICED, PRICED.replace(" }]", ", context_tokens = 2200 }]"))
    frame = opened(changes=[models]).estimate()
    ((name, (need, context)),) = frame.attrs["contexts"].items()
    assert (name, context) == ("scripted", 2200)
    assert 2200 < need < 2000 + 1200
    assert f"scripted has 2200 tokens of context; its longest request and max_tokens are about {need}" in (
        estimate_summary(frame).text
    )
    enough = opened(changes=[(PRICED, PRICED.replace(" }]", f", context_tokens = {need} }}]"))])
    assert enough.estimate().attrs["contexts"] == {}
    prices = (
        f'provider = "scripted", {PRICE} }}',
        f'provider = "scripted", {PRICE}, context_tokens = 1000 }}',
    )
    assert set(opened(changes=[prices]).estimate().attrs["contexts"]) == {"judge-a", "judge-b", "judge-c"}
