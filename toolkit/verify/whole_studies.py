"""Whole studies with scripted models and judges, run for real, and every table held against what it must say."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolkit.verify.expected import Agreement, Compared, compare
from toolkit.words import DIMENSIONS, JUDGE_ROLES

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.study import Study

USD: Final = (1.0, 2.0)
"""Price of a million tokens in and out, for models and judges alike."""
_LEVELS: Final = {"primary": 3.0, "secondary": 3.5, "tertiary": 2.5}
_UNUSABLE: Final = ("I would give it a five.", '{"reasons": "Too good for the scale."')
STUDIES: Final[dict[str, dict[str, Any]]] = {
    "all judges answer": {"repeats": 2, "models": ("scripted", "scripted-b"), "unusable": 0, "zeros": False},
    "judges fail and give zeros": {"repeats": 1, "models": ("scripted",), "unusable": 3, "zeros": True},
}
_STEM: Final = ("prompt_id", "model", "repeat")


def verify_whole_studies(seed: int = 20261121) -> Agreement:
    """Run the scripted studies in a temporary store and compare every table with one made from the raw calls.

    Nothing is sent anywhere and no store of the user's is opened. A scripted model's reply names its own call and
    each judge answers with one of twelve replies, so that what was said of which run can be read from the requests and
    replies in the ledger, without the readers, the frames and the formulas of the toolkit.

    Parameters
    ----------
    seed
        Of the studies and of the judges' replies.

    Returns
    -------
    Agreement
        Tables of judgements, runs, status, prompt lengths and reliability of each study.
    """
    tables: list[Compared] = []
    for name in STUDIES:
        with finished_study(name, seed) as study:
            tables += compared_tables(name, study)
    return Agreement(tuple(tables))


@contextmanager
def finished_study(name: str, seed: int) -> Iterator[Study]:
    """Run one of the ``STUDIES`` in a temporary folder and store, and take both away at the end.

    Parameters
    ----------
    name
        One of ``STUDIES``.
    seed
        Of the study and of the judges' replies.
    """
    from toolkit.store import embedded
    from toolkit.store.connection import Store
    from toolkit.study import Study

    with tempfile.TemporaryDirectory(prefix="toolkit-verify-") as folder:
        path = Path(folder) / "study.toml"
        path.write_text(_study_file(name, seed), encoding="utf-8")
        study = Study.load(path)
        place = study.plan.store_folder
        # Not `open_store`: where MONGODB_URI is set it would write made-up runs into the store of real ones.
        store = Store(embedded.address(place), place)
        study.store = store
        try:
            study.execute(progress=False)
            yield study
            store.close()
        finally:
            embedded.stop(place)


def _study_file(name: str, seed: int) -> str:
    about = STUDIES[name]
    price = f"usd_per_million_input = {USD[0]}, usd_per_million_output = {USD[1]}"
    models = ", ".join(f'{{ name = "{model}", provider = "scripted", {price} }}' for model in about["models"])
    judges = "\n".join(
        f'{role} = {{ name = "judge-{role}", provider = "scripted", {price}, '
        f"replies = {json.dumps(_replies(role, about, seed))} }}"
        for role in JUDGE_ROLES
    )
    return (
        f'name = "{name.replace(" ", "-")}"\nseed = {seed}\nrepeats = {about["repeats"]}\nmodels = [{models}]\n'
        f'output = "results/study"\n[judges]\nrepair = false\n{judges}\n'
    )


def _replies(role: str, about: dict[str, Any], seed: int) -> list[str]:
    """Return twelve replies of a judge: scores around its level in half points, or nothing that can be used."""
    dice = random.Random(f"{seed} {role}")
    replies = []
    for place in range(12):
        level = _LEVELS[role] + dice.choice((-1.0, 0.0, 0.5, 1.0))
        scores = {name: min(5.0, max(0.5, level + dice.choice((-0.5, 0.0, 0.5)))) for name in DIMENSIONS}
        if about["zeros"] and place % 3 == 0:
            scores[dice.choice(DIMENSIONS)] = 0.0
        if place < about["unusable"]:
            off = {**scores, DIMENSIONS[0]: 6.0}
            replies.append((*_UNUSABLE, json.dumps({"reasons": "So.", **off}))[place])
        else:
            replies.append(json.dumps({"reasons": f"Reply {place}.", **scores}))
    return replies


def compared_tables(name: str, study: Study) -> Iterable[Compared]:
    """Yield every table of a finished scripted study held against the same numbers made from its raw calls.

    Parameters
    ----------
    name
        What the study is called in the result.
    study
        The finished study.
    """
    from toolkit.models.prices import price_of
    from toolkit.verify import recalculated
    from toolkit.verify.ledger_facts import ledger_facts

    plan = study.plan
    facts = ledger_facts(
        study.store.database["calls"].find({"study": study.name, "state": "done"}),
        {one.text: (one.prompt_id, one.base, one.length_bin) for one in plan.dataset.prompts},
        {judge.name: role for role, judge in plan.judges.items()},
        USD,
        price_of(next(iter(plan.models.values()))).aud_per_usd,
    )
    judgements, runs, status = study.judgements(), study.runs(), study.status()
    costs = ("composite", "composite_strict", "aud_cost")
    yield compare(
        name,
        "judgements",
        recalculated.expected_judgements(facts),
        _cells(judgements, (*_STEM, "judge"), (*DIMENSIONS, *costs)),
    )
    spread = ("judge_count", "composite", "composite_std", "composite_low", "composite_high", "aud_cost")
    yield compare(
        name, "runs", recalculated.expected_runs(facts), _cells(runs, _STEM, (*spread, *DIMENSIONS))
    )
    yield compare(
        name,
        "status and cost",
        recalculated.expected_status(facts, len(plan.runs), len(plan.judges)),
        {
            "runs planned": status["runs"]["planned"],
            "runs succeeded": status["runs"]["succeeded"],
            "judgements planned": status["judgements"]["planned"],
            "judgements done": status["judgements"]["done"],
            "judgements scored": status["judgements"]["scored"],
            "spent AUD": status["spent_aud"],
        },
    )
    expected = recalculated.expected_lengths(facts)
    yield compare(name, "prompt lengths", expected, _found(study.length().frame(), expected))
    agreement = recalculated.expected_reliability(facts)
    reliability = study.reliability().frame()
    found = {
        (row["dimension"], row["name"]): row["estimate"]
        for row in reliability.drop_duplicates(["dimension", "name"]).to_dict("records")
        if (row["dimension"], row["name"]) in agreement
    }
    yield compare(name, "reliability", agreement, found)


def _cells(
    frame: pd.DataFrame, keys: tuple[str, ...], columns: tuple[str, ...]
) -> dict[tuple[Any, ...], Any]:
    """Return every number of a frame by the values of its key columns and the name of its column."""
    import pandas as pd

    return {
        (*(row[key] for key in keys), column): None if pd.isna(row[column]) else row[column]
        for row in frame.to_dict("records")
        for column in columns
    }


def _found(lengths: pd.DataFrame, expected: dict[Any, Any]) -> dict[Any, Any]:
    """Return the numbers of a comparison of lengths that were calculated again."""
    shown = lengths[lengths["comparison"] != "equivalence"]
    rows = shown.to_dict("records")
    columns = ("estimate", "low", "high", "p_value")
    return {
        (row["name"], column): row[column]
        for row in rows
        for column in columns
        if (row["name"], column) in expected
    }
