"""The methods section counts the judgements of judges that are one model once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from toolkit.report.bundle.evidence import Evidence
from toolkit.report.bundle.methods import methods_section, methods_text
from toolkit.study import Study
from toolkit.workbench.bundling import what_was_done


def test_judges_of_one_model_have_their_judgements_together(study_file: Callable[..., Path]) -> None:
    """The ledger knows the model of a call and not which judge it was: twelve judgements, not twelve of each."""
    path = study_file()
    path.write_text(path.read_text().replace('"judge-b"', '"judge-a"'))
    study = Study.load(path)
    study.run(progress=False)
    told = methods_text(methods_section(what_was_done(study, study.status(), Evidence())))
    study.store.close()
    assert told.count("12 judgements of the 2 judges of this model together") == 2
    assert "tertiary judge-c (scripted" in told
    assert ", 6 judgements)" in told
