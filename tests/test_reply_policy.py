"""Replies that are not whole are marked, never scored as if they were, and treated as the study says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stub_server import StubServer
from test_pipeline import REASONED, is_judge, stub_study

from toolkit.errors import StudyError
from toolkit.study import Study
from toolkit.study_file import load_study_file


def cut_off(below: int) -> dict[str, Any]:
    """Return a server whose replies end for want of tokens when asked for fewer than ``below``."""

    def answer(body: dict) -> str:
        return REASONED if is_judge(body) else f"Plan {body['max_tokens']} {str(body['messages'])[-300:]}"

    def change(reply: dict) -> dict:
        text = reply["choices"][0]["message"]["content"]
        if text.startswith("Plan") and int(text.split()[1]) < below:
            reply["choices"][0]["finish_reason"] = "length"
        return reply

    return {"answer": answer, "change": change}


def policy(path: Path, text: str) -> Study:
    base = path.read_text().split("[replies]")[0]
    path.write_text(base + f"[replies]\n{text}\n")
    return Study.load(path)


def test_cut_off_replies_are_excluded_unless_the_study_says_otherwise(
    tmp_path: Path, store_folder: Path
) -> None:
    """By default a truncated reply is kept and counted, and no judge is paid to look at it."""
    with StubServer(**cut_off(10**6)) as server:
        study = Study.load(stub_study(tmp_path, server.openai_url, bins='["S"]'))
        outcome = study.execute(progress=False)
        assert (outcome.succeeded, outcome.judged, outcome.excluded) == (2, 0, {"truncated": 2})
        assert server.count == 2
        runs = study.runs()
        assert (list(runs["defect"]), list(runs["excluded"])) == (["truncated"] * 2, [True] * 2)
        assert runs["composite"].isna().all()
        assert "2 x truncated" in outcome.summary().text
        assert study.status()["excluded"] == {"truncated": 2}
        study.store.close()


def test_another_policy_later_uses_what_is_there(tmp_path: Path, store_folder: Path) -> None:
    """Excluded first, then kept, then asked again with more tokens, then excluded again: each call is paid once."""
    with StubServer(**cut_off(8000)) as server:
        path = stub_study(tmp_path, server.openai_url, bins='["S"]')
        study = Study.load(path)
        study.run(progress=False)
        study.store.close()
        study = policy(path, 'truncated = "keep"')
        kept = study.execute(progress=False)
        assert (kept.judged, kept.new_calls, kept.excluded) == (2, 6, {})
        assert list(study.runs()["defect"]) == ["truncated"] * 2
        assert not study.runs()["excluded"].any()
        study.store.close()
        study = policy(path, 'truncated = "retry"')
        retried = study.execute(progress=False)
        # 2000 is there; 4000 and 8000 are asked, and the whole reply is judged anew.
        assert (retried.judged, retried.new_calls, retried.excluded) == (2, 2 * 2 + 6, {})
        runs = study.runs()
        assert runs["defect"].isna().all()
        assert all("8000" in study.reply(run_id) for run_id in runs["run_id"])
        assert (runs["attempts"] == 3).all()
        study.store.close()
        study = policy(path, 'truncated = "exclude"')
        assert study.execute(progress=False).new_calls == 0
        study.store.close()


def test_a_reply_that_stays_cut_off_is_excluded_after_the_retries(tmp_path: Path, store_folder: Path) -> None:
    """Two retries with twice the tokens each, all paid for, all counted, and still not scored."""
    with StubServer(**cut_off(10**6)) as server:
        study = policy(
            stub_study(tmp_path, server.openai_url, bins='["S"]'), 'truncated = "retry"\nretries = 2'
        )
        outcome = study.execute(progress=False)
        assert (outcome.excluded, outcome.judged, server.count) == ({"truncated": 2}, 0, 6)
        asked = sorted(seen.body["max_tokens"] for seen in server.seen)
        assert asked == [2000, 2000, 4000, 4000, 8000, 8000]
        spent = sum(call["aud_cost"] for call in study.store.database["calls"].find({}))
        assert study.runs()["aud_cost"].sum() == pytest.approx(spent)
        assert study.execute(progress=False).new_calls == 0
        study.store.close()


def test_a_policy_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    """More tokens do not turn a refusal into an answer."""
    path = tmp_path / "s.toml"
    path.write_text('name = "s"\nmodels = ["gpt-4o"]\n[replies]\nrefused = "retry"\n')
    with pytest.raises(StudyError, match=r"replies\.refused"):
        load_study_file(path)
