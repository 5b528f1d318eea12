"""Draw the pictures of docs/explain/statistics.md: python scripts/draw_explanations.py FINISHED_PLANTED_STUDY.toml.

They are small SVG files in docs/explain/pictures, in which text stays text; `make test-all` compares them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from toolkit import Study
from toolkit.report.style import GREY, INK, PALETTE, new_figure, thesis_style
from toolkit.stats.agreement.icc import FORMS, base_sums, forms_of_sums
from toolkit.stats.human.calibration import prediction_powered_mean

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "explain" / "pictures"
SCORE = "composite_strict"
FEW_BASES = 5
"""So few that the planted equality of M and L cannot be shown any more."""
RATED = 40
_QUALITY = re.compile(r"planted quality (-?\d+\.\d+)")


def base_means(study: Study) -> pd.DataFrame:
    """Return the mean score of each base (rows) at each prompt length (columns), models weighing the same."""
    by_model = study.runs().groupby(["base", "model", "level"], observed=True)[SCORE].mean()
    return by_model.groupby(["base", "level"], observed=True).mean().unstack()


def bases(study: Study) -> Figure:
    """Draw S and M of each base joined by a line: bases differ more than lengths do."""
    means = base_means(study).sort_values("S").iloc[::3]
    figure = new_figure(160, 80)
    axes = figure.subplots()
    rows = np.arange(len(means))
    axes.hlines(rows, means["S"], means["M"], color=GREY, linewidth=1.5)
    axes.plot(means["S"], rows, "o", color=PALETTE[0], label="S, short prompt")
    axes.plot(means["M"], rows, "s", color=PALETTE[3], label="M, medium prompt")
    axes.set_yticks(rows, [f"base {row + 1}" for row in rows])
    axes.set(xlabel="mean score of the base (0-5)", xlim=(1.5, 4.5), ylim=(-0.7, len(rows) + 1.2))
    axes.legend(loc="upper center", ncols=2)
    return figure


def verdicts(study: Study) -> Figure:
    """Draw three differences with their intervals beside the margin: different, equivalent, undecided."""
    contrasts = {contrast.name: contrast for contrast in study.length().contrasts}
    means = base_means(study)
    few = (means["L"] - means["M"]).dropna().iloc[-FEW_BASES:]
    half = stats.t.ppf(0.975, len(few) - 1) * few.std(ddof=1) / len(few) ** 0.5
    margin = study.file.analysis.equivalence_margin or 0.15
    count = len(means)
    rows = [
        (f"M-S, {count} bases", "different", *_ends(contrasts["M-S"])),
        (f"L-M, {count} bases", "equivalent", *_ends(contrasts["L-M"])),
        (f"L-M, {FEW_BASES} bases", "undecided", few.mean(), few.mean() - half, few.mean() + half),
    ]
    figure = new_figure(160, 62)
    axes = figure.subplots()
    axes.axvspan(-margin, margin, color=GREY, alpha=0.25, linewidth=0)
    axes.plot([0, 0], [-2.6, 0.4], color=INK, linewidth=0.8, linestyle="--")
    for row, (_, verdict, middle, low, high) in enumerate(rows):
        axes.plot([low, high], [-row, -row], color=PALETTE[row], linewidth=2)
        axes.plot(middle, -row, "o", color=PALETTE[row])
        axes.text(0.47, -row, verdict, va="center")
    axes.set_yticks([0, -1, -2], [row[0] for row in rows])
    axes.text(0, 0.62, "margin", ha="center", va="center")
    axes.set(
        xlabel="difference in score points, with its 95 % interval", xlim=(-0.45, 0.65), ylim=(-2.6, 0.9)
    )
    return figure


def agreement(study: Study) -> Figure:
    """Draw two judges that give the same points, and two of which one is more severe."""
    rows = study.judgements().sort_values(["prompt_id", "model", "repeat"])
    scores = rows.pivot(index=["prompt_id", "model", "repeat"], columns="judge_model", values=SCORE)
    scores = scores.dropna().iloc[::12]
    figure = new_figure(160, 78)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    titles = ("the same points", "the same order, fewer points")
    for axes, other, title in zip(panels, ("judge-fair-too", "judge-severe"), titles, strict=True):
        pair = scores[["judge-fair", other]].to_numpy()
        correlation = float(np.corrcoef(pair.T)[0, 1])
        axes.plot([1, 5], [1, 5], color=GREY, linestyle="--")
        axes.plot(pair[:, 0], pair[:, 1], "o", color=PALETTE[0], markersize=3, alpha=0.7)
        axes.set(title=f"{title}\nICC(A,1) = {_absolute_agreement(pair):.2f}, r = {correlation:.2f}")
        axes.set(
            xlabel="score by judge-fair", ylabel=f"score by {other}", xlim=(1, 5), ylim=(1, 5), aspect="equal"
        )
    return figure


def effect_sizes(study: Study) -> Figure:
    """Draw the differences of the bases as a histogram, with their mean and their standard deviation."""
    means = base_means(study)
    differences = (means["M"] - means["S"]).dropna()
    mean, spread = differences.mean(), differences.std(ddof=1)
    figure = new_figure(160, 70)
    axes = figure.subplots()
    axes.hist(differences, bins=np.arange(-0.2, 0.95, 0.1), color=PALETTE[4], edgecolor="white")
    axes.axvline(0, color=INK, linewidth=0.8, linestyle="--")
    top = axes.get_ylim()[1]
    axes.plot([mean, mean], [0, top], color=PALETTE[3], linewidth=2)
    axes.annotate("", (mean - spread, top), (mean + spread, top), arrowprops={"arrowstyle": "<->"})
    axes.text(
        mean, top * 1.06, f"mean {mean:.2f}, one sd {spread:.2f} to each side", ha="center", va="bottom"
    )
    axes.set(
        xlabel="M-S of one base, in score points", ylabel="bases", xlim=(-0.25, 0.95), ylim=(0, top * 1.25)
    )
    return figure


def judges_needed(study: Study) -> Figure:
    """Draw how reliable the mean of one to six judges is, with and without their severity as an error."""
    frame = study.generalizability().frame()
    parts = frame[frame["kind"] == "component"].set_index("name")["estimate"]
    truth = parts["base"] + parts["answer:base"]
    noise = parts["base x judge"] + parts["answer x judge:base, residual"]
    count = np.arange(1, 7)
    figure = new_figure(160, 72)
    axes = figure.subplots()
    relative, absolute = truth / (truth + noise / count), truth / (truth + (noise + parts["judge"]) / count)
    axes.plot(count, relative, "o-", color=PALETTE[0])
    axes.plot(count, absolute, "s--", color=PALETTE[3])
    axes.text(6.15, relative[-1], "E-rho2: the order\nof replies", va="center")
    axes.text(6.15, absolute[-1] - 0.01, "Phi: their points", va="top")
    axes.set(xlabel="judges", ylabel="reliability of their mean", xlim=(0.8, 7.6), ylim=(0.7, 1.01))
    axes.set_xticks(count)
    return figure


def calibrated(study: Study) -> Figure:
    """Draw three means: of the judges, of a person's few ratings, and of both together."""
    runs = study.runs().dropna(subset=[SCORE]).sort_values(["prompt_id", "model", "repeat"])
    rated = runs.sample(RATED, random_state=study.file.seed)
    quality = [float(_QUALITY.findall(study.reply(run))[0]) for run in rated["run_id"]]
    others = runs.drop(rated.index)
    found = prediction_powered_mean(
        "mean", quality, rated[SCORE], others[SCORE], list(rated["base"]), list(others["base"])
    )
    everything = [float(_QUALITY.findall(study.reply(run))[0]) for run in runs["run_id"]]
    rows = [
        (f"judges, {len(runs)} replies", found.judges, PALETTE[0]),
        (f"a person, {RATED} replies", found.people, PALETTE[3]),
        ("both: PPI mean", found.calibrated, PALETTE[2]),
    ]
    figure = new_figure(160, 62)
    axes = figure.subplots()
    truth = float(np.mean(everything))
    axes.plot([truth, truth], [-2.6, 0.4], color=INK, linewidth=0.8, linestyle="--")
    for row, (_, mean, color) in enumerate(rows):
        middle, low, high = _ends(mean)
        axes.plot([low, high], [-row, -row], color=color, linewidth=2)
        axes.plot(middle, -row, "o", color=color)
    axes.text(truth, 0.62, "the person's mean of all replies", ha="center", va="center")
    axes.set_yticks([0, -1, -2], [row[0] for row in rows])
    axes.set(xlabel="mean score (0-5), with its 95 % interval", xlim=(2.6, 3.8), ylim=(-2.6, 0.9))
    return figure


