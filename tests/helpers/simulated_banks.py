"""Banks of bases whose scores are drawn from a known truth, and designs of adaptive benchmarking tried on them."""

import numpy as np
import pandas as pd

from toolkit.stats import read_bank
from toolkit.stats.adaptive.benchmark import trials_summary


def simulate_designs(
    designs,
    *,
    target_width,
    seeds=200,
    models=4,
    **bank,
):
    """Return `benchmark_designs` over simulated banks, another for each seed, whose truth is therefore known.

    ``bank`` are parameters of `simulated_bank`.
    """

    def made():
        for seed in range(seeds):
            table, values = _simulated(seed, models, **bank)
            yield read_bank(table), values.mean(axis=2), seed

    return trials_summary(made(), designs, target_width)


def simulated_bank(seed, models=4, **bank):
    """Return a bank of 100 bases and the scores of models on their 300 prompts; parameters of `_simulated`."""
    table, values = _simulated(seed, models, **bank)
    names = [[f"model {m + 1}" for m in range(models)], list(table["base"]), list("SML")]
    index = pd.MultiIndex.from_product(names, names=["model", "base", "level"])
    return table, pd.Series(values.transpose(1, 0, 2).ravel(), index, name="score").reset_index()


def _simulated(
    seed,
    models=4,
    *,
    structure=True,
    scenario=0.15,
    category=0.2,
):
    """Return a bank and scores (100 x M x 3): 50, 30 and 20 bases of three scenarios in 9, 8 and 5 categories.

    Standard deviations, in points of 0-5. Of models over scenarios .15 and over categories .2; over bases .25, .45 and
    .65 by scenario, over lengths of a base .3;
    difficulty of bases, the same for all models, .4. Model means from 3.4 to 4.0. A block costs 1.0, 1.3 and 0.9 AUD by
    scenario, times a lognormal of 15 %. Without ``structure`` models differ by neither scenario nor category, by .45
    over bases everywhere, and all blocks cost alike but for the 15 %.
    """
    dice = np.random.default_rng([seed, 15])
    kind = np.repeat([0, 1, 2], [50, 30, 20])
    group = np.concatenate([np.arange(50) % 9, 9 + np.arange(30) % 8, 17 + np.arange(20) % 5])
    spread = np.array([0.25, 0.45, 0.65])[kind] if structure else np.full(100, 0.45)
    (
        dice.normal(size=100),
        dice.normal(size=models),
    )  # no longer used: the numbers drawn next stay what they were
    own = dice.normal(size=(100, models))
    effects = dice.normal(size=(3, models)) * scenario, dice.normal(size=(22, models)) * category
    score = np.linspace(3.4, 4.0, models) + dice.normal(size=(100, 1)) * 0.4
    score = score + (effects[0][kind] + effects[1][group]) * structure
    score = score + spread[:, None] * own
    values = np.clip(score[:, :, None] + dice.normal(size=(100, models, 3)) * 0.3, 0, 5)
    price = np.array([1.0, 1.3, 0.9])[kind] if structure else np.ones(100)
    table = pd.DataFrame(
        {
            "base": [f"base_{place:03}" for place in range(100)],
            "scenario": np.array(["SOC_INCIDENT", "GRC_MAPPING", "CTI_ANALYSIS"])[kind],
            "category": [f"category {number}" for number in group],
            "cost": price * np.exp(dice.normal(size=100) * 0.15),
        }
    )
    return table, values
