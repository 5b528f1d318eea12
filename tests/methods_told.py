"""The methods section of a study as text, without the bundle around it."""

from __future__ import annotations

from toolkit.report.show import Files
from toolkit.study import Study
from toolkit.thesis.methods import methods_section, methods_text, what_was_done


def methods_of(study: Study, files: Files | tuple[()] = ()) -> str:
    """Return what the bundle of a study would tell, of which these are the figures and tables."""
    shown = files.shown if files else ()
    done = what_was_done(study.plan, study.store, study.frames(), study.status(), study.manifest(), shown)
    return methods_text(methods_section(done))
