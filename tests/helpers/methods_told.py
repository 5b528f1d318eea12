"""The methods section of a study as text, without the bundle around it."""

from toolkit.thesis.methods import evidence_of, methods_section, methods_text, what_was_done


def methods_of(study, files=()):
    """Return what the bundle of a study would tell, of which these are the figures and tables."""
    frames = study.frames()
    evidence = evidence_of(files.shown if files else (), (), frames)
    done = what_was_done(study.plan, study.store, frames, study.status(), study.manifest(), evidence)
    return methods_text(methods_section(done))
