"""The paragraphs on who was asked and how: the models under test, the judges with their rubric, and people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from toolkit.report.bundle.done import Done
from toolkit.report.bundle.references import HASH, Sentence
from toolkit.report.bundle.wording import joined
from toolkit.words import counted

if TYPE_CHECKING:
    from toolkit.models.catalogue import ModelSpec
    from toolkit.runs.provenance import Asked

_FOCUS: Final = "Focus sentence prompting"


def models(done: Done) -> tuple[Sentence, ...]:
    """Return who answered, when, and under which sampling."""
    plan = done.plan
    by_model = {(one.provider, one.model): one for one in done.answers if one.purpose == "run"}
    told = "; ".join(_model(name, spec, by_model, "answer") for name, spec in plan.models.items())
    sampling, many = plan.study.sampling, len(plan.models) > 1
    top_p = "" if sampling.top_p is None else f", top_p {sampling.top_p:g}"
    warmth = _temperature(sampling.temperature, top_p, plan.models)
    calls, answered = sum(one.calls for one in by_model.values()), done.status["runs"]["succeeded"]
    shared = (
        f"Equal requests are one call: the {counted(answered, 'answered runs')} rest on {calls} distinct calls, which "
        f"are "
        "the answers counted here; elsewhere n counts an answer for each run"
    )
    batch = "; requests went through the batch interface of the provider" * (plan.study.mode == "batch")
    return (
        Sentence(f"The model{'s' * many} under test, with the days (UTC) of the replies: {told}"),
        Sentence(
            f"{'They were' if many else 'It was'} asked for at most {sampling.max_tokens} tokens, {warmth}"
            f"{_seeds(done)}{batch}"
        ),
        *([Sentence(shared)] if calls < answered else []),
    )


def judges(done: Done) -> tuple[Sentence, ...]:
    """Return who judged, when, with which rubric and in which manner; nothing where nobody did."""
    plan = done.plan
    if not plan.judges:
        return ()
    by_model = {(one.provider, one.model): one for one in done.answers if one.purpose == "judge"}
    what = "judgement" if plan.test.judged else "call"
    keys = [(spec.provider, spec.model) for spec in plan.judge_models.values()]
    told = "; ".join(
        f"{role} {_model(judge.name, plan.judge_models[role], by_model, what, keys)}"
        + (f", for {judge.specialization}" if judge.specialization else "")
        for role, judge in plan.judges.items()
    )
    settings, many = plan.study.judges, len(plan.judges) > 1
    specs = {f"{role} {judge.name}": plan.judge_models[role] for role, judge in plan.judges.items()}
    said = [
        Sentence(f"The judge{'s' * many}: {told}"),
        Sentence(
            f"{'They were' if many else 'It was'} asked for at most {settings.max_tokens} tokens, "
            f"{_temperature(settings.temperature, '', specs)}"
        ),
    ]
    return (*said, *(_rubric(done) if plan.test.judged else ()), *_manner(done))


def people(done: Done) -> tuple[Sentence, ...]:
    """Return how many people rated how many answers; nothing where nobody did."""
    raters, answers = done.people
    if not raters:
        return ()
    return (
        Sentence(f"Under the same rubric {counted(raters, 'people')} rated {counted(answers, 'answers')}"),
    )


def _rubric(done: Done) -> tuple[Sentence, ...]:
    plan, rubric = done.plan, done.plan.rubric
    low, high = rubric.scale
    one = "; with one judge, as here, none has" * (len(plan.judges) == 1)
    return (
        Sentence(
            f"Rubric {rubric.name}, version {rubric.version} (SHA-256 {rubric.digest[:HASH]}), asks for scores of "
            f"{low:g} to {high:g} on {joined([name.replace('_', ' ') for name in rubric.names])}, and "
            f"{'shows' if rubric.shows_task else 'does not show'} the task that was answered"
        ),
        Sentence(
            "The composite of a judgement is the mean of its scores above 0, and composite_strict that of all"
        ),
        Sentence(
            "The score of an answer is the mean over judges; an answer that fewer than two judges scored has none"
            f"{one}"
        ),
    )


def _manner(done: Done) -> tuple[Sentence, ...]:
    plan, manner = done.plan, done.plan.manner
    said = [Sentence(words) for words in _related(done)]
    if manner.repair and plan.test.judged:
        said.append(Sentence("A judge whose reply cannot be read is shown the error and asked once more"))
    focus = ("domhan2025",) if manner.focus == "per_sentence" else ()
    said += [
        Sentence(words, focus if words.startswith(_FOCUS) else ())
        for words in manner.sentence().rstrip(".").split(". ")
        if words
    ]
    if manner.length_normalization:
        said.append(Sentence("Scores rest on what was found per 100 tokens of the reply"))
    if manner.shuffle:
        said.append(Sentence("The order of the dimensions differed from task to task"))
    if manner.expected:
        said.append(
            Sentence(
                "Expected scores, of judges that give log-probabilities, are weighted by the probabilities of tokens",
                ("liu2023",),
            )
        )
    return tuple(said)


def _related(done: Done) -> list[str]:
    plan = done.plan
    own = {role: judge.related for role, judge in plan.judges.items() if judge.related}
    if not own or not plan.test.judged:
        return []
    if plan.manner.related == "exclude":
        return ["A judge did not judge models of its own family"]
    pairs = [f"{role} with {joined(sorted(names))}" for role, names in own.items()]
    return [f"Judges that share a family with a model under test: {'; '.join(pairs)}; their judgements count"]


def _temperature(value: float, top_p: str, specs: Mapping[str, ModelSpec]) -> str:
    """Return at which temperature models were asked; some take none and set their own."""
    own = [name for name, spec in specs.items() if not spec.sampling_supported]
    if len(own) == len(specs):
        return f"at the temperature that the provider{'s set' if len(own) > 1 else ' sets'}"
    but = f", {joined(own)} at that of the provider" if own else ""
    return f"at temperature {value:g}{top_p}{but}"


def _seeds(done: Done) -> str:
    seeded = [name for name, spec in done.plan.models.items() if spec.seed_supported]
    if not seeded:
        return ""
    which = (
        "" if len(seeded) == len(done.plan.models) else f" where the provider takes one ({joined(seeded)})"
    )
    if done.plan.study.repeats == 1:
        return f", with the seed of the study{which}"
    return f"; repeat r, counted from 0, was asked with the seed of the study + r{which}"


def _model(
    name: str,
    spec: ModelSpec,
    asked: Mapping[tuple[str, str], Asked],
    what: str,
    among: Sequence[tuple[str, str]] = (),
) -> str:
    key = (spec.provider, spec.model)
    found = asked.get(key)
    said = [spec.provider if spec.model == name else f"{spec.provider}: {spec.model}"]
    if found is None:
        return f"{name} ({said[0]}, no reply yet)"
    versions = [version for version in found.answered_by if version not in (spec.model, name)]
    said += [f"answered as {joined(versions)}"] if versions else []
    # The ledger knows the model of a call and not its role: judges of one model have their calls together.
    shared = f" of the {among.count(key)} judges of this model together" * (among.count(key) > 1)
    return f"{name} ({', '.join([*said, found.days, counted(found.calls, f'{what}s')])}{shared})"
