"""Numbers about a dataset: its prompts, the similarity of its bases, and the kinds of its facts."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from toolkit.prompts.content import readability
from toolkit.prompts.dataset import FACT_KINDS, Dataset, by_bin
from toolkit.prompts.similarity import NEAR, jaccard, novelty
from toolkit.words import scenario_rank

CLASSES: Final = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, NEAR, 1.0)
"""Upper ends of the classes of similarity; texts of the first class share no gram."""
UNTOLD: Final = "not told"


def prompts_profile(dataset: Dataset) -> pd.DataFrame:
    """Return a row for each prompt: labels, tokens, readability and novelty.

    Returns
    -------
    DataFrame
        ``place`` numbers the bases in the order of the dataset, from 1; ``tokens`` are ``o200k_base``; ``grade`` is
        the Flesch-Kincaid grade; ``novelty`` is 1 - the highest similarity to an earlier base at the same length,
        missing for the first; ``csf`` is ``not told`` where the base has none.

    Examples
    --------
    >>> from toolkit.prompts.dataset import load_dataset
    >>> prompts_profile(load_dataset("demo"))[["base", "place", "length_bin"]].head(1).values.tolist()
    [['academic_soc_001', 1, 'S']]
    """
    bases = dict.fromkeys(prompt.base for prompt in dataset.prompts)
    positions = {base: position for position, base in enumerate(bases, 1)}
    rows: list[dict[str, Any]] = []
    for length_bin, prompts in by_bin(dataset.prompts).items():
        new = novelty([prompt.text for prompt in prompts], [prompt.base for prompt in prompts])
        rows += [
            {
                "prompt_id": prompt.prompt_id, "base": prompt.base, "place": positions[prompt.base],
                "scenario": prompt.scenario, "category": prompt.category,
                "csf": prompt.metadata.get("csf") or UNTOLD, "length_bin": length_bin, "tokens": prompt.token_count,
                "grade": readability(prompt.text), "novelty": float(added),
            }
            for prompt, added in zip(prompts, new, strict=True)
        ]  # fmt: skip
    return pd.DataFrame(rows).sort_values("place", kind="stable", ignore_index=True)


def similarity_profile(dataset: Dataset) -> pd.DataFrame:
    """Return the number of pairs of bases in each class of similarity, at each length.

    Returns
    -------
    DataFrame
        ``pairs`` have a Jaccard similarity of word 5-grams above that of the class before and up to ``up_to`` (one of
        ``CLASSES``). Two prompts of one base are no pair.

    Examples
    --------
    >>> from toolkit.prompts.dataset import load_dataset
    >>> similarity_profile(load_dataset("demo")).groupby("length_bin")["pairs"].sum().to_dict()
    {'L': 66, 'M': 66, 'S': 66}
    """
    rows = []
    for length_bin, prompts in by_bin(dataset.prompts).items():
        bases = np.array([prompt.base for prompt in prompts])
        distinct = np.triu(bases[:, None] != bases[None, :], 1)
        classes = np.searchsorted(CLASSES, jaccard([prompt.text for prompt in prompts])[distinct] - 1e-9)
        counts = np.bincount(classes, minlength=len(CLASSES))
        rows += [(length_bin, end, int(count)) for end, count in zip(CLASSES, counts, strict=True)]
    return pd.DataFrame(rows, columns=["length_bin", "up_to", "pairs"])


def facts_profile(dataset: Dataset) -> pd.DataFrame:
    """Return the mean number of facts of each kind per prompt, at each length, over bases with kinds."""
    rows = []
    for length_bin, prompts in by_bin(dataset.prompts).items():
        bases = [kinds for prompt in prompts if (kinds := prompt.metadata.get("fact_kinds"))]
        for kind in FACT_KINDS if bases else ():
            rows.append(
                (length_bin, kind, float(np.mean([kinds.count(kind) for kinds in bases])), len(bases))
            )
    return pd.DataFrame(rows, columns=["length_bin", "kind", "facts", "bases"])


def balance_profile(dataset: Dataset) -> pd.DataFrame:
    """Return the number of bases of each scenario, category and CSF function."""
    keys = ["scenario", "category", "csf"]
    first = prompts_profile(dataset).drop_duplicates("base")
    order = {name: n for n, name in enumerate(sorted({*first["scenario"]}, key=scenario_rank))}
    counts = first.groupby(keys, sort=True).size().rename("bases").reset_index()
    return counts.sort_values(
        "scenario", key=lambda names: names.map(order), kind="stable", ignore_index=True
    )
