"""The methods section counts the calls of judges that are one model once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from toolkit.report.bundle.methods import methods_section, methods_text
from toolkit.report.manifest import manifest
from toolkit.runs.asked import asked_models
from toolkit.workbench import Study


def test_judges_of_one_model_have_their_calls_together(study_file: Callable[..., Path]) -> None:
    """The ledger knows the model of a call and not which judge it was: twelve calls, not twelve of each."""
    path = study_file()
    path.write_text(path.read_text().replace('"judge-b"', '"judge-a"'))
    study = Study.load(path)
    study.run(progress=False)
    asked = asked_models(study.plan, study.store)
    section = methods_section(study.plan, asked, study.status(), manifest(study.plan, path, {}), "")
    study.store.close()
    told = methods_text(section)
    assert told.count("12 calls of the 2 judges of this model together") == 2
    assert "tertiary judge-c (scripted" in told
    assert "6 calls)" in told
