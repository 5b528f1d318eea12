"""What a study says of each of its questions: what was compared, the estimate, the verdict, the judges, the cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations
from typing import TYPE_CHECKING, Final

import pandas as pd

from toolkit.analyses import BY_KEY, ON_ANSWERS, QUESTIONS, Analyses
from toolkit.errors import InputError, NotAnswerable
from toolkit.report.blocks import Paragraph, Sentence
from toolkit.stats.comparisons.cost_quality import cost_column
from toolkit.stats.comparisons.gain_cost import gain_cost
from toolkit.stats.comparisons.models import RATE_UNIT
from toolkit.stats.one_shot.methods import (
    VERDICTS,
    MethodScore,
    compare_one_shot,
    method_estimates,
    methods_frame,
)
from toolkit.stats.prompt_length.contrasts import CONTRASTS, LEVEL
from toolkit.stats.prompt_length.information import INFORMATION_PAIRS, LENGTH_PAIRS
from toolkit.stats.result import Estimate, digits_apart
from toolkit.thesis.methods import joined
from toolkit.words import agreeing, choices, counted, coverage, one_line, scale_words, total_aud

if TYPE_CHECKING:
    from toolkit.stats.adaptive.benchmark import Benchmark
    from toolkit.stats.adaptive.sequential import Sequential

Reasons = Mapping[str, str]
"""Why questions cannot be answered, by the name of the analysis."""
DIFFERENT: Final = "different"
SMALL: Final = "different, within the margin"
EQUIVALENT: Final = "equivalent within the margin"
UNDECIDED: Final = "undecided"
NOT_ANSWERED: Final = "not answered"
_VERDICTS: Final = {
    DIFFERENT: "the two differ",
    SMALL: "the two differ, and by less than the margin that counts as equal",
    EQUIVALENT: "the two are equivalent within the margin that was fixed beforehand",
    UNDECIDED: "undecided, because neither a difference nor equality is shown",
}
_TOTALS: Final = "Missing scores and cost"
_TITLES: Final = {
    "length": "Prompt length (RQ1)",
    "length_and_information": "Length and information (RQ1)",
    "accuracy": "Accuracy",
    "compare_models": "Models",
    "pareto": "Cost and quality",
    "compare_pairs": "Models by votes",
    "reliability": "Judges",
    "calibration": "Judges and people",
    "missing": _TOTALS,
}


@dataclass(frozen=True)
class Statement:
    """One sentence, without its full stop, about a question, and the estimate and verdict that it states."""

    question: str
    text: str
    estimate: Estimate | None = None
    verdict: str = ""

    @property
    def sentence(self) -> str:
        """The sentence with its full stop."""
        return f"{self.text}."

    def __post_init__(self) -> None:
        """Put the text on one line, whatever the names in it hold."""
        object.__setattr__(self, "text", one_line(self.text, len(self.text)))


@dataclass(frozen=True)
class Findings:
    """The sentences of a results section, by question and in the order in which a thesis reads.

    ``frame()`` has one row a sentence, ``sentences()`` the texts, ``section()`` a paragraph a question.
    """

    study: str
    statements: tuple[Statement, ...]

    def frame(self) -> pd.DataFrame:
        """Return one row a sentence: question, statement, estimate, low, high, p_value, verdict, unit and n."""
        empty, rows = Estimate("", None, unit=""), []
        for statement in self.statements:
            number = statement.estimate or empty
            values = (number.estimate, number.low, number.high, number.p_value)
            unit = "" if number.unit == "none" else str(number.unit)
            rows.append(
                (statement.question, statement.sentence, *values, statement.verdict, unit, number.counts)
            )
        numbers = ["estimate", "low", "high", "p_value"]
        frame = pd.DataFrame(rows, columns=["question", "statement", *numbers, "verdict", "unit", "n"])
        return frame.astype(dict.fromkeys(numbers, "float64"))

    def sentences(self) -> tuple[str, ...]:
        """Return the sentences, ready for the thesis."""
        return tuple(statement.sentence for statement in self.statements)

    def section(self) -> tuple[Paragraph, ...]:
        """Return a paragraph for each question."""
        questions: dict[str, list[Sentence]] = {}
        for statement in self.statements:
            questions.setdefault(statement.question, []).append(Sentence(statement.text))
        return tuple(Paragraph(tuple(texts), question) for question, texts in questions.items())

    def __repr__(self) -> str:
        """Return the questions, each with its sentences below."""
        return "\n".join(findings_lines(self.section()))

    def _repr_html_(self) -> str:
        from toolkit.report.show import lines_html

        return lines_html(findings_lines(self.section()))


def findings_lines(section: Iterable[Paragraph]) -> list[str]:
    """Return the paragraphs as lines of text: the question, and its sentences indented."""
    return [
        line
        for paragraph in section
        for line in (paragraph.heading, *(f"  {sentence.text}." for sentence in paragraph.sentences))
    ]


def scored_findings(analyses: Analyses, reasons: Reasons, only: Collection[str] = ()) -> Iterator[Statement]:
    """Yield what scores say, question by question, so that whoever wants the first sentences waits for no other.

    ``reasons`` are those of the questions that cannot be answered; what such scores are not about is not asked, unless
    ``only`` names it.
    """
    parts: tuple[tuple[str, Callable[[Analyses, str, Reasons], Iterator[Statement]]], ...] = (
        ("length", _length),
        ("length_and_information", _information),
        ("accuracy", _accuracy),
        ("compare_models", _models),
        ("pareto", _front),
        ("position_effect", _position),
        ("compare_pairs", _pairs),
        ("reliability", _judges),
        ("calibration", _people),
        ("missing", _missing),
    )
    titles = QUESTIONS | _TITLES
    foreign = {*(QUESTIONS.keys() - ON_ANSWERS if analyses.is_keyed else BY_KEY)}
    foreign |= {*(["compare_pairs"] if analyses.pairs.empty else [])}
    foreign |= {*(["length_and_information"] if analyses.runs_with_arms.empty else [])}
    foreign = (foreign - {"missing"}) | {*([] if analyses.is_judged else ["missing"])}
    if unknown := [name for name in only if name not in dict(parts)]:
        raise InputError(f"findings: no question {unknown[0]!r}; {choices(unknown[0], dict(parts))}")
    for name, write in parts:
        if name not in only if only else name in foreign:
            continue
        if name in reasons:
            lack = Statement(
                titles[name], f"This question was not answered: {reasons[name]}", None, NOT_ANSWERED
            )
            yield lack
            continue
        try:
            # What prompt lengths tell of the judges is told by these where lengths are not spoken of.
            silent = {} if not only or "length" in only else {"length": "not asked"}
            yield from write(analyses, titles[name], {**reasons, **silent})
        except NotAnswerable as error:
            yield Statement(titles[name], f"This question was not answered: {error.why}", None, NOT_ANSWERED)


def verdict_of(difference: Estimate, equivalence: Estimate | None = None) -> str:
    """Return different, equivalent, both, undecided, or that there is no estimate; never that nothing differs.

    Examples
    --------
    >>> verdict_of(Estimate("M-S", 0.2, 0.1, 0.3, p_value=0.01)), verdict_of(Estimate("M-S", 0.0, p_value=0.9))
    ('different', 'undecided')
    """
    if difference.estimate is None:
        return NOT_ANSWERED
    is_different = difference.p_value is not None and difference.p_value < LEVEL
    if equivalence is not None and equivalence.p_value is not None and equivalence.p_value < LEVEL:
        return SMALL if is_different else EQUIVALENT
    return DIFFERENT if is_different else UNDECIDED


def _interval(number: Estimate, decimals: int = 2) -> str:
    """Return interval, P value and n in brackets, as far as they are there."""
    parts = []
    if number.low is not None and number.high is not None:
        _, low, high = _rounded((number.estimate, number.low, number.high), decimals)
        parts.append(f"{coverage(number.confidence)} interval [{low}, {high}]")
    if number.p_value is not None:
        corrected = f" ({number.correction})" if number.correction != "none" else ""
        parts.append((f"p = {number.p_value:.3f}" if number.p_value >= 0.001 else "p < 0.001") + corrected)
    if number.estimate is not None and number.reason:
        parts.append(f"no {number.lacks}: {number.reason}")
    return f"({'; '.join([*parts, f'n = {number.counts}'] if number.n else parts)})"


def _rounded(values: Sequence[float | None], decimals: int = 2) -> list[str]:
    digits = digits_apart(values, decimals)
    return ["" if value is None else f"{round(value, digits) + 0.0:.{digits}f}" for value in values]


def _value(number: Estimate, decimals: int = 2, unit: str = "") -> str:
    """Return a number with its interval, or why there is none."""
    if number.estimate is None:
        return f"not estimable ({number.why_no_number})"
    value = _rounded((number.estimate, number.low, number.high), decimals)[0]
    return f"{value}{unit and ' '}{unit} {_interval(number, decimals)}"


def _money(value: float | None) -> str:
    """Return an amount with three digits, or whole where it is large, as amounts of tokens are."""
    if value is None:
        return "unknown"
    return f"{Decimal(f'{value:.3g}'):f}" if abs(value) < 1000 else f"{value:,.0f}"


def _turned(number: Estimate) -> Estimate:
    """Return a difference as its size: where it is below 0, the same difference taken the other way round."""
    if number.estimate is None or number.estimate >= 0:
        return number
    low, high = (None if end is None else -end for end in (number.high, number.low))
    return number.valued(-number.estimate, low, high)


def _compared(
    question: str,
    higher: str,
    lower: str,
    number: Estimate,
    *,
    unit: str = " points",
    lead: str = "",
    equivalence: Estimate | None = None,
) -> Statement:
    """Return the sentence on a difference, in words that follow its sign."""
    verdict = verdict_of(number, equivalence)
    if number.estimate is None:
        text = f"{higher} and {lower} could not be compared: {number.why_no_number}"
        return Statement(question, text, number, verdict)
    size, direction = _turned(number), "higher" if number.estimate >= 0 else "lower"
    amount = _rounded((size.estimate, size.low, size.high))[0]
    text = f"{lead}{higher} scored {amount}{unit} {direction} than {lower} {_interval(size)}"
    if verdict != DIFFERENT:  # a size whose interval runs below 0 is read wrongly
        text = f"{lead}{higher} less {lower}: {_rounded((number.estimate,))[0]}{unit} {_interval(number)}"
    return Statement(question, f"{text}: {_VERDICTS[verdict]}", number, verdict)


def _stated(
    question: str, lead: str, number: Estimate, reference: float | None = None, end: str = ""
) -> Statement:
    """Return a sentence that ends in a number, and whether it differs from the value that matters."""
    verdict, words = "", ""
    if reference is not None and number.estimate is not None:
        out = (
            number.low is not None and number.high is not None and not number.low <= reference <= number.high
        )
        verdict = verdict_of(number) if number.p_value is not None else DIFFERENT if out else UNDECIDED
        words = f": different from {reference:g}"
        if verdict == UNDECIDED:
            corrected = " once P is corrected" if number.correction != "none" else ""
            words = f": undecided, because {reference:g} is not ruled out{corrected}"
    return Statement(question, f"{lead} {_value(number)}{words}{end}", number, verdict)


def _length(analyses: Analyses, question: str, reasons: Reasons) -> Iterator[Statement]:
    compared, within = analyses.length(), f"within bases and on a scale of {scale_words(analyses.scale)}, "
    tests = {test.facets["contrast"]: test for test in compared.equivalence}
    contrasts = zip(CONTRASTS, compared.contrasts, strict=True)
    for (longer, shorter), number in sorted(contrasts, key=lambda pair: pair[1].role != "confirmatory"):
        role = "By the one confirmatory contrast, " if number.role == "confirmatory" else "Exploratory: "
        pair = f"{longer} prompts", f"{shorter} prompts"
        yield _compared(question, *pair, number, lead=role + within, equivalence=tests.get(number.name))
        within = ""
    yield from _trust(analyses, question, reasons)
    cost = cost_column(analyses.runs)
    if "pareto" in reasons or analyses.runs[cost].isna().all():
        return
    price = analyses.once(gain_cost, analyses.runs, score=analyses.score, cost=cost)
    means = ", ".join(f"{_money(item.estimate)} at {item.name}" for item in price.per_run)
    text = f"A run cost, in {price.per_run[0].unit} as the mean over bases, {means}"
    for point in price.per_point:
        lack = f"has no price, because {point.why_no_number}"
        ends = f" [{_money(point.low)}, {_money(point.high)}]" if point.low is not None else ""
        paid = lack if point.estimate is None else f"cost {_money(point.estimate)}{ends}"
        text += f"; each point gained from {point.facets['step']} {paid}"
    yield Statement(question, text, (*price.per_point, *price.per_run)[0])


def _trust(analyses: Analyses, question: str, reasons: Reasons) -> Iterator[Statement]:
    """Yield how reliable the scores are that a comparison of lengths rests on, and what people make of it."""
    if "reliability" not in reasons:
        scored = analyses.judgements[~analyses.judgements["failed"].astype(bool)]
        judges = counted(int(scored["judge"].nunique()), "judges")
        yield _reliability(
            analyses, question, "ICC(A,k)", f"These scores are means of {judges}, whose reliability"
        )
    for mean in () if "calibration" in reasons else analyses.calibration().differences:
        if mean.calibrated.facets.get("length_bin") == " - ".join(CONTRASTS[0]):
            longer, shorter = (f"{name} prompts" for name in CONTRASTS[0])
            yield _compared(
                question, longer, shorter, mean.calibrated, lead="Corrected by the ratings of people, "
            )


def _reliability(analyses: Analyses, question: str, form: str, lead: str) -> Statement:
    number = next(item for item in analyses.reliability().icc[analyses.score] if item.name == form)
    return _stated(question, f"{lead}, {form}, is", number, end=f", {number.note}" if number.note else "")


_ARMS: Final = {
    **{name: f"{name} prompts" for name in ("S", "M", "L")},
    "neutral_m": "the facts of S in the length of M",
    "neutral_l": "the facts of S in the length of L",
    "short_l": "the facts of L in the length of M",
}


def _information(analyses: Analyses, question: str, reasons: Reasons) -> Iterator[Statement]:
    parted = analyses.length_and_information()
    for lead, pairs, numbers in (
        ("At equal information, ", LENGTH_PAIRS, parted.length),
        ("At equal length, ", INFORMATION_PAIRS, parted.information),
    ):
        for (more, less, _), number in list(zip(pairs, numbers, strict=True))[:2]:
            yield _compared(question, _ARMS[more], _ARMS[less], number, lead=lead)


def tied_sets(names: Sequence[str], distinct: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Return the largest sets of names in which no two are told apart, in the order of the names.

    Examples
    --------
    >>> tied_sets(["a", "b", "c"], [("a", "c")])
    [('a', 'b'), ('b', 'c')]
    """
    sets = [frozenset(names)]
    for pair in distinct:  # a set that holds both becomes two, each without one of them
        parted = [part - ({name} if {*pair} <= part else set()) for part in sets for name in pair]
        sets = [part for part in dict.fromkeys(parted) if not any(part < larger for larger in parted)]
    ranks = [sorted(map(list(names).index, part)) for part in sets]
    return [tuple(names[rank] for rank in part) for part in sorted(ranks)]


