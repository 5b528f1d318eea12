"""What a methods section says of calls and money is what the frame of calls holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.runs.provenance import asked_models
from toolkit.study import Study

PRICES = "usd_per_million_input = 1, usd_per_million_output = 2"
STUDY = f"""
name = "%s"
models = [{{ name = "scripted", {PRICES} }}]
scenarios = ["CTI_ANALYSIS"]
[judges]
primary = {{ name = "judge-a", provider = "scripted", {PRICES} }}
secondary = {{ name = "judge-b", provider = "scripted", replies = ["Good."], {PRICES} }}
tertiary = {{ name = "judge-c", provider = "scripted", {PRICES} }}
"""


@pytest.mark.parametrize("first", [True, False], ids=["who paid", "who shares the calls"])
def test_calls_and_cost_are_those_of_the_frame(tmp_path: Path, store_folder: Path, first: bool) -> None:
    """A second study that asks the same shares every call, the repairs of a judge who writes prose too."""
    for name in ("one", "two"):
        path = tmp_path / f"{name}.toml"
        path.write_text(STUDY % name)
        study = Study.load(path)
        study.execute(progress=False)
        if first:
            break
        study.store.close()
    study = Study.load(path)
    calls = study.calls()
    said = asked_models(study.plan, study.store, study.judgements()["call_id"].dropna())
    assert len(calls) == 6 + 18 + 6  # one repair of each reply that could not be read
    assert set(calls["paid_by"]) == {"one"}
    assert sum(one.calls for one in said) == len(calls)
    assert sum(one.aud for one in said) == pytest.approx(calls["aud_cost"].sum(), rel=1e-12)
    assert calls["aud_cost"].sum() > 0
    study.store.close()
