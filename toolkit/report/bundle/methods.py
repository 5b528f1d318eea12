"""The methods section of a study, written from its plan, its ledger and what its statistics say of themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from toolkit.report.bundle.references import Sentence, packages_used, short_reference, statistics_used
from toolkit.report.latex_text import escape_breaking

if TYPE_CHECKING:
    from toolkit.models.catalogue import ModelSpec
    from toolkit.plan import Plan
    from toolkit.runs.asked import Asked

Paragraph = tuple[str, tuple[Sentence, ...]]
"""Heading and sentences."""
_HASH: Final = 12
"""Characters of a hash that the text shows; the manifest has all."""


def methods_section(
    plan: Plan,
    asked: Sequence[Asked],
    status: Mapping[str, Any],
    manifest: Mapping[str, Any],
    told: str,
) -> tuple[Paragraph, ...]:
    """Return the methods section as paragraphs.

    Parameters
    ----------
    plan
        The planned study.
    asked
        From `toolkit.runs.asked.asked_models`.
    status
        From `toolkit.runs.status.study_status`.
    manifest
        From `toolkit.report.manifest.manifest`.
    told
        Captions, tables and sentences of the bundle, which name the statistics.
    """
    paragraphs = (
        ("Design", _design(plan)),
        ("Models", _models(plan, asked)),
        ("Judges", _judges(plan, asked)),
        ("Statistics", tuple(statistics_used(told))),
        ("Missing and excluded", _missing(plan, status)),
        ("Cost", _cost(asked, status)),
        ("Software", _software(manifest)),
    )
    return tuple((heading, sentences) for heading, sentences in paragraphs if sentences)


def methods_text(paragraphs: Sequence[Paragraph]) -> str:
    """Return the section as plain text with author and year of each reference.

    Parameters
    ----------
    paragraphs
        From `methods_section`.

    Examples
    --------
    >>> print(methods_text([("Statistics", (Sentence("Holm's method was used", ("holm1979",)),))]))
    Statistics. Holm's method was used (Holm 1979).
    <BLANKLINE>
    """
    told = []
    for heading, sentences in paragraphs:
        said = [
            one.text + (f" ({'; '.join(map(short_reference, one.cite))})" if one.cite else "") + "."
            for one in sentences
        ]
        told.append(" ".join([f"{heading}.", *said]))
    return "\n\n".join(told) + "\n"


def methods_latex(paragraphs: Sequence[Paragraph]) -> str:
    r"""Return the section as LaTeX with ``\cite`` of each reference.

    Parameters
    ----------
    paragraphs
        From `methods_section`.

    Examples
    --------
    >>> print(methods_latex([("Statistics", (Sentence("d_z", ("holm1979", "wilson1927")),))]))
    \paragraph{Statistics.}
    d\_z~\cite{holm1979,wilson1927}.
    <BLANKLINE>
    """
    told = []
    for heading, sentences in paragraphs:
        said = [
            escape_breaking(one.text) + (rf"~\cite{{{','.join(one.cite)}}}" if one.cite else "") + "."
            for one in sentences
        ]
        told.append("\n".join([rf"\paragraph{{{escape_breaking(heading)}.}}", *said]))
    return "\n\n".join(told) + "\n"


def cited(paragraphs: Sequence[Paragraph]) -> list[str]:
    """Return the key of every reference that the section cites, once, in the order of the alphabet."""
    return sorted({key for _, sentences in paragraphs for one in sentences for key in one.cite})


def _design(plan: Plan) -> tuple[Sentence, ...]:
    study = plan.study
    asked_ids = {run.prompt.prompt_id for run in plan.runs}
    prompts = [prompt for prompt in plan.dataset.prompts if prompt.prompt_id in asked_ids]
    items = {run.item.item_id for run in plan.runs}
    asked = f"{_count(len(asked_ids), 'prompt')} of {_count(len(items), 'test item')}"
    if plan.test.judged:
        bases = {prompt.base for prompt in prompts}
        lengths = [name for name in study.length_bins if any(p.length_bin == name for p in prompts)]
        scenarios = list(dict.fromkeys(prompt.scenario for prompt in prompts))
        asked = (
            f"{_count(len(prompts), 'prompt')}: {_count(len(bases), 'base')} of the scenarios "
            f"{_joined(scenarios)} in the lengths {_joined(lengths)}"
        )
    return (
        Sentence(f"Study {study.name} is a test of the kind {plan.test.name}"),
        Sentence(f"It asked {asked}"),
        Sentence(
            f"The dataset is {plan.dataset.version} (SHA-256 {plan.dataset.digest[:_HASH]}); "
            f"hashes are given by their first {_HASH} characters and are whole in manifest.json"
        ),
        Sentence(
            f"Each prompt was put to {_count(len(plan.models), 'model')} {_times(study.repeats)}, "
            f"{_count(len(plan.runs), 'run')} in all; the seed of the study is {study.seed}"
        ),
    )


def _models(plan: Plan, asked: Sequence[Asked]) -> tuple[Sentence, ...]:
    by_model = {(one.provider, one.model): one for one in asked if one.purpose == "run"}
    listed = "; ".join(_model(name, spec, by_model) for name, spec in plan.models.items())
    sampling = plan.study.sampling
    top_p = "" if sampling.top_p is None else f", top_p {sampling.top_p:g}"
    seeded = [name for name, spec in plan.models.items() if spec.seed_supported]
    seeds = f"; repeat r was asked with the seed of the study + r where the provider takes one ({_joined(seeded)})"
    batch = "; requests went through the batch interface of the provider" * (plan.study.mode == "batch")
    return (
        Sentence(f"The models under test, with the days (UTC) of their replies: {listed}"),
        Sentence(
            f"They were asked at temperature {sampling.temperature:g} for at most {sampling.max_tokens} tokens"
            f"{top_p}{seeds if seeded else ''}{batch}"
        ),
    )


def _judges(plan: Plan, asked: Sequence[Asked]) -> tuple[Sentence, ...]:
    if not plan.judges:
        return ()
    by_model = {(one.provider, one.model): one for one in asked if one.purpose == "judge"}
    settings, rubric, manner = plan.study.judges, plan.rubric, plan.manner
    keys = [(spec.provider, spec.model) for spec in plan.judge_models.values()]
    listed = "; ".join(
        f"{role} {_model(judge.name, plan.judge_models[role], by_model, keys)}"
        + (f", for {judge.specialization}" if judge.specialization else "")
        for role, judge in plan.judges.items()
    )
    said = [
        Sentence(f"The judges: {listed}"),
        Sentence(
            f"They were asked at temperature {settings.temperature:g} for at most {settings.max_tokens} tokens"
        ),
    ]
    if plan.test.judged:
        low, high = rubric.scale
        said += [
            Sentence(
                f"Rubric {rubric.name}, version {rubric.version} (SHA-256 {rubric.digest[:_HASH]}), asks for scores of "
                f"{low:g} to {high:g} on {_joined([name.replace('_', ' ') for name in rubric.names])}, and "
                f"{'shows' if rubric.shows_task else 'does not show'} the task that was answered"
            ),
            Sentence(
                "The composite of a judgement is the mean of its scores above 0, and composite_strict that of all"
            ),
            Sentence(
                "The score of an answer is the mean over judges; an answer that fewer than two judges scored has none"
            ),
        ]
        own = any(judge.related for judge in plan.judges.values())
        if own and manner.related == "exclude":
            said.append(Sentence("A judge did not judge models of its own family"))
    focus = ("domhan2025",) if manner.focus == "per_sentence" else ()
    said += [
        Sentence(words, focus if "Focus" in words else ())
        for words in manner.sentence().rstrip(".").split(". ")
        if words
    ]
    if manner.shuffle:
        said.append(Sentence("The order of the dimensions differed from task to task"))
    if manner.expected:
        said.append(Sentence("Expected scores are weighted by the probabilities of the tokens", ("liu2023",)))
    return tuple(said)


def _missing(plan: Plan, status: Mapping[str, Any]) -> tuple[Sentence, ...]:
    runs, judgements = status["runs"], status["judgements"]
    said = [
        Sentence(
            f"Of {_count(runs['planned'], 'planned run')} {runs['succeeded']} were answered, {runs['failed']} failed"
            f"{_reasons(status['failures'])} and {runs['missing']} were not asked"
        )
    ]
    excluded = status["excluded"]
    if excluded:
        said.append(
            Sentence(f"{sum(excluded.values())} answers were excluded because not whole{_reasons(excluded)}")
        )
    if plan.test.judged:
        unread = judgements["done"] - judgements["scored"]
        said.append(
            Sentence(
                f"Of {_count(judgements['planned'], 'planned judgement')} {judgements['done']} were given, of which "
                f"{unread} could not be read{_reasons(status['judgement_failures'])}, and {judgements['missing']} "
                "are missing"
            )
        )
    said.append(Sentence("What failed is missing and never counted as zero"))
    return tuple(said)


def _cost(asked: Sequence[Asked], status: Mapping[str, Any]) -> tuple[Sentence, ...]:
    by = {purpose: sum(one.aud for one in asked if one.purpose == purpose) for purpose in ("run", "judge")}
    calls = _count(sum(one.calls for one in asked), "call")
    apart = f" (runs AUD {_aud(by['run'])}, judges AUD {_aud(by['judge'])})"
    judged = any(one.purpose == "judge" for one in asked)
    said = [Sentence(f"The study cost AUD {_aud(sum(by.values()))}{apart if judged else ''} in {calls}")]
    if status["unsure_aud"]:
        said.append(
            Sentence(
                f"At most AUD {_aud(status['unsure_aud'])} more may have been billed for attempts without a reply"
            )
        )
    return tuple(said)


def _software(manifest: Mapping[str, Any]) -> tuple[Sentence, ...]:
    commit = f"; the toolkit is at commit {manifest['commit']}" if manifest["commit"] else ""
    versions = packages_used(manifest["versions"])
    plain = [f"{name} {version}" for name, version, cite in versions if not cite]
    named = [f"{name} {version}" for name, version, cite in versions if cite]
    keys = tuple(key for _, _, cite in versions for key in cite)
    return (
        Sentence(f"Calls were made with {_joined(plain)}{commit}"),
        Sentence(f"Analyses and figures were made with {_joined(named)}", keys),
    )


def _model(
    name: str,
    spec: ModelSpec,
    asked: Mapping[tuple[str, str], Asked],
    judges: Sequence[tuple[str, str]] = (),
) -> str:
    key = (spec.provider, spec.model)
    found = asked.get(key)
    said = [spec.provider if spec.model == name else f"{spec.provider}: {spec.model}"]
    if found is None:
        return f"{name} ({said[0]}, not asked yet)"
    versions = [version for version in found.answered_by if version not in (spec.model, name)]
    said += [f"answered as {_joined(versions)}"] if versions else []
    # The ledger knows the model of a call and not its role: judges of one model have their calls together.
    shared = f" of the {judges.count(key)} judges of this model together" * (judges.count(key) > 1)
    return f"{name} ({', '.join([*said, found.days, _count(found.calls, 'call')])}{shared})"


def _reasons(counts: Mapping[str, int]) -> str:
    return (
        f" ({', '.join(f'{count} {reason}' for reason, count in sorted(counts.items()))})" if counts else ""
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _times(repeats: int) -> str:
    return "once" if repeats == 1 else f"{repeats} times"


def _joined(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else "".join(names)


def _aud(value: float) -> str:
    """Return an amount that is never rounded to nothing."""
    return f"{value:.2f}" if value == 0 or value >= 1 else f"{value:.3g}"