def _models(analyses: Analyses, question: str, reasons: Reasons) -> Iterator[Statement]:
    compared = analyses.compare_models()
    rate = compared.models[0][1].unit == RATE_UNIT
    words = ("share of right answers", "") if rate else ("mean", " points")
    within = "within prompts that both answered"
    yield from _ranked(question, compared.models, compared.differences, words, within)


def _front(analyses: Analyses, question: str, reasons: Reasons) -> Iterator[Statement]:
    points = analyses.pareto(cost=cost_column(analyses.runs)).points
    if front := [point for point in points if point.on_front]:
        names = joined([f"{item.cost.facets['point']} ({_money(item.cost.estimate)})" for item in front])
        text = "No other model and length is both better and cheaper than these"
        yield Statement(question, f"{text} ({front[0].cost.unit} a run): {names}")
        shares = joined([f"{item.probability:.2f}" for item in front if item.probability is not None])
        text = "In resamples of the bases they are on this front, in this order, in a share of"
        yield from [Statement(question, f"{text} {shares}")] * bool(shares)


def _ranked(
    question: str,
    means: Sequence[tuple[str, Estimate]],
    differences: Sequence[Estimate],
    words: tuple[str, str],
    within: str,
) -> Iterator[Statement]:
    """Yield the best and the worst of several, how far they are apart, and which are tied."""
    estimable = [(name, mean) for name, mean in means if mean.estimate is not None]
    ranked = sorted(estimable, key=lambda pair: -(pair[1].estimate or 0.0))
    by_pair = dict(zip(combinations([name for name, _ in means], 2), differences, strict=True))
    if len(ranked) > 1:
        (best, top), (worst, bottom) = ranked[0], ranked[-1]
        lead = f"Of {counted(len(means), 'models')}, compared {within}, {best} has the highest {words[0]},"
        yield _stated(question, lead, top, end=f", and {worst} the lowest, {_value(bottom)}")
        forward = (best, worst) in by_pair
        number = by_pair[best, worst] if forward else _turned(by_pair[worst, best])
        yield _compared(question, best, worst, number, unit=words[1])
    if len(by_pair) < 2:
        return
    distinct = [pair for pair, number in by_pair.items() if verdict_of(number) == DIFFERENT]
    tied = [part for part in tied_sets([name for name, _ in ranked], distinct) if len(part) > 1]
    text = f"{len(distinct)} of {counted(len(by_pair), 'pairs')} {agreeing(len(distinct), 'are')} told apart"
    sets = f"; statistically tied, which is undecided and not equal: {'; '.join(map(joined, tied))}"
    yield Statement(question, text + sets * bool(tied), None, UNDECIDED if tied else DIFFERENT)