DRAWN: dict[str, Callable[[Study], Figure]] = {
    "base": bases,
    "verdicts": verdicts,
    "agreement": agreement,
    "effect_size": effect_sizes,
    "judges": judges_needed,
    "ppi": calibrated,
}


def draw_all(study: Study, folder: Path) -> list[Path]:
    """Write every picture into a folder, the same bytes for the same study."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with thesis_style(), mpl.rc_context({"svg.fonttype": "none", "font.family": "DejaVu Sans"}):
        for name, draw in DRAWN.items():
            path = folder / f"{name}.svg"
            draw(study).savefig(path, metadata={"Date": None, "Creator": None})
            text = path.read_text(encoding="utf-8")
            path.write_text(re.sub(r" +$", "", text, flags=re.MULTILINE), encoding="utf-8")
            written.append(path)
    return written


def _ends(estimate: object) -> tuple[float, float, float]:
    return estimate.estimate, estimate.low, estimate.high


def _absolute_agreement(pair: np.ndarray) -> float:
    forms = forms_of_sums(base_sums(pair, range(len(pair))).sum(axis=0))
    return float(forms[FORMS.index("ICC(A,1)")])


if __name__ == "__main__":
    with Study.load(sys.argv[1]) as planted:
        print("\n".join(path.name for path in draw_all(planted, PICTURES)))
