"""Notebooks of a batch that run at the same time share the limits of a study."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import unjudged_study

from toolkit.errors import InputError
from toolkit.runs.endpoints import SHARE_ENV, endpoints_of, share_of

LIMITS = {"compatible": {"concurrency": 5, "requests_per_minute": 61, "tokens_per_minute": 1000}}


def test_a_limit_is_divided_and_rounded_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two notebooks of 5 requests at once have 2 each: together never more than the study says."""
    study = unjudged_study(tmp_path, "http://127.0.0.1:9", limits=LIMITS)
    (alone,) = endpoints_of(study.plan)
    assert (alone.concurrency, alone.requests_per_minute, alone.tokens_per_minute) == (5, 61, 1000)
    monkeypatch.setenv(SHARE_ENV, "2")
    (shared,) = endpoints_of(study.plan)
    assert (shared.concurrency, shared.requests_per_minute, shared.tokens_per_minute) == (2, 30, 500)


def test_a_limit_too_small_to_be_shared_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the limit and how many may run at once; a default of ours gives way instead."""
    monkeypatch.setenv(SHARE_ENV, "4")
    with pytest.raises(
        InputError, match=r"limits.openai.concurrency: 3 cannot be shared by 4 .* --workers 3"
    ):
        share_of(3, "limits.openai.concurrency")
    assert share_of(3, None) == 1


@pytest.mark.parametrize("text", ["", "x", "0", "-1"])
def test_a_share_that_is_none_is_the_whole(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Only a batch sets it; whatever else stands there divides nothing."""
    monkeypatch.setenv(SHARE_ENV, text)
    assert share_of(0.5, "limit") == 0.5