def _accuracy(analyses: Analyses, question: str, reasons: Reasons) -> Iterator[Statement]:
    measured = analyses.accuracy()
    guesses, prices = (
        {item.facets["model"]: item for item in group}
        for group in (measured.above_chance, measured.cost_per_right)
    )
    for number in measured.accuracies:
        model = number.facets["model"]
        lead, guess, price = f"{model} answered rightly a share of", guesses.get(model), prices.get(model)
        end = (
            f"; a right answer cost {price.unit} {_money(price.estimate)}" if price and price.estimate else ""
        )
        if guess is None or guess.estimate is None:
            yield _stated(question, lead, number, end=end)
        else:
            yield _stated(question, f"{lead} {_value(number)}, which less chance is", guess, 0, end)


def _position(analyses: Analyses, question: str, reasons: Reasons) -> Iterator[Statement]:
    if tested := [number for number in analyses.position_effect().preferences if number.p_value is not None]:
        least = min(tested, key=lambda number: number.p_value or 0.0)
        distinct = sum(verdict_of(number) == DIFFERENT for number in tested)
        text = f"A preference for a position of the options is shown in {distinct} of {len(tested)} tests"
        text += f"; furthest from an even choice is {least.facets['model']} at {least.facets['position']},"
        yield _stated(question, text, least, 0)


