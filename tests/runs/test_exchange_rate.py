"""A study's own exchange rate: what is asked from then on is booked with it, and what was paid stays as it was."""

from datetime import UTC, datetime, timedelta

import pytest
from cases import cases

from toolkit.audit.verify import contradictions
from toolkit.errors import StudyError
from toolkit.models.prices import table_exchange
from toolkit.runs.estimate import estimate_summary
from toolkit.runs.provenance import booked_rate, rates_sentence
from toolkit.runs.status import status_summary
from toolkit.study import Study
from toolkit.study_file import load_study_file
from toolkit.thesis.methods import sentences, what_was_done

CASES = cases(__file__)

PRICE = "usd_per_million_input = 100.0, usd_per_million_output = 200.0"
OWN = "aud_per_usd = { rate = 1.52, on = 2026-11-20 }"
TABLE = table_exchange().aud_per_usd


def priced(path, budget="", repeats=1):
    """Give every model of a study a price, and the study what its budget says."""
    text = path.read_text().replace('models = [{ name = "scripted" }]', "")
    text = text.replace('provider = "scripted" }', f'provider = "scripted", {PRICE} }}')
    models = f'models = [{{ name = "scripted", {PRICE} }}]\nrepeats = {repeats}\n'
    path.write_text(f"{models}{text}\n[budget]\n{budget}\n")
    return path


def rates_of(study):
    """Return the rate of each call, by its id."""
    calls = study.calls()
    return dict(zip(calls["call_id"], calls["aud_per_usd"], strict=True))


def cost_sentences(study):
    """Return the paragraph of the methods about money."""
    done = what_was_done(study.plan, study.store, study.frames(), study.status(), study.manifest())
    return " ".join(str(sentence) for sentence in sentences("cost", done))


def test_a_rate_set_half_way_books_what_comes_and_leaves_what_was_paid(study_file, no_pictures):
    """Calls, status, methods, manifest, caption, estimate and the check of the store each tell both rates."""
    text = study_file().read_text()
    path = priced(study_file())
    with Study.load(path) as study:
        study.execute(progress=False)
        before, paid = rates_of(study), study.calls().set_index("call_id")["aud_cost"]
        assert set(before.values()) == {TABLE}
        assert study.status()["exchange"] == ""
        money = study._figure_context(study.frames()).money
        assert (
            money
            == "Costs are at 1.5444 AUD a USD (Reserve Bank of Australia, exchange rates, 4 pm Sydney, 2025-10-17)."
        )
        assert "keep the exchange rate" not in cost_sentences(study)
    path.write_text(text)
    with Study.load(priced(path, OWN, repeats=2)) as study:
        estimate = study.estimate()
        assert estimate.attrs["aud_per_usd"] == 1.52
        study.execute(progress=False)
        after, cost = rates_of(study), study.calls().set_index("call_id")["aud_cost"]
        assert all(after[call_id] == rate for call_id, rate in before.items())
        assert (cost[paid.index] == paid).all()
        new = [call_id for call_id in after if call_id not in before]
        assert {after[call_id] for call_id in new} == {1.52}
        calls = study.calls().set_index("call_id").loc[new]
        usd = (calls["input_tokens"] * 100 + calls["output_tokens"] * 200) / 1e6
        assert cost[new].to_numpy() == pytest.approx((usd * 1.52).to_numpy(), rel=1e-12)
        sentence = (
            f"Calls keep the exchange rate they were booked with ({len(new)} calls at 1.52, {len(before)} calls at "
            "1.5444 AUD a USD); new ones are at 1.52 AUD a USD (given by the study, 2026-11-20)"
        )
        assert study.status()["exchange"] == sentence
        assert sentence in status_summary(study.status()).text
        assert sentence in cost_sentences(study)
        assert "at 1.52 AUD a USD (given by the study, 2026-11-20)" in cost_sentences(study)
        assert study.manifest()["exchange"] == "1.52 AUD a USD (given by the study, 2026-11-20)"
        study.figures(only=["cost_quality"])
        (caption,) = study.output.rglob("cost_quality.notes.txt")
        assert "Calls keep the exchange rate" in caption.read_text()
        stored = [*study.store.database["calls"].find()]
        assert all(call["worst_aud"] >= call["aud_cost"] > 0 for call in stored)
        assert [*contradictions(study.plan, study.store)] == []


def test_a_call_that_cost_nothing_has_no_rate():
    assert booked_rate({"aud_cost": 0.1, "aud_per_usd": 1.6}) == 1.6
    assert booked_rate({"aud_cost": 0.0, "aud_per_usd": None}) is None
    assert rates_sentence([], table_exchange()) == ""


def test_the_estimate_is_at_the_studys_rate(study_file):
    """The estimate follows it in proportion, as what is reserved does."""
    text = study_file().read_text()
    with Study.load(priced(study_file())) as study:
        table = study.estimate()["worst_aud"].sum()
    study_file().write_text(text)
    with Study.load(priced(study_file(), OWN.replace("1.52", "2.0"))) as study:
        assert study.estimate()["worst_aud"].sum() == pytest.approx(table * 2.0 / TABLE)


@pytest.mark.parametrize(("days", "said"), [(90, False), (91, True)])
def test_an_old_rate_of_the_study_is_one_line(study_file, days, said):
    """From the ninety-first day on, as that of the table."""
    day = (datetime.now(UTC) - timedelta(days=days)).date()
    with Study.load(priced(study_file(), OWN.replace("2026-11-20", str(day)))) as study:
        lines = [
            line for line in estimate_summary(study.estimate()).text.splitlines() if "exchange rate" in line
        ]
    assert len(lines) == said
    assert all(f"1.52 AUD a USD, is of {day}" in line for line in lines)


LATER = (datetime.now(UTC) + timedelta(days=3)).date()


@pytest.mark.parametrize(
    ("value", "line"), [*CASES["bad"], (f"{{ rate = 1.52, on = {LATER} }}", "on: this day is still to come")]
)
def test_a_bad_rate_or_day_is_one_line(study_file, value, line):
    """Before anything is asked; a rate the wrong way round is what people write most."""
    with pytest.raises(StudyError) as refused:
        load_study_file(priced(study_file(), f"aud_per_usd = {value}"))
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)
