"""What a study says of each of its questions, in the order of a thesis: numbers for the sentences of findings.toml."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import combinations, starmap, zip_longest
from typing import TYPE_CHECKING, Any

import pandas as pd

from toolkit.analyses import BY_KEY, ON_ANSWERS, OWN, QUESTIONS
from toolkit.analyses.answers import Analyses
from toolkit.errors import InputError, NotAnswerable
from toolkit.report import captions
from toolkit.report.blocks import Paragraph, Sentence
from toolkit.stats import WORDS
from toolkit.stats.agreement.icc import THESE_JUDGES
from toolkit.stats.comparisons.cost_quality import cost_column
from toolkit.stats.comparisons.models import RATE_UNIT
from toolkit.stats.conditions.contrasts import successive
from toolkit.stats.inference.p_values import LEVEL
from toolkit.stats.inference.run_table import WHOLE
from toolkit.stats.one_shot.methods import VERDICTS, MethodScore, document_words, methods_frame, overall
from toolkit.stats.result import Estimate, digits_apart, estimates_frame
from toolkit.thesis.methods import data_file
from toolkit.words import agreeing, choices, counted, joined, level_words, one_line, scale_words, total_aud

if TYPE_CHECKING:
    from toolkit.stats.result import Result

Reasons = Mapping[str, str]
"""Why questions cannot be answered, by the name of the analysis."""
DIFFERENT = "different"
SMALL = "different, within the margin"
EQUIVALENT = "equivalent within the margin"
UNDECIDED = "undecided"
NOT_ANSWERED = "not answered"
MOST_TIED = 6  # pairs of models that a sentence names; the table has all
TEXTS: Mapping[str, Any] = data_file("findings.toml") | {
    name: words["finding"] for name, words in WORDS.items() if "finding" in words
}


@dataclass(frozen=True)
class Statement:
    """One sentence, without its full stop, about a question, and the estimate and verdict that it states."""

    text: str
    estimate: Estimate | None = None
    verdict: str = ""
    question: str = ""
    equivalence: Estimate | None = None

    @property
    def sentence(self) -> str:
        """The sentence with its full stop."""
        return f"{self.text}."

    def __post_init__(self) -> None:
        """Put the text on one line, whatever the names in it hold."""
        object.__setattr__(self, "text", one_line(self.text, len(self.text)))


@dataclass(frozen=True)
class Findings:
    """The sentences of a results section, by question, as frame, texts, or a paragraph a question (``section()``)."""

    study: str
    statements: tuple[Statement, ...]

    def frame(self) -> pd.DataFrame:
        """Return one row a sentence: question, statement, estimate, low, high, p_value, verdict, unit and n."""
        numbers = [statement.estimate or Estimate("", None) for statement in self.statements]
        questions = (statement.question for statement in self.statements)
        frame = estimates_frame(zip(questions, numbers, strict=True), "question").assign(
            statement=self.sentences(),
            verdict=[statement.verdict for statement in self.statements],
            unit=["" if number.unit == "none" else str(number.unit) for number in numbers],
        )
        return frame[["question", "statement", "estimate", "low", "high", "p_value", "verdict", "unit", "n"]]

    @property
    def estimates(self) -> list[Estimate]:
        """The numbers that the sentences state."""
        pairs = ((statement.estimate, statement.equivalence) for statement in self.statements)
        return [number for pair in pairs for number in pair if number is not None]

    def sentences(self) -> tuple[str, ...]:
        """Return the sentences, ready for the thesis."""
        return tuple(statement.sentence for statement in self.statements)

    def section(self) -> tuple[Paragraph, ...]:
        """Return a paragraph for each question."""
        questions = captions.by_key((one.question, Sentence(one.text)) for one in self.statements)
        return tuple(Paragraph(tuple(texts), question) for question, texts in questions.items())

    def __repr__(self) -> str:
        """Return the questions, each with its sentences below."""
        return "\n".join(findings_lines(self.section()))

    def _repr_html_(self) -> str:
        from toolkit.report.show import lines_html

        return lines_html(findings_lines(self.section()))


def findings_lines(section: Iterable[Paragraph]) -> list[str]:
    """Return the paragraphs as lines of text: the question, and its sentences indented."""
    lines: list[str] = []
    for paragraph in section:
        lines += [paragraph.heading, *(f"  {sentence.text}." for sentence in paragraph.sentences)]
        lines += [f"  {paragraph.see}"] if paragraph.shown else []
    return lines


def _on(question: str, statements: Iterable[Statement]) -> Iterator[Statement]:
    """Yield statements on a question, but for those that are on another one."""
    for statement in statements:
        yield statement if statement.question else replace(statement, question=question)


def scored_findings(analyses: Analyses, reasons: Reasons, only: Collection[str] = ()) -> Iterator[Statement]:
    """Yield what scores say, question by question: those in ``only``, or all but what such scores are not about."""
    # What prompt lengths tell of the judges is told by these where lengths are not spoken of.
    silent = {} if not only or "length" in only else {"length": "not asked"}
    parts: dict[str, Callable[[Analyses], Iterator[Statement]]] = {
        "length": partial(_length, reasons=reasons),
        "conditions": _conditions,
        "accuracy": _accuracy,
        "compare_models": _models,
        "length_bias": partial(_numbers, name="length_bias"),
        "pareto": _front,
        "compare_pairs": _pairs,
        "reliability": partial(_judges, reasons={**reasons, **silent}),
        "calibration": _people,
        "hallucination": partial(_numbers, name="hallucination"),
        "missing": _missing,
    }
    parts |= {name: partial(_numbers, name=name) for name in OWN}
    titles = {name: words.get("heading", words.get("title", name)) for name, words in WORDS.items()}
    foreign = set(QUESTIONS) - ON_ANSWERS if analyses.is_keyed else set(BY_KEY)
    # What a study did not set out to ask is not mentioned; that one judge alone gave the scores is.
    foreign |= set() if only else analyses.absent.keys() - {"reliability"}
    absent = {
        "length": bool(
            analyses.factor or (analyses.runs["level"].isin([WHOLE]) | analyses.runs["level"].isna()).all()
        ),
        "conditions": not analyses.factors,
        "missing": not analyses.is_judged,
        "length_bias": not analyses.length_normalization,
    }
    foreign |= {name for name, is_absent in absent.items() if is_absent}
    if unknown := [name for name in only if name not in parts]:
        raise InputError(f"findings: no question {unknown[0]!r}; {choices(unknown[0], parts)}")
    for name in [name for name in parts if (name in only if only else name not in foreign)]:
        try:
            if name in reasons:
                raise NotAnswerable(titles[name], reasons[name])
            yield from _on(titles[name], parts[name](analyses))
        except NotAnswerable as error:
            text = TEXTS["not_answered"].format(reason=error.why)
            yield Statement(text, None, NOT_ANSWERED, titles[name])


def verdict_of(number: Estimate, equivalence: Estimate | None = None, reference: float = 0.0) -> str:
    """Return different, equivalent, both, undecided, or that there is no estimate; never that nothing differs."""
    if number.estimate is None and number.low is None and number.high is None:
        return NOT_ANSWERED
    is_different = _leaves_out(number, reference) if number.p_value is None else number.p_value < LEVEL
    if equivalence is not None and equivalence.p_value is not None and equivalence.p_value < LEVEL:
        return SMALL if is_different else EQUIVALENT
    return DIFFERENT if is_different else UNDECIDED


def _leaves_out(number: Estimate, reference: float) -> bool:
    low, high = number.low, number.high
    return (low is not None and reference < low) or (high is not None and high < reference)


def _undecided(number: Estimate, reference: float, plain: str) -> str:
    """Return why a number does not differ from a reference: its family, too few cases, or its interval."""
    few = number.p_value is not None and number.low is None and number.high is None
    reason = "corrected" if _leaves_out(number, reference) else "few" if few else plain
    return str(TEXTS["undecided"][reason].format(reference=reference, family=number.family))


def _interval(number: Estimate, reference: float = 0.0) -> str:
    """Return interval, P value and n in brackets, as far as they are there."""
    parts = []
    if number.low is not None or number.high is not None:
        _, low, high = _rounded(number.estimate, number.low, number.high, reference=reference)
        parts.append(f"{level_words(number.confidence)} interval [{low or 'no end'}, {high or 'no end'}]")
    if number.p_value is not None:
        parts.append(_p_value(number))
    if number.estimate is not None and number.reason:
        parts.append(f"no {number.absent}: {number.reason}")
    return f"({'; '.join([*parts, f'n = {number.counts}'] if number.n else parts)})"


def _p_value(number: Estimate) -> str:
    """Return P with its correction, and with as many digits as tell it apart from the level."""
    value, corrected = number.p_value or 0.0, number.correction if number.correction != "none" else ""
    digits = digits_apart((value, LEVEL), 3)
    return (f"p = {value:.{digits}f}" if value >= 0.001 else "p < 0.001") + (corrected and f" ({corrected})")


def _rounded(*values: float | None, reference: float = 0.0) -> list[str]:
    digits = digits_apart((*values, reference), 2)
    return ["" if value is None else f"{round(value, digits) + 0.0:.{digits}f}" for value in values]


def _brief(number: Estimate) -> str:
    """Return a number with its interval in brackets alone."""
    amount, low, high = _rounded(number.estimate, number.low, number.high)
    return f"{amount} [{low}, {high}]" if low and high else amount


def _value(number: Estimate, reference: float = 0.0) -> str:
    """Return a number with its interval, or why there is none."""
    if number.estimate is None:
        return f"not estimable ({number.why_no_number})"
    amount = _rounded(number.estimate, number.low, number.high, reference=reference)[0]
    return f"{amount} {_interval(number, reference)}"


def _money(value: float | None) -> str:
    """Return an amount with three digits, or whole where it is large, as amounts of tokens are."""
    if value is None:
        return "unknown"
    return f"{Decimal(f'{value:.3g}'):f}" if abs(value) < 1000 else f"{value:,.0f}"


def _turned(number: Estimate) -> Estimate:
    """Return a difference taken the other way round."""
    value, low, high = (None if end is None else -end for end in (number.estimate, number.high, number.low))
    return replace(number, estimate=value, low=low, high=high)


def _compared(
    first: str,
    second: str,
    number: Estimate,
    *,
    unit: str = " points",
    lead: str = "",
    equivalence: Estimate | None = None,
    margin: float | None = None,
    end: str = "",
) -> Statement:
    """Return the sentence on a difference, in words that follow its sign."""
    verdict, texts = verdict_of(number, equivalence), TEXTS["compared"]
    names = {"lead": lead, "first": first, "second": second, "unit": unit}
    if verdict == NOT_ANSWERED:
        text = texts["not_estimable"].format(**names, reason=number.why_no_number)
        return Statement(text + end, number, verdict)
    form, size = "less", number  # a size whose interval runs below 0 is read wrongly
    if verdict == DIFFERENT:
        is_higher = number.low is not None if number.estimate is None else number.estimate >= 0
        form, size = ("higher", number) if is_higher else ("lower", _turned(number))
    amount, low, high = _rounded(size.estimate, size.low, size.high)
    if not amount:  # of a difference without a bound its other end is known
        amount = texts["at_least"].format(end=low) if low else texts["at_most"].format(end=high)
    reading = _undecided(number, 0.0, "difference")
    if verdict != UNDECIDED:
        tested = "" if equivalence is None else _p_value(equivalence)
        reading = TEXTS["verdicts"][verdict].format(margin=margin, p_value=tested)
    text = texts[form].format(**names, amount=amount, interval=_interval(size), verdict=reading)
    return Statement(text + end, number, verdict, equivalence=equivalence)


def _stated(lead: str, number: Estimate, reference: float | None = None, end: str = "") -> Statement:
    """Return a sentence that ends in a number, and whether it differs from the value that matters."""
    verdict = words = ""
    if reference is not None and number.estimate is not None:
        verdict = verdict_of(number, None, reference)
        words = f": {_undecided(number, reference, 'reference')}"
        if verdict == DIFFERENT:
            words = TEXTS["verdicts"]["different from"].format(reference=reference)
    return Statement(f"{lead} {_value(number, reference or 0.0)}{words}{end}", number, verdict)


def _length(analyses: Analyses, reasons: Reasons) -> Iterator[Statement]:
    """Yield the contrasts, how reliable the scores are that they rest on, what people make of them, and the cost."""
    texts, names = TEXTS["length"], WORDS["conditions"]["factors"]["level"]["levels"]
    yield from _compared_levels(analyses, analyses.length())
    if "reliability" not in reasons:
        scored = analyses.judgements[~analyses.judgements["failed"].astype(bool)]
        judges = counted(int(scored["judge"].nunique()), "judges")
        yield _reliability(analyses, "ICC(A,k)", texts["judges"].format(judges=judges))
    longer, shorter = successive(list(names))[0]
    for mean in () if "calibration" in reasons else analyses.calibration().differences:
        if mean.calibrated.facets.get("level") == f"{longer} - {shorter}":
            yield _compared(names[longer], names[shorter], mean.calibrated, lead=texts["people"])


def _at_ends(analyses: Analyses, column: str, *names: str) -> str:
    """Return how many scores of a group are at an end of the scale, where they are so many that differences shrink."""
    try:
        ceiling = analyses.ceiling()
    except NotAnswerable:
        return ""
    shares = [
        (share.estimate or 0.0, name, end)
        for name in names
        for share, end in zip(ceiling.shares.get(f"{column} {name}", ()), ("top", "bottom"), strict=False)
    ]
    share, name, end = max(shares, default=(0.0, "", ""))
    text = TEXTS["compared"]["ends"].format(share=f"{share:.0%}", name=name, end=end)
    return text if share > ceiling.limit else ""


def _price(price: Estimate, times: float) -> str:
    """Return so many times an amount with its interval, or why there is none."""
    if price.estimate is None:
        return f"not estimable: {price.reason}"
    ends = f"(no interval: {price.reason})"
    if price.low is not None and price.high is not None:
        ends = f"[{_money(times * price.low)}, {_money(times * price.high)}]"
    return f"{_money(times * price.estimate)} {ends}"


def _reliability(analyses: Analyses, form: str, lead: str) -> Statement:
    reliability, score = analyses.reliability(), analyses.score
    number = next(item for item in reliability.icc[score] if item.name == form)
    end = f", {number.note}" if number.note else ""
    for same in reliability.icc_these_judges[score]:
        if same.name == form + THESE_JUDGES and same.low is not None and number.low is not None:
            low, high = _rounded(same.low, same.high)
            end += TEXTS["reliability"]["these"].format(low=low, high=high)
    return _stated(f"{lead}, {form}, is", number, end=end)


def _conditions(analyses: Analyses) -> Iterator[Statement]:
    """Yield what each factor besides prompt length changes."""
    for factor in analyses.factors:
        yield from _compared_levels(analyses, analyses.conditions(factor))


def _compared_levels(analyses: Analyses, compared: Result) -> Iterator[Statement]:
    """Yield the contrasts of a factor, the confirmatory one first, what they rest on, and what models differ by."""
    texts, factor = TEXTS["conditions"], WORDS["conditions"]["factors"].get(compared.factor, {})
    within = texts["within"].format(scale=scale_words(analyses.scale))
    tests = {test.facets["contrast"]: test for test in compared.equivalence}
    contrasts = zip(compared.pairs, compared.contrasts, strict=True)
    names, spoken = factor.get("levels", {}), factor.get("spoken", "{level}")
    differing = list(_differing(compared))
    for pair, number in sorted(contrasts, key=lambda pair: pair[1].role != "confirmatory"):
        first, second = (str(names.get(level, spoken.format(level=level))) for level in pair)
        yield _compared(
            first,
            second,
            number,
            lead=texts[number.role or "exploratory"] + within,
            equivalence=tests.get(number.name),
            margin=analyses.margin,
            end=_at_ends(analyses, compared.factor, *pair),
        )
        # What is shown to work differently by model is no detail of a difference of all models.
        yield from (statement for statement in differing if within and statement.verdict == DIFFERENT)
        within = ""
    if uneven := captions.uneven_words(compared.contrasts):
        yield Statement(captions.capital(uneven))
    yield from (statement for statement in differing if statement.verdict != DIFFERENT)


def _differing(compared: Result) -> Iterator[Statement]:
    """Yield whether a factor works differently by another one, by model and by scenario."""
    texts = TEXTS["conditions"]
    for by, groups in (("crossed", "of_levels"), ("model", "of_models"), ("scenario", "of_scenarios")):
        tested = [number for number in compared.values[f"by_{by}"] if number.p_value is not None]
        if not tested:
            continue
        least = min(tested, key=_clarity)
        counts = {"distinct": sum(verdict_of(number) == DIFFERENT for number in tested), "tests": len(tested)}
        form = ("by" if counts["distinct"] else "alike") + ("" if tested[1:] else "_one")
        contrast, noun = least.facets["contrast"], compared.crossed if by == "crossed" else by
        values = [
            f"{_brief(number)} ({number.facets[by]})"
            for number in compared.values[groups]
            if number.statistic == contrast and number.estimate is not None
        ]
        end = texts["each"].format(by=noun, contrast=contrast, values=joined(values))
        text = texts[form].format(**counts, title=compared.title, by=noun, number=least.name)
        yield _stated(text, least, 0, end)


def _clarity(number: Estimate) -> tuple[float, float]:
    """Return what is least of the clearest test; corrected P values are often equal."""
    width = (number.high or 0.0) - (number.low or 0.0)
    return number.p_value or 0.0, -abs(number.estimate or 0.0) / (width or 1.0)


def _models(analyses: Analyses) -> Iterator[Statement]:
    compared = analyses.compare_models()
    rate = compared.models[0][1].unit == RATE_UNIT
    words = ("share of right answers", "") if rate else ("mean", " points")
    within = TEXTS["compare_models"]["prompts"]
    ranks = {name: -mean.estimate for name, mean in compared.models if mean.estimate is not None}
    ends = (lambda best, worst: "") if rate else partial(_at_ends, analyses, "model")
    yield from _ranked(compared.models, compared.differences, words, within, ranks, ends)


def _front(analyses: Analyses) -> Iterator[Statement]:
    points = analyses.pareto(cost=cost_column(analyses.runs)).points
    if front := [point for point in points if point.on_front]:
        costs = [f"{point.cost.facets['point']} ({_money(point.cost.estimate)})" for point in front]
        unit = front[0].cost.unit
        words = {"unit": f"{unit} a run", "price": "price" if unit == "AUD" else unit}
        yield Statement(TEXTS["compare_models"]["front"].format(**words, points=joined(costs)))


def _ranked(
    means: Sequence[tuple[str, Estimate]],
    differences: Sequence[Estimate],
    words: tuple[str, str],
    within: str,
    ranks: Mapping[str, float],
    ends: Callable[[str, str], str] = lambda best, worst: "",
) -> Iterator[Statement]:
    """Yield the best and the worst of several, how far they are apart, and which are tied."""
    ranked = sorted((pair for pair in means if pair[0] in ranks), key=lambda pair: ranks[pair[0]])
    pairs_of = zip(combinations([name for name, _ in means], 2), differences, strict=True)
    by_pair = {pair: number for pair, number in pairs_of if {*pair} <= ranks.keys()}
    undecided = [pair for pair, number in by_pair.items() if verdict_of(number) != DIFFERENT]
    quantity, unit = words
    texts = TEXTS["compare_models"]
    if len(ranked) > 1:
        (best, top), (worst, bottom) = ranked[0], ranked[-1]
        scored = "" if len(ranked) == len(means) else " with a score"
        names = {"models": counted(len(ranked), "models") + scored, "best": best}
        equals = [name for name, _ in ranked[1:-1] if {best, name} in map(set, undecided)]
        end = texts["equals"].format(names=joined(equals)) if equals else ""
        end += texts["lowest"].format(worst=worst, value=_value(bottom))
        yield _stated(texts["ranked"].format(**names, quantity=quantity), top, end=end)
        number = by_pair.get((best, worst)) or _turned(by_pair[worst, best])
        yield _compared(best, worst, number, unit=unit, lead=within, end=ends(best, worst))
    if len(by_pair) < 2:
        return
    tied = list(map(joined, undecided))
    count, pairs = len(by_pair) - len(tied), counted(len(by_pair), "pairs")
    text = texts["apart"].format(count=count, pairs=pairs, verb=agreeing(count, "are"))
    named = "; ".join(tied) if len(tied) <= MOST_TIED else "the others"
    text += texts["tied"].format(pairs=named) if tied else ""
    yield Statement(text, None, UNDECIDED if tied else DIFFERENT)


def _accuracy(analyses: Analyses) -> Iterator[Statement]:
    measured, texts = analyses.accuracy(), TEXTS["accuracy"]
    groups = measured.above_chance, measured.cost_per_right
    guesses, prices = ({item.facets["model"]: item for item in group} for group in groups)
    for number, *of_all in zip_longest(measured.accuracies, measured.of_all, measured.readable):
        model, end = number.facets["model"], ""
        guess, price = guesses.get(model), prices.get(model)
        if all(of_all):
            wrong, share = (_value(replace(item, n={})) for item in of_all)
            end = texts["all"].format(value=wrong, readable=share)
        if price and price.estimate != 0:  # free answers have no price
            end += texts["price"].format(unit=price.unit, amount=_price(price, 1000))
        if guess is None or guess.estimate is None:
            yield _stated(texts["lead"].format(model=model), number, end=end)
        else:  # it rests on the same answers, so that n stands once
            lead = texts["chance"].format(model=model, value=_value(number))
            yield replace(_stated(lead, replace(guess, n={}), 0, end), estimate=guess)


def _pairs(analyses: Analyses) -> Iterator[Statement]:
    votes, texts = analyses.compare_pairs(), TEXTS["compare_models"]
    means = [(item.facets["model"], item) for item in votes.models]
    yield from _ranked(means, votes.differences, ("strength", " logits"), texts["votes"], votes.ranks)
    titles = _judge_titles(analyses.pairs)
    for number in votes.judges:
        yield _stated(texts["first"].format(judge=titles[number.facets["judge"]]), number, 0.5)


def _judge_titles(judgements: pd.DataFrame) -> dict[str, str]:
    """Return the model of each judge with its role, or its name where it is no role."""
    names = judgements.groupby("judge", observed=True)["judge_model"].first()
    return {str(judge): str(judge) if name == judge else f"{name} ({judge})" for judge, name in names.items()}


def _judges(analyses: Analyses, reasons: Reasons) -> Iterator[Statement]:
    titles = _judge_titles(analyses.judgements)
    yield _reliability(analyses, "ICC(A,1)", TEXTS["reliability"]["one"])
    if "length" in reasons:
        yield _reliability(analyses, "ICC(A,k)", TEXTS["reliability"]["all"])
    leniency = analyses.reliability().leniency[analyses.score]
    names, two = [titles.get(judge, judge) for judge in leniency], len(leniency) == 2
    for name, number in zip(names[: 1 if two else None], leniency.values(), strict=False):
        yield _compared(name, names[1] if two else TEXTS["reliability"]["others"], number)
    if len(leniency) > 2 and any(verdict_of(number) == DIFFERENT for number in leniency.values()):
        yield Statement(TEXTS["reliability"]["dependent"])


def _people(analyses: Analyses) -> Iterator[Statement]:
    people, texts = analyses.calibration(), TEXTS["calibration"]
    agreement, mean = people.agreement[0], people.means["all"]
    yield _stated(texts["agreement"].format(statistic=agreement.statistic), agreement)
    alone = texts["alone"].format(value=_value(mean.judges)) if mean.judges.estimable else ""
    yield _stated(texts["mean"], mean.calibrated, end=alone)


def _numbers(analyses: Analyses, name: str) -> Iterator[Statement]:
    """Yield each number of an analysis in the words that lead to it: of the parts that are stated, or of all.

    Numbers that have the facet ``unstated`` are left to its table.
    """
    words = WORDS[name]
    for _, number in analyses.answer(name).rows_of(words.get("stated") or words["parts"]):
        if words.get("unstated") not in number.facets:
            lead = words["finding"].format_map({"label": number.label, **number.facets})
            yield _stated(lead, number, words.get("reference"))


def _missing(analyses: Analyses) -> Iterator[Statement]:
    lacking, judgements = int((~analyses.runs["judged"].astype(bool)).sum()), analyses.judgements
    text = f"{lacking} of {counted(len(analyses.runs), 'runs')}"
    if blank := int(judgements[analyses.score].isna().sum()) if len(judgements) else 0:
        text += f" and {blank} of {counted(len(judgements), 'judgements')}"
    verb = agreeing(lacking + blank, "have")
    yield Statement(TEXTS["missing"]["scores"].format(counts=text, verb=verb))
    frames = {"the answers": analyses.runs, "their judgements": analyses.judgements}
    yield from spent_findings(frames | {"the votes": analyses.pairs})


def spent_findings(frames: Mapping[str, pd.DataFrame]) -> Iterator[Statement]:
    """Yield what answers and judgements cost that are analysed."""
    amounts = [
        f"{name} cost AUD {_money(total_aud(frame['aud_cost'].dropna()))}"
        for name, frame in frames.items()
        if "aud_cost" in frame and frame["aud_cost"].notna().any()
    ]
    if amounts:
        text = TEXTS["missing"]["cost"].format(amounts=joined(amounts))
        yield Statement(text, question=TEXTS["totals"])


def one_shot_findings(scores: Sequence[MethodScore], analyses: Analyses) -> Iterator[Statement]:
    """Yield what a one-shot test says of its methods: verdicts, scores, and what prompts and models change."""
    texts = TEXTS["one_shot"]
    several = len({item.document for item in scores}) > 1
    groups = captions.by_key(((item.variant, item.document, item.model), item) for item in scores)
    for (variant, document, model), methods in groups.items():
        mean = overall("mean raw score", methods)
        counts = methods_frame(methods)[[*VERDICTS, "missing"]].sum()
        lead = texts["lead"].format(
            variant=f"{variant} and {document_words(document)}" if several else variant,
            model=model,
            complete=mean.n["methods"],
            methods=counted(len(methods), "methods"),
            experiments=counted(sum(item.experiments for item in methods), "experiments"),
            verb=agreeing(counts["expected"], "were"),
            **counts,
        )
        yield from _on(texts["title"], [_stated(lead, mean)])
    yield from _on(WORDS["conditions"]["heading"], _conditions(analyses))
    lacking, experiments = (
        sum(getattr(item, name) for item in scores) for name in ("missing", "experiments")
    )
    total = {"lacking": lacking, "experiments": counted(experiments, "experiments")}
    text = texts["missing"].format(**total, verb=agreeing(lacking, "have"))
    yield Statement(text, question=TEXTS["totals"])


def measured_findings(test: str, results: Iterable[tuple[str, Estimate]]) -> Iterator[Statement]:
    """Return the results of a test of one's own, each of a model."""
    texts = TEXTS["measured"]
    leads = ((texts["lead"].format(name=number.name, model=model), number) for model, number in results)
    return _on(texts["title"].format(test=test), starmap(_stated, leads))


def adaptive_findings(sequential: Result | None, benchmark: Result | None) -> Iterator[Statement]:
    """Return what adaptive asking says (RQ2): of the models while it asks, and of its cost on a finished study."""
    return _on(TEXTS["adaptive"]["title"], _adaptive(sequential, benchmark))


def _adaptive(sequential: Result | None, benchmark: Result | None) -> Iterator[Statement]:
    texts = TEXTS["adaptive"]
    if sequential:
        for number in sequential.differences:
            yield _stated(texts["bank"].format(name=number.name), number, 0)
        state = "asking may stop" if sequential.stop else "asking goes on"
        yield Statement(texts["width"].format(width=_money(sequential.width), state=state))
    for design, numbers in list(benchmark.results.items())[1:] if benchmark else ():
        by_statistic = {item.statistic: item for item in numbers}
        end = texts["covered"].format(value=_value(by_statistic["coverage of the differences"]))
        yield _stated(texts["cost"].format(design=design), by_statistic["cost over the baseline"], 1, end)