def _pairs(analyses: Analyses, question: str, reasons: Reasons) -> Iterator[Statement]:
    votes = analyses.compare_pairs()
    means = [(item.facets["model"], item) for item in votes.models]
    within = "by votes on pairs of their replies"
    yield from _ranked(question, means, votes.differences, ("strength", " logits"), within)
    for number in votes.judges:
        judge = f"Judge {number.facets['judge']} prefers the reply shown first in a share of"
        yield _stated(question, judge, number, 0.5)


def _judges(analyses: Analyses, question: str, reasons: Reasons) -> Iterator[Statement]:
    names = analyses.judgements.groupby("judge", observed=True)["judge_model"].first()
    yield _reliability(analyses, question, "ICC(A,1)", "The reliability of one judge")
    if "length" in reasons:
        yield _reliability(analyses, question, "ICC(A,k)", "The reliability of the mean of all judges")
    for judge, number in analyses.reliability().details.severity[analyses.score].leniency.items():
        name = names.get(judge, judge)
        title = name if name == judge else f"{name} ({judge})"
        yield _compared(question, title, "the other judges", number)


def _people(analyses: Analyses, question: str, reasons: Reasons) -> Iterator[Statement]:
    people = analyses.calibration()
    agreement, mean, test = people.agreement[0], people.means["all"], people.alt_tests["ensemble"]
    yield _stated(
        question, f"Agreement of the judges' mean with people, {agreement.statistic}, is", agreement
    )
    alone = f"; by the judges alone it is {_value(mean.judges)}" if mean.judges.estimable else ""
    yield _stated(
        question, "Corrected by the ratings of people the mean score is", mean.calibrated, end=alone
    )
    if test.passed is not None:
        may = "may" if test.passed else "is not shown to be fit to"
        text = f"By the alternative annotator test the judges' mean {may} stand in for people, with a winning rate of"
        yield _stated(question, text, test.winning_rate)


