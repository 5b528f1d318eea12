"""The paragraphs that count: what the study asked, what is missing and why, what it cost, and the software."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from toolkit.report.bundle.done import Done
from toolkit.report.bundle.references import HASH, Sentence, packages_used
from toolkit.report.bundle.wording import aud, joined, listed, reasons
from toolkit.stats.inference.clusters import units_words
from toolkit.words import agreeing, counted

if TYPE_CHECKING:
    from toolkit.models.prices import Price

_DEFECTS: Final = ("truncated", "empty", "refused", "filtered")
_TOOLS: Final = ("llm-security-toolkit", "openai", "anthropic", "tiktoken", "mongoengine")
_NEXT_TO_NOTHING: Final = 1e-9


_SHARED: Final = (
    "Bases that share a text, directly or through others, are one independent group: intervals and tests count "
    "groups, within which bases are averaged"
)


def design(done: Done) -> tuple[Sentence, ...]:
    """Return what was asked: prompts, bases and lengths, dataset, models and repeats."""
    plan, study = done.plan, done.plan.study
    asked_ids = {run.prompt.prompt_id for run in plan.runs}
    items = {run.item.item_id for run in plan.runs}
    asked = f"{counted(len(asked_ids), 'prompts')} of {counted(len(items), 'test items')}"
    if plan.test.judged:
        prompts = [prompt for prompt in plan.dataset.prompts if prompt.prompt_id in asked_ids]
        lengths = [name for name in study.length_bins if any(p.length_bin == name for p in prompts)]
        scenarios = list(dict.fromkeys(prompt.scenario for prompt in prompts))
        asked = (
            f"{counted(len(prompts), 'prompts')}: {units_words(plan.clusters, {p.base for p in prompts})} of the "
            f"{listed('scenario', scenarios)}, in the {listed('length', lengths)}"
        )
    shared = any(cluster != base for base, cluster in plan.clusters.items())
    times = "once" if study.repeats == 1 else f"{study.repeats} times"
    margin = study.analysis.equivalence_margin if plan.test.judged else None
    fixed = (
        [] if margin is None else [f"The study file fixes a margin of equivalence of {margin:g} score points"]
    )
    return (
        Sentence(f"Study {study.name} is a test of the kind {plan.test.name}"),
        Sentence(f"It asked {asked}"),
        *([Sentence(_SHARED)] if shared else []),
        Sentence(
            f"The dataset is {plan.dataset.version} (SHA-256 {plan.dataset.digest[:HASH]}); "
            f"hashes are given by their first {HASH} characters and are whole in manifest.json"
        ),
        Sentence(
            f"Each prompt was put to {counted(len(plan.models), 'models')} {times}, "
            f"{counted(len(plan.runs), 'runs')} in all; the seed of the study is {study.seed}"
        ),
        *map(Sentence, (*fixed, *_independence(done), *_roles(done))),
    )


def _independence(done: Done) -> list[str]:
    """Return what of the dataset is not independent or not as it should be."""
    asked = {run.prompt.prompt_id: run.prompt.text for run in done.plan.runs}
    equal = len(asked) - len(set(asked.values()))
    told = []
    if equal:
        told.append(
            f"Of its {counted(len(asked), 'prompts')} only {len(set(asked.values()))} differ in their text"
        )
    accepted = done.plan.study.accept_flaws
    known = {kind: count for kind, count in done.plan.flaws.items() if kind in accepted}
    others = {kind: count for kind, count in done.plan.flaws.items() if kind not in accepted}
    if known:
        told.append(f"The study file accepts these flaws of the dataset{reasons(known)}")
    if others:
        told.append(f"`toolkit prompts check` finds these flaws of the dataset besides{reasons(others)}")
    return told


def _roles(done: Done) -> list[str]:
    if not done.plan.test.judged:
        return []
    primary = done.plan.study.analysis.primary
    if primary is None:
        return ["The study file names no primary contrast, so every comparison is exploratory"]
    return [
        f"The one confirmatory contrast is {primary}, which the study file names; its P value and interval are "
        "unadjusted, and every other comparison is exploratory"
    ]


def missing(done: Done) -> tuple[Sentence, ...]:
    """Return how much there is of what was planned, and why the rest is missing."""
    status = done.status
    runs, judgements, excluded = status["runs"], status["judgements"], status["excluded"]
    said = [
        Sentence(
            f"Of {counted(runs['planned'], 'planned runs')} {runs['succeeded']} "
            f"{agreeing(runs['succeeded'], 'were answered')}, {runs['failed']} failed{reasons(status['failures'])} and "
            f"{runs['missing']} {agreeing(runs['missing'], 'were not asked')}"
        ),
        *(
            [
                Sentence(
                    f"Equal requests were paid once: {runs['planned']} runs, {status['distinct_calls']} distinct calls"
                )
            ]
            if status["distinct_calls"] != runs["planned"]
            else []
        ),
        *(Sentence(words) for words in _policies(done)),
    ]
    if excluded:
        out = sum(excluded.values())
        said.append(
            Sentence(
                f"So {counted(out, 'answers')} {agreeing(out, 'were')} left out as not whole{reasons(excluded)}"
            )
        )
    if done.plan.test.judged:
        unread = judgements["done"] - judgements["scored"]
        gone = judgements["missing"]
        times = done.plan.manner.repeats
        each = f" ({times} calls each, averaged first)" if times > 1 else ""
        said.append(
            Sentence(
                f"Of {counted(judgements['planned'], 'planned judgements')}{each} {judgements['done']} "
                f"{agreeing(judgements['done'], 'were')} given, of which {unread} could not be read"
                f"{reasons(status['judgement_failures'])}, and {gone} {agreeing(gone, 'are')} missing"
            )
        )
    if done.unscored:
        one = done.unscored == 1
        said.append(
            Sentence(
                f"{counted(done.unscored, 'answers')} {agreeing(done.unscored, 'have')} no score, because fewer than "
                f"two judges scored {'it' if one else 'them'}"
            )
        )
    said.append(Sentence("What failed is missing and never counted as zero"))
    return tuple(said)


def cost(done: Done) -> tuple[Sentence, ...]:
    """Return what the study cost, at which prices and rate of exchange."""
    by = {
        purpose: sum(one.aud for one in done.paid if one.purpose == purpose) for purpose in ("run", "judge")
    }
    total, calls = sum(by.values()), sum(one.calls for one in done.paid)
    apart = f" (runs AUD {aud(by['run'])}, judges AUD {aud(by['judge'])})"
    judged = any(one.purpose == "judge" for one in done.paid)
    said = [f"The study cost AUD {aud(total)}{apart if judged else ''} in {counted(calls, 'calls')}"]
    reported = sum(one.calls for one in done.answers)
    if done.plan.test.judged and reported < calls:
        said.append(
            f"{reported} of these calls brought the answers and judgements that are reported; the others asked again, "
            "or about segments, or belong to earlier settings or to probes"
        )
    others = (
        total
        - done.status["spent_aud"]
        + sum(one["aud"] for one in done.status.get("settled", ()) if one["billed"])
    )
    if others > _NEXT_TO_NOTHING * total:
        said.append(f"AUD {aud(others)} of it was paid by other studies, whose calls this one shares")
    if done.status["unsure_aud"]:
        said.append(
            f"At most AUD {aud(done.status['unsure_aud'])} more may have been billed for attempts without a reply"
        )
    for one in done.status.get("settled", ()):
        which = "accepted as billed besides" if one["billed"] else "cleared as not billed"
        said.append(
            f"AUD {aud(one['aud'])} of {counted(one['calls'], 'calls')} without a reply was {which} on {one['at'][:10]}"
        )
    return tuple(Sentence(words) for words in (*said, *_prices(done)))


def software(done: Done) -> tuple[Sentence, ...]:
    """Return the software with its versions on the day on which the bundle was written."""
    versions, commit = done.manifest["versions"], done.manifest["commit"]
    tools = [f"{name} {versions[name]}" for name in _TOOLS if versions.get(name)]
    found = packages_used(versions, done.evidence)
    named = [f"{name} {version}" for name, version, _ in found]
    keys = tuple(key for _, _, cite in found for key in cite)
    at = f"; the toolkit is at commit {commit}" if commit else ""
    return (
        Sentence(
            f"This was written with Python {versions['python']}, {joined(tools)}{at}; calls that were made earlier may "
            "have been made with other versions"
        ),
        Sentence(f"Analyses and figures were made with {joined(named)}", keys),
    )


def _policies(done: Done) -> list[str]:
    """Return what became of replies that are not whole, by what the study file says."""
    replies = done.plan.study.replies
    by = {
        policy: [d for d in _DEFECTS if getattr(replies, d) == policy]
        for policy in ("keep", "retry", "exclude")
    }
    told = {
        "keep": "count as they are",
        "retry": f"are asked for again with twice the tokens, up to {replies.retries} times, and then left out",
        "exclude": "are left out",
    }
    rules = [
        f"replies that are {joined(defects, 'or')} {told[policy]}"
        for policy, defects in by.items()
        if defects
    ]
    cut = done.status["finish_reasons"].get("length", 0)
    ended = [f"{counted(cut, 'replies')} ended at the limit of tokens"] if cut else []
    return [f"By the study file {'; '.join(rules)}", *ended]


def _prices(done: Done) -> list[str]:
    """Return prices and rate; the ledger has what each call cost when it was made, and not the table of that day."""
    paid = {name: price for name, price in done.prices.items() if price is not None and max(_usd(price)) > 0}
    unknown = [name for name, price in done.prices.items() if price is None]
    lost = [f"No price is known today of {joined(unknown)}"] if unknown else []
    if not paid:
        return lost or (["No model that was asked has a price"] if done.prices else [])
    by: dict[str, list[str]] = {}
    for name, price in paid.items():
        low, high = _usd(price)
        by.setdefault(price.source, []).append(f"{name} {low:g} sent and {high:g} received")
    told = "; ".join(f"{', '.join(names)} ({source})" for source, names in by.items())
    rates = {f"{price.aud_per_usd:g} AUD a USD ({price.rate_source})": None for price in paid.values()}
    return [
        "Each call was priced from its tokens when it was made",
        f"The prices that are known today, in USD per million tokens: {told}, at {joined(list(rates))}",
        *lost,
    ]


def _usd(price: Price) -> tuple[float, float]:
    return price.usd_per_million_input, price.usd_per_million_output
