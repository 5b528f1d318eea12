"""Tables that results are made of, published numbers, and what a test compares of a result."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import special

from toolkit.analyses import QUESTIONS
from toolkit.analyses.answers import Analyses
from toolkit.stats.agreement.icc import rating_matrix
from toolkit.stats.one_shot.methods import methods_frame


def golden(name):
    """Return the published numbers of a file in tests/golden."""
    return json.loads((Path(__file__).parents[1] / "golden" / f"{name}.json").read_text("utf-8"))


def crossed(**levels):
    """Return a row for each combination of levels, of which the last changes fastest."""
    return pd.DataFrame(product(*levels.values()), columns=list(levels))


def named(letter, count):
    """Return so many names: b0, b1, b2."""
    return [f"{letter}{number}" for number in range(count)]


def long(scores, answers=None, **more):
    """Return scores of answers (rows) by judges as one row each; with ``answers`` so many of them share a base."""
    rows = [(f"t{i}", f"j{j}", score) for i, row in enumerate(scores) for j, score in enumerate(row)]
    table = pd.DataFrame(rows, columns=["target", "judge", "score"]).assign(**more)
    return (
        table.assign(base=[f"b{int(name[1:]) // answers}" for name in table["target"]]) if answers else table
    )


def of_methods(scores):
    """Return the analyses of methods of a one-shot test, as a study of it has them."""
    rows = methods_frame(scores)
    closed = dict.fromkeys(QUESTIONS.keys() - {"conditions"}, "no judges")
    more = {"methods": rows.assign(base=rows["question"]), "score": "raw", "scale": (-0.5, 1.0)}
    runs, judgements = (
        pd.DataFrame(columns=names) for names in (["model", "level", "status"], ["judge", "judge_model"])
    )
    return Analyses(runs, judgements, unanswerable=closed, **more)


def matrix(scores, answers=None):
    """Return these ratings as the matrix that agreement is calculated from."""
    table = long(scores, answers)
    return rating_matrix(table, list(table["target"].unique()), sorted(table["judge"].unique()))


def three_outcomes(size, parts):
    """Return all outcomes of so many experiments, shares of three verdicts on a grid, and the chance of each."""
    outcomes, grid = (
        np.array(
            [
                (first, second, total - first - second)
                for first in range(total + 1)
                for second in range(total + 1 - first)
            ]
        )
        for total in (size, parts)
    )
    ways = special.gammaln(size + 1) - special.gammaln(outcomes + 1).sum(axis=1)
    shares = grid / parts
    return outcomes, shares, np.exp(ways + special.xlogy(outcomes[None], shares[:, None]).sum(axis=2))


def ends(estimate):
    """Return both ends of an interval."""
    return estimate.low, estimate.high


def width(estimate):
    """Return the width of an interval."""
    return estimate.high - estimate.low


def numbers(estimate):
    """Return an estimate with both ends of its interval."""
    return estimate.estimate, estimate.low, estimate.high


def check_shown(*results):
    """See that results can be shown, whatever they lack: as JSON without NaN, a sentence, a frame, in a notebook."""
    for result in results:
        assert json.dumps(result.to_dict(), allow_nan=False)
        assert result.sentence()
        assert repr(result)
        getattr(result, "frame", result.sentence)()  # an estimate alone has no frame