def _missing(analyses: Analyses, question: str, reasons: Reasons) -> Iterator[Statement]:
    lacking = int((~analyses.runs["judged"].astype(bool)).sum())
    text = f"{lacking} of {counted(len(analyses.runs), 'runs')} {agreeing(lacking, 'have')} no score"
    yield Statement(question, f"{text}; what is missing is never counted as zero")
    yield from spent_findings(
        {"the answers": analyses.runs, "their judgements": analyses.judgements, "the votes": analyses.pairs}
    )


def spent_findings(frames: Mapping[str, pd.DataFrame]) -> Iterator[Statement]:
    """Yield what answers and judgements cost that are analysed."""
    amounts = [
        f"{name} cost AUD {_money(total_aud(frame['aud_cost'].dropna()))}"
        for name, frame in frames.items()
        if "aud_cost" in frame and frame["aud_cost"].notna().any()
    ]
    if amounts:
        yield Statement(_TOTALS, f"As far as they are analysed here, {joined(amounts)}")


def one_shot_findings(scores: Sequence[MethodScore]) -> Iterator[Statement]:
    """Yield what a one-shot test says of its methods: verdicts, scores, and what prompts and models change."""
    question = "Reading captured traffic in one shot"
    counts = [sum(getattr(item, key) for item in scores) for key in ("i1", "i0", "h", "missing")]
    names = (*VERDICTS, "without a verdict")
    verdicts = joined([f"{count} {name}" for count, name in zip(counts, names, strict=True)])
    experiments = counted(sum(item.experiments for item in scores), "experiments")
    text = (
        f"{counted(len(scores), 'methods')} (a prompt, a sample and a model each) were tried in {experiments}"
    )
    yield Statement(question, f"{text}: {verdicts}")
    complete = [item for item in scores if item.score is not None]
    ranked = sorted(complete, key=lambda item: -(item.score.raw if item.score else 0.0))
    for method, end in zip(ranked[:1] + ranked[1:][-1:], ("highest", "lowest"), strict=False):
        lead = f"The {end} raw score is that of {method.method} of {method.model},"
        yield _stated(question, lead, method_estimates(method)[1], end=f", from {method.note}")
    frame = methods_frame(scores)
    for by in ("variant", "model"):
        if frame[by].nunique() > 1:
            pairs = combinations(dict.fromkeys(frame[by]), 2)
            contrasts = zip(pairs, compare_one_shot(frame, by).contrasts, strict=True)
            for (earlier, later), number in contrasts:
                yield _compared(f"One-shot test, by {by}", later, earlier, number, unit="")


def measured_findings(test: str, results: Iterable[tuple[str, Estimate]]) -> Iterator[Statement]:
    """Yield the results of a test of one's own, each of a model."""
    for model, number in results:
        yield _stated(f"Results of the test {test}", f"{number.name} of {model} is", number)


def adaptive_findings(sequential: Sequential | None, benchmark: Benchmark | None) -> Iterator[Statement]:
    """Yield what adaptive asking says (RQ2): of the models while it asks, and of its cost on a finished study."""
    question = "Adaptive benchmarking (RQ2)"
    for number in sequential.differences if sequential else ():
        yield _stated(question, f"On all bases of the dataset {number.name} is", number, 0)
    if sequential:
        state = "asking may stop" if sequential.stop else "asking goes on"
        text = f"The widest of these intervals is {_money(sequential.width)} points wide, so {state}"
        yield Statement(question, text)
    for design, numbers in list(benchmark.results.items())[1:] if benchmark else ():
        ratio, covered = (
            next(item for item in numbers if item.statistic == name)
            for name in ("cost over the baseline", "coverage of the differences")
        )
        end = f"; its intervals cover a share of {_value(covered)} of the differences"
        yield _stated(question, f"The cost of {design}, as a multiple of the baseline's, is", ratio, 1, end)
