"""The plan of a study on one page, for a supervisor or a registry: what is decided, with its power and its hash."""

from datetime import UTC, datetime
from pathlib import Path

from toolkit.errors import InputError
from toolkit.report.escape import readable
from toolkit.report.manifest import write_own
from toolkit.runs.decisions import bases_of, decided, decisions_of, digest_of
from toolkit.runs.estimate import estimate_summary
from toolkit.study import Study
from toolkit.words import Summary


def register(study: Study, pilot: Study | None, out: Path) -> Summary:
    """Write the plan of a study as Markdown, with the power that a pilot shows, or else the study's own runs."""
    from toolkit.thesis.methods import templates

    plan = study.plan
    if not plan.test.judged:
        message = f"test {plan.test.name} has no contrasts to register; rubric_study has"
        raise InputError(f"study {study.name}: {message}")
    decisions, cost = decisions_of(plan, study.store), estimate_summary(study.estimate())
    content = decisions.content or decided(plan)
    primary, margin = content.get("analysis.primary"), content.get("analysis.equivalence_margin")
    values = {
        "study": plan.study,
        "plan": plan,
        "digest": digest_of(content),
        "decided_at": decisions.at,
        "today": datetime.now(UTC).strftime("%Y-%m-%d"),
        "replies": study.status()["runs"]["succeeded"],
        # As it was decided, not as the file says it now.
        "primary": primary,
        "margin": None if margin is None else float(margin),
        "bases": bases_of(plan),
        "models": [f"{name} ({spec.provider})" for name, spec in plan.models.items()],
        "judges": [f"{role} {judge.name}" for role, judge in plan.judges.items()],
        "estimate": cost.text.splitlines()[-1].strip(),
        "power": _power(pilot or study, primary),
        "changes": decisions.sentences(),
    }
    text = templates().get_template("thesis/registration.jinja").render(values)
    page = readable(text).encode()
    path = write_own(out, page, page.splitlines()[0])
    fields = {
        **cost.fields,
        "study": study.name,
        "sha256": values["digest"],
        "path": str(path),
        "changes": values["changes"],
        "decided_at": decisions.at.isoformat() if decisions.at else None,
    }
    return Summary(fields, f"{cost.text}\n\n{path}\nSHA-256 of what is decided: {values['digest']}")


def _power(pilot: Study, primary: str | None) -> list[str]:
    analyses = pilot.frames()
    if not analyses.is_judged:
        return [f"Not known: study {pilot.name} has no scores; a pilot with some is given by --pilot."]
    return [
        f"From the runs of {pilot.name}, {name}: {estimate.sentence()}"
        for name, estimate in analyses.power(analyses.margin).rows()
        if estimate.estimable and name == (primary or name) and name != "all"
    ]
