"""Paired shifts: right numbers by hand, clusters, Holm, what is missing, and intervals that cover."""

import numpy as np
import pandas as pd
import pytest
from cases import cases
from score_tables import ends, width

from toolkit.stats.agreement.drift import CONTROL, HARM, probe_shifts
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.p_values import holm

CASES = cases(__file__)


def pairs(kind, shifts, *, judge="primary", each=1, original=3.0):
    """Return pairs of one kind: a shift that is None is a reply whose altered version has no score."""
    rows = []
    for number, shift in enumerate(shifts):
        altered = np.nan if shift is None else original + shift
        reason = "altered prose: 'I think'" if shift is None else ""
        rows.append((judge, kind, f"b{number // each}", original, altered, True, reason))
    return pd.DataFrame(rows, columns=["judge", "kind", "base", "original", "altered", "made", "reason"])


def test_the_numbers_are_those_made_by_hand():
    """Four pairs: mean shift .5, three of four up by .5 or more, none lost."""
    (found,) = probe_shifts(pairs("padded", [0.5, 1.0, 0.0, 0.5])).shifts
    assert found.shift.estimate == pytest.approx(0.5)
    half = 3.1824463 * np.std([0.5, 1.0, 0.0, 0.5], ddof=1) / 2
    assert ends(found.shift) == pytest.approx((0.5 - half, 0.5 + half))
    assert (found.harmed.estimate, found.lost.estimate, found.detected) == (0.75, 0.0, None)
    assert found.shift.n == {"pairs": 4, "bases": 4}


def test_which_move_is_harmful_depends_on_the_kind():
    """Up for padding, errors, attacks and kinds unheard of; either way for order and control; a fall detects."""
    for kind, way in {**HARM, "louder": "up"}.items():
        (found,) = probe_shifts(pairs(kind, [0.5, -0.5, -1.0, 0.25])).shifts
        assert found.harmed.estimate == (0.75 if way == "either" else 0.25)
        assert (found.detected is None) == (kind not in ("planted", CONTROL))
        if found.detected is not None:
            assert found.detected.estimate == 0.5


def test_a_move_of_the_threshold_counts_though_means_of_scores_round():
    """4.1 - 3.6 is a little less than 0.5 in floating point."""
    frame = pairs("padded", [0.0, 0.0])
    frame["original"], frame["altered"] = 3.6, 4.1
    assert frame["altered"].iloc[0] - frame["original"].iloc[0] < 0.5
    assert probe_shifts(frame).shifts[0].harmed.estimate == 1.0
    assert probe_shifts(frame, threshold=0.6).shifts[0].harmed.estimate == 0.0


def test_pairs_of_one_base_are_one_cluster():
    """The interval is that of the clustered mean, wider than that of independent pairs."""
    shifts = CASES["clustered"]
    (clustered,) = probe_shifts(pairs("attacked", shifts, each=3)).shifts
    (alone,) = probe_shifts(pairs("attacked", shifts)).shifts
    expected = clustered_mean(shifts, [n // 3 for n in range(12)])
    assert ends(clustered.shift) == pytest.approx(ends(expected))
    assert width(clustered.shift) > width(alone.shift)
    assert width(clustered.harmed) > width(alone.harmed)


def test_a_missing_score_is_counted_with_its_reason_and_is_no_shift_of_zero():
    """An unreadable altered reply, a failed original and a probe that could not be made."""
    frame = pairs("shuffled", [1.0, 1.0, None, 0.5, 0.5])
    frame.loc[3, ["original", "reason"]] = [np.nan, "original truncated: 'x'"]
    frame.loc[4, ["altered", "made", "reason"]] = [np.nan, False, "one paragraph: nothing can be moved"]
    (found,) = probe_shifts(frame).shifts
    assert (found.shift.estimate, found.shift.missing, found.shift.n["pairs"]) == (1.0, 3, 2)
    assert found.missing == {"altered prose": 1, "original truncated": 1, "one paragraph": 1}
    assert (found.lost.estimate, found.lost.n["pairs"]) == (pytest.approx(1 / 3), 3)


@pytest.mark.parametrize(("shifts", "estimate", "note"), CASES["not_estimable"])
def test_what_cannot_be_estimated_says_why(shifts, estimate, note):
    """No pair, one pair, pairs that do not vary: shares have their interval all the same."""
    (found,) = probe_shifts(pairs("padded", shifts)).shifts
    assert found.shift.estimate == estimate
    assert found.shift.remarks.startswith(note)
    assert found.shift.low is None
    if estimate is None:
        assert found.harmed.remarks == "not estimable: there is no case"
        assert found.lost.estimate == 1.0
    else:
        assert found.harmed.low is not None


def test_p_values_are_holm_s_over_the_kinds_of_each_judge_and_the_control_is_no_test():
    """Four kinds, one of which moved nothing; the control keeps its own."""
    kinds = {
        CONTROL: [0.1, -0.1, 0.2, 0.0],
        "padded": [0.5, 0.6, 0.4, 0.5],
        "planted": [-0.5, -1.0, -0.2, -0.3],
        "shuffled": [0.0, 0.0, 0.0, 0.0],
        "attacked": [0.1, 0.5, 0.0, 0.2],
    }
    frame = pd.concat([pairs(kind, shifts, judge=judge) for judge in "ab" for kind, shifts in kinds.items()])
    found = probe_shifts(frame)
    assert [one.kind for one in found.of("b")] == list(HARM)
    raw = [clustered_mean(kinds[kind], range(4)).p_value or 1.0 for kind in list(HARM)[1:]]
    assert [one.shift.p_value for one in found.of("a")[1:]] == pytest.approx(list(holm(raw)))
    assert [one.shift.correction for one in found.of("a")] == ["none", *["Holm over 4 kinds"] * 4]
    assert found.of("a")[0].shift.p_value == pytest.approx(clustered_mean(kinds[CONTROL], range(4)).p_value)


def test_the_frame_has_one_row_for_each_result_and_an_empty_one_has_none():
    """Three results a kind, four where a fall is counted."""
    frame = pd.concat([pairs("padded", [0.5, 0.0]), pairs("planted", [0.5, 0.0])])
    found = probe_shifts(frame).frame()
    assert list(found["name"][:2]) == ["shift, padded", "moved up by 0.5 or more, padded"]
    assert list(found["kind"]) == ["padded"] * 3 + ["planted"] * 4
    assert set(found["judge"]) == {"primary"}
    empty = probe_shifts(frame.iloc[:0])
    assert (empty.shifts, len(empty.frame()), empty.to_dict()) == ((), 0, [])
