"""The local model really answers and judges: through the engine, the ledger and the openai client."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.study import Study

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.model
@pytest.mark.parametrize("rubric", ["default", "seed-v1"])
def test_the_local_model_answers_and_judges(tmp_path: Path, store_folder: Path, rubric: str) -> None:
    """One short prompt, three judges: every judgement is a score or a reason, and tokens are the server's own."""
    text = (ROOT / "templates" / "demo.toml").read_text(encoding="utf-8")
    text = text.replace("../results/demo", "results/demo").replace("rubrics/demo.toml", rubric)
    path = tmp_path / "local.toml"
    path.write_text(
        text.replace("[sampling]", 'scenarios = ["CTI_ANALYSIS"]\nlength_bins = ["S"]\n[sampling]')
    )
    study = Study.load(path)
    outcome = study.execute(progress=False, limit=1)
    runs, judgements, status = study.runs(), study.judgements(), study.status()
    captions = [path.read_text() for path in study.figures() if path.suffix == ".txt"]
    study.store.close()
    assert (outcome.succeeded, outcome.failed, len(judgements)) == (1, 0, 3)
    assert not runs["tokens_estimated"].any()
    # 64 tokens are not enough for a whole answer, and every caption says so.
    assert status["finish_reasons"] == {"length": 1}
    assert all("1 of 1 answer counted though truncated." in caption for caption in captions)
    assert (runs["output_tokens"] > 0).all()
    assert (runs["latency_ms"] > 0).all()
    assert (judgements["composite"].notna() != judgements["reason"].notna()).all()
    assert judgements["composite"].dropna().between(0, 5).all()
