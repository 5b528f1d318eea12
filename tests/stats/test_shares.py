"""Shares: Wilson's interval against statsmodels, and clusters that widen it as they should."""

from __future__ import annotations

import pytest

from toolkit.errors import InputError
from toolkit.stats.inference.proportions import CLUSTERED_METHOD, METHOD, share, wilson


@pytest.mark.parametrize(("hits", "n"), [(1, 0), (-1, 5), (6, 5)])
def test_what_is_no_share_is_refused(hits: int, n: int) -> None:
    """No case, a negative number of hits, more hits than cases."""
    with pytest.raises(InputError, match="is no share"):
        wilson(hits, n)


def test_cases_that_stand_alone_have_the_plain_interval() -> None:
    """Without clusters, and with one case in each."""
    hits = [True, False, True, True]
    plain, single = share("s", hits), share("s", hits, list("abcd"))
    assert (plain.low, plain.high) == (single.low, single.high) == wilson(3, 4)
    assert (plain.method, single.method, plain.n, single.n) == (
        METHOD,
        METHOD,
        {"pairs": 4},
        {"pairs": 4, "bases": 4},
    )


def test_cases_of_one_cluster_that_agree_count_as_one() -> None:
    """Three alike cases in each of forty bases are forty cases, with Student t for the normal; where all agree, too."""
    many = [name for name in range(40) for _ in range(3)]
    alike = share("s", [name < 20 for name in many], many)
    doubt = (2.0226909 / 1.9599640) ** 2
    assert (alike.low, alike.high) == pytest.approx(wilson(20 / doubt, 40 / doubt))
    assert alike.method == CLUSTERED_METHOD
    bases = [name for name in "abcd" for _ in range(3)]
    none = share("s", [False] * 12, bases)
    assert (none.low, none.high) == pytest.approx(wilson(0, 4))
    within = share("s", [True, False] * 40, [n // 2 for n in range(80)])
    assert within.low < wilson(40, 80)[0], "never narrower than independent cases"
    assert share("s", [True, False, True], ["a"] * 3).low == wilson(2 / 3, 1)[0]


def test_no_case_is_not_estimable_and_unequal_lengths_are_refused() -> None:
    """The note says why there is no number."""
    empty = share("s", [], [], missing=2)
    assert (empty.estimate, empty.missing, empty.note) == (None, 2, "not estimable: there is no case")
    with pytest.raises(InputError, match="2 cases and 1 clusters"):
        share("s", [True, False], ["a"])
