import json
from pathlib import Path

import pytest

from toolkit.stats.inference.multiplicity import false_discovery, holm

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "holm_1979.json").read_text("utf-8"))


def test_holm_gives_the_golden_values():
    assert holm(GOLDEN["p"]) == pytest.approx(GOLDEN["holm"])


def test_a_test_that_was_not_made_stays_missing_and_is_not_counted():
    assert holm([0.01, None, float("nan"), 0.04]) == (0.02, None, None, 0.04)
    assert holm([]) == ()


def test_benjamini_and_hochberg_give_the_golden_values():
    golden = json.loads(
        (Path(__file__).parents[1] / "golden" / "benjamini_hochberg_1995.json").read_text("utf-8")
    )
    assert false_discovery(golden["p"]) == pytest.approx(golden["bh"])


def test_false_discovery_leaves_out_a_test_that_was_not_made():
    assert false_discovery([0.01, None, float("nan"), 0.04]) == (0.02, None, None, 0.04)
