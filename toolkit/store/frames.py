"""Tidy frames with stable names, dtypes and units: runs, judgements, prompts, measurements, ratings by people."""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from operator import itemgetter
from typing import Any

import pandas as pd

from toolkit.judges.judgement import judge_label
from toolkit.prompt_test import MeasuredTestItem
from toolkit.prompts.dataset import Prompt
from toolkit.scoring import SEED_SCHEME, Scheme
from toolkit.store import documents
from toolkit.store.connection import Store, windows
from toolkit.store.documents import FIELDS, JUDGEMENT, Annotation, Run
from toolkit.store.frame_files import typed, typed_columns, types_of
from toolkit.store.ratings import HUMAN, all_ratings, newest_ratings
from toolkit.store.records import is_current, judgements_of
from toolkit.store.writer import Document, Fields
from toolkit.words import DIMENSIONS, SCORE, total_aud

RATED_SCORES = (*DIMENSIONS, SCORE)
_WHERE = FIELDS["where"]
COLUMNS_OF_RUN = FIELDS["shared"]
"""Columns of a run that frames of what was said of it share."""
_RATED = ["run_id", "base", "cluster", "level", "judge"]
_NOT_OF_RUN = FIELDS["not_of_run"] + [
    f"ensemble_evaluation.aggregated.{part}.{name}"
    for part in ("std_scores", "confidence_intervals")
    for name in (*DIMENSIONS, "composite_strict")
]
_ORDER = ["model", "prompt_id", "repeat"]
_Documents = Sequence[Fields]


def runs_frame(
    store: Store,
    call_ids: Iterable[str],
    *,
    study: str,
    clusters: Mapping[str, str] | None = None,
    where: Fields | None = None,
    judged: bool | None = None,
    scheme: Scheme = SEED_SCHEME,
) -> pd.DataFrame:
    """Return one row a run, for the runs that the given calls answered."""
    query = {**(where or {}), **({"judged": True} if judged else {})}
    prompts: dict[tuple[str, str], Document] = {}
    types = types_of("runs", scheme)

    def columns(ids: Sequence[str]) -> dict[str, Sequence[Any]]:
        runs = store.find_by(Run, "call_id", ids, _NOT_OF_RUN, query=query)
        runs = [run for run in runs if run["study"] == study]
        computed = _run_columns(store, runs, prompts, clusters or {}, scheme)
        return {name: computed[name] if name in computed else _each(runs, name) for name in types}

    frame = _of_scheme(_in_windows(dict.fromkeys(call_ids), columns, types, _ORDER), scheme)
    if judged is not None:
        # Whether a judgement is about the present text compares two fields, which no query does on every server.
        frame = frame[frame["judged"] == judged]
    return frame.sort_values(_ORDER, ignore_index=True)


def _in_windows(
    names: Iterable[str],
    columns: Callable[[Sequence[str]], Fields],
    types: Mapping[str, str],
    order: list[str],
) -> pd.DataFrame:
    """Return the rows of a thousand names after the other as one frame: documents are ten times as large as rows.

    Each part is in order, so that what comes in order need not be copied whole to be sorted.
    """
    parts = []
    with ThreadPoolExecutor(1) as beside:  # the store reads while this process sorts into columns
        reading = None
        for some in chain(windows(names), [None]):
            ahead = beside.submit(columns, some) if some else None
            if reading is not None:
                parts.append(typed_columns(reading.result(), types).sort_values(order))
            reading = ahead
    return pd.concat(parts or [typed((), types)], ignore_index=True)


def _run_columns(
    store: Store,
    runs: _Documents,
    prompts: dict[tuple[str, str], Document],
    clusters: Mapping[str, str],
    scheme: Scheme,
) -> dict[str, Sequence[Any]]:
    """Return the columns of a frame of runs; by column, because there are so many rows."""
    unread = {run["prompt_id"] for run in runs if (run["prompt_id"], run["dataset_version"]) not in prompts}
    for prompt in store.find_by(documents.Prompt, "prompt_id", unread, ("text",)):
        prompts[prompt["prompt_id"], prompt["dataset_version"]] = prompt
    costs = _judge_costs(store, {"run_id": {"$in": _each(runs, "run_id")}}) if runs else {}
    asked_with = [prompts[run["prompt_id"], run["dataset_version"]] for run in runs]
    excluded = [run.get("defect") is not None and run.get("reply_policy") != "keep" for run in runs]
    ensembles: list[Fields] = []
    evaluations = _parts(_parts(runs, "ensemble_evaluation"), "aggregated")
    for run, out, ensemble in zip(runs, excluded, evaluations, strict=True):
        # Judgements from a time when the study kept such replies stay in the store and count for nothing here, and
        # a run that is still to be judged by this rubric may have been judged by one with other dimensions or scales.
        fits = ensemble.get("scheme") == scheme.stored.get("scheme")
        ensembles.append(ensemble if fits and is_current(run) and not out else {})
    pairs = zip(_parts(runs, "scores"), ensembles, strict=True)
    means = [scores if ensemble else {} for scores, ensemble in pairs]
    limits = [part.get("composite") or (None, None) for part in _parts(ensembles, "confidence_intervals")]
    sources: Mapping[str, _Documents] = {
        "prompts": asked_with,
        "metadata": _parts(asked_with, "metadata"),
        "tokens": _parts(runs, "tokens"),
        "economics": _parts(runs, "economics"),
        "ensembles": ensembles,
        "std_scores": _parts(ensembles, "std_scores"),
    }
    columns = {
        column: _each(sources[source], name)
        for source, names in FIELDS["columns_of_run"].items()
        for column, name in names.items()
    }
    return {
        **columns,
        "level": [run.get("level") or run.get("prompt_length_bin") for run in runs],
        "cluster": [clusters.get(base, base) for base in columns["base"]],
        "excluded": excluded,
        "judge_aud_cost": [costs.get(run["run_id"]) for run in runs],
        "judged": [bool(ensemble.get("judged")) for ensemble in ensembles],
        **{name: _each(means, name) for name in scheme.columns},
        "composite_low": [low for low, _ in limits],
        "composite_high": [high for _, high in limits],
    }


def _of_scheme(frame: pd.DataFrame, scheme: Scheme) -> pd.DataFrame:
    """Return a frame that says which scores it has, where they are not the seed's."""
    if scheme != SEED_SCHEME:
        frame.attrs |= {"dimensions": scheme.names, "scale": scheme.scale}
    return frame


def judgements_frame(
    store: Store,
    runs: pd.DataFrame,
    *,
    rubric_hash: str,
    judges: Mapping[str, str],
    where: Fields | None = None,
    counting_only: bool = True,
    scheme: Scheme = SEED_SCHEME,
) -> pd.DataFrame:
    """Return one row a judgement of the given runs under one rubric."""
    query = {"rubric_hash": rubric_hash, **(where or {})}
    unread = [name for name in FIELDS["not_of_judgement"] if counting_only or name != "updated_at"]
    counting = ("run_id", "judge_calls", "judged_blob_id", "output_blob_id")
    of_run = runs.loc[~runs["excluded"]].sort_values(_ORDER).set_index("run_id")[COLUMNS_OF_RUN]
    types = types_of("judgements", scheme)

    def columns(ids: Sequence[str]) -> Document:
        judgements = judgements_of(store, ids, unread, query=query)
        judged = store.find_by(Run, "run_id", ids, only=counting)
        calls = {run["run_id"]: run.get("judge_calls") or {} for run in judged if is_current(run)}
        rows = [
            judgement
            for judgement in (judgements if counting_only else _newest(judgements))
            if judges.get(judgement["judge"]) == judgement["model"]
        ]
        if counting_only:  # no others, of another version of the reply or under other settings of the judge
            rows = [row for row in rows if calls.get(row["run_id"], {}).get(_label(row)) == row["call_id"]]
        computed = _judgement_columns(rows, of_run.loc[_each(rows, "run_id")], scheme)
        return {name: computed[name] if name in computed else _each(rows, name) for name in types}

    return _of_scheme(_in_windows(of_run.index, columns, types, [*_ORDER, "judge", "judge_repeat"]), scheme)


def _label(judgement: Fields) -> str:
    return judge_label(judgement["judge"], judgement.get("judge_repeat") or 0)


def _judgement_columns(judgements: _Documents, of_run: pd.DataFrame, scheme: Scheme) -> Document:
    scores = [judgement.get("scores") or {} for judgement in judgements]
    expected = [judgement.get("expected") or {} for judgement in judgements]
    masses = [(judgement.get("expected_mass") or {}).values() for judgement in judgements]
    return {
        **{name: of_run[name] for name in COLUMNS_OF_RUN},
        "judge_model": _each(judgements, "model"),
        "failure": _each(judgements, "reason"),
        **{name: _each(scores, name) for name in scheme.names},
        "judge_repeat": [judgement.get("judge_repeat") or 0 for judgement in judgements],
        "reference": [judgement.get("reference") or False for judgement in judgements],
        # Only where every dimension has one: the mean of a part of them is another composite.
        "expected_composite": [
            scheme.strict(means) if means.keys() >= scheme.needed else None for means in expected
        ],
        "expected_mass": [min(mass, default=None) for mass in masses],
    }


def with_replies(store: Store, runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs with the text of each reply; a run without one has none."""
    ids = runs["output_blob_id"].dropna()
    blobs = store.find_by(documents.OutputBlob, "blob_id", ids, only=("blob_id", "content"))
    texts = {blob["blob_id"]: blob["content"] for blob in blobs}
    return runs.assign(reply=runs["output_blob_id"].map(texts).astype("string"))


def joined_frame(runs: pd.DataFrame, judgements: pd.DataFrame) -> pd.DataFrame:
    """Return runs with their judgements; a column of both is the judgement's, and the run's is ``run_...``."""
    shared = [name for name in judgements if name in runs and name not in ("run_id", *COLUMNS_OF_RUN)]
    of_run = runs.rename(columns={name: f"run_{name}" for name in shared})
    return of_run.merge(judgements.drop(columns=COLUMNS_OF_RUN), on="run_id", how="left")


def _newest(judgements: _Documents) -> list[Fields]:
    ordered = sorted(judgements, key=itemgetter("updated_at"))
    return list({(judgement["run_id"], _label(judgement)): judgement for judgement in ordered}.values())


def dimensions_frame(judgements: pd.DataFrame, scheme: Scheme = SEED_SCHEME) -> pd.DataFrame:
    """Return one row per judgement and dimension."""
    keys = [*_WHERE, "judge", "judge_repeat"]
    ordered = judgements.sort_values(keys)
    repeated = ordered.loc[ordered.index.repeat(len(scheme.names)), keys]
    columns: Document = {
        **{name: repeated[name] for name in keys},
        "dimension": [*scheme.names] * len(ordered),
        "score": ordered[list(scheme.names)].to_numpy().ravel(),
    }
    return typed_columns(columns, types_of("dimensions", scheme))


def judge_means(judgements: pd.DataFrame, dimensions: Sequence[str] = DIMENSIONS) -> pd.DataFrame:
    """Return one row a judge and run: the mean over the times it judged that run and was read, as in the ensemble."""
    if not judgements["judge_repeat"].gt(0).any():
        return judgements
    scores = [*dict.fromkeys((*dimensions, "composite", "composite_strict", "expected_composite"))]
    groups = judgements.groupby(["run_id", "judge"], observed=True, sort=False)
    once = judgements.drop_duplicates(["run_id", "judge"]).set_index(["run_id", "judge"])
    once[scores] = groups[scores].mean()
    once["failed"] = groups["failed"].all()
    once["zeros"] = groups["zeros"].sum()
    paid = ["aud_cost", "latency_ms", "input_tokens", "output_tokens"]
    once[paid] = groups[paid].sum(min_count=1)
    once["aud_cost"] = groups["aud_cost"].agg(
        lambda costs: total_aud(costs.dropna()) if costs.notna().any() else float("nan")
    )
    return once.reset_index()[list(judgements.columns)]


def elements_frame(store: Store, runs: pd.DataFrame, digest: str) -> pd.DataFrame:
    """Return one row a run and judge that looked for the required elements of its base, under one instrument."""
    counting = runs[~runs["excluded"]]
    of_run: Document = {row["run_id"]: row for row in counting[_WHERE].to_dict("records")}
    judgements = store.find_by(Annotation, "run_id", of_run, query={"rubric_hash": digest})
    rows = []
    for judgement in _newest(judgements):
        detail = judgement.get("detail") or {}
        row = {
            "judge": judgement["judge"],
            "failed": judgement["failed"],
            "failure": judgement.get("reason"),
            "share": (judgement.get("scores") or {}).get("share"),
            "required": detail.get("required"),
            "absent": "; ".join(detail.get("absent", ())),
            "unquoted": "; ".join(detail.get("unquoted", ())),
        }
        rows.append(of_run[judgement["run_id"]] | row)
    return typed(rows, types_of("elements")).sort_values(["run_id", "judge"], ignore_index=True)


def ratings_frame(judgements: pd.DataFrame, scores: Sequence[str] = RATED_SCORES) -> pd.DataFrame:
    """Return scores of a judgements frame as ratings: target (a run), base, cluster, level, judge, dimension, score."""
    return _melted(judge_means(judgements, scores), _RATED, scores)


def repeats_frame(judgements: pd.DataFrame, scores: Sequence[str] = RATED_SCORES) -> pd.DataFrame:
    """Return the same before a judge's repeats are averaged, with the column repeat; empty where nobody repeated."""
    repeated = judgements if judgements["judge_repeat"].gt(0).any() else judgements.iloc[:0]
    return _melted(repeated, [*_RATED, "judge_repeat"], scores).rename(columns={"judge_repeat": "repeat"})


def _melted(scored: pd.DataFrame, keys: list[str], scores: Sequence[str] = RATED_SCORES) -> pd.DataFrame:
    long = scored.melt(keys, list(scores), var_name="dimension", value_name="score")
    return long.rename(columns={"run_id": "target"}).astype({"judge": "string"})


def _each(documents: _Documents, name: str) -> list[Any]:
    return [document.get(name) for document in documents]


def _parts(documents: _Documents, name: str) -> list[Fields]:
    return [document.get(name) or {} for document in documents]


def _judge_costs(store: Store, match: Fields) -> dict[str, float]:
    costs: dict[str, list[float]] = defaultdict(list)
    paid = {**match, "kind": JUDGEMENT, "aud_cost": {"$ne": None}}
    for judgement in store.each_where(Annotation, paid, only=("run_id", "aud_cost")):
        costs[judgement["run_id"]].append(judgement["aud_cost"])
    return {run_id: total_aud(parts) for run_id, parts in costs.items()}


def prompts_frame(prompts: Iterable[Prompt], prompt_ids: Container[str]) -> pd.DataFrame:
    """Return one row a prompt, columns and dtypes as in ``prompts``; ``tokens`` counts those of o200k_base."""
    rows = [
        {
            **vars(prompt),
            "test_item": prompt.base,
            "scenario": prompt.scenario or None,
            "level": prompt.level or None,
            **{name: prompt.metadata.get(name) for name in ("length_arm", "reference")},
            "tokens": prompt.token_count,
        }
        for prompt in prompts
        if prompt.prompt_id in prompt_ids
    ]
    return typed(rows, types_of("prompts"))


def measurements_frame(measured: Iterable[MeasuredTestItem]) -> pd.DataFrame:
    """Return one row a measurement, columns and dtypes as in ``measurements``; a missing one has its reason."""
    rows = [
        {
            "test_item": test_item.item.item_id,
            "model": test_item.model,
            "repeat": test_item.repeat,
            "name": number.name,
            "value": number.value,
            "unit": number.unit,
            "reason": number.reason if number.value is None else None,
        }
        for test_item in measured
        for number in test_item.measurements
    ]
    return typed(rows, types_of("measurements"))


def human_frame(
    store: Store, runs: pd.DataFrame, rubric_hash: str, scheme: Scheme | None = None
) -> pd.DataFrame:
    """Return one row a rating of a person: the newest of each rater and run, about the text the run has now.

    An unfinished rating has its reason and no scores; `history_frame` has those that were given.

    Examples
    --------
    >>> human = human_frame(study.store, study.runs(), study.plan.rubric.digest)  # doctest: +SKIP
    >>> human["rater"].unique().tolist()  # doctest: +SKIP
    ['anna']
    """
    of_run, scheme = _rateable(runs), scheme or store.scheme_of(rubric_hash)
    newest = newest_ratings(store, {name: run["output_blob_id"] for name, run in of_run.items()}, rubric_hash)
    rows = []
    for rating in newest.values():
        judgement = rating.judgement()
        run, fields = of_run[rating.run_id], FIELDS["of_rating"] + FIELDS["of_rated_judgement"]
        row = {name: getattr(rating if name in FIELDS["of_rating"] else judgement, name) for name in fields}
        row |= {name: run[name] for name in _WHERE}
        rows.append({**row, "failure": judgement.reason, **(judgement.scores or {})})
    frame = typed(rows, types_of("human", scheme))
    return _of_scheme(frame.sort_values(["rater", "created_at", "run_id"], ignore_index=True), scheme)


def history_frame(store: Store, runs: pd.DataFrame, rubric_hash: str) -> pd.DataFrame:
    """Return one row a score that a person ever gave, earlier versions and unfinished ratings too.

    A version without any score has one row without a dimension. ``counts`` marks the newest version of each rater and
    run about the text that the run has now.

    Examples
    --------
    >>> versions = history_frame(study.store, study.runs(), study.plan.rubric.digest)  # doctest: +SKIP
    >>> list(versions)  # doctest: +SKIP
    ['run_id', 'rater', 'version', 'counts', 'dimension', 'score', 'reasons', 'source', 'created_at']
    """
    blobs = {run_id: run["output_blob_id"] for run_id, run in _rateable(runs).items()}
    newest = newest_ratings(store, blobs, rubric_hash)
    rows: list[Document] = []
    for rating in all_ratings(store, runs["run_id"], rubric_hash):
        current = newest.get((rating.rater, rating.run_id))
        counts = current is not None and current.version == rating.version
        fields = {name: getattr(rating, name, None) for name in FIELDS["history"]}
        scores = rating.scores.items() or [(None, None)]
        rows += [{**fields, "counts": counts, "dimension": name, "score": score} for name, score in scores]
    return typed(rows, FIELDS["history"])


def ratings_with_people(judgements: pd.DataFrame, human: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of judges and people as `ratings_frame` does; the rater anna is the judge ``human:anna``.

    Examples
    --------
    >>> ratings = ratings_with_people(study.judgements(), study.human())  # doctest: +SKIP
    >>> list(ratings)  # doctest: +SKIP
    ['target', 'base', 'cluster', 'level', 'judge', 'dimension', 'score']
    """
    people = human.assign(judge=HUMAN + ":" + human["rater"])
    scores = (*judgements.attrs.get("dimensions", DIMENSIONS), SCORE)
    return pd.concat([ratings_frame(judgements, scores), _melted(people, _RATED, scores)], ignore_index=True)


def _rateable(runs: pd.DataFrame) -> dict[str, Document]:
    counting = runs[~runs["excluded"] & runs["output_blob_id"].notna() & (runs["status"] == "succeeded")]
    records: list[Document] = counting.to_dict("records")  # type: ignore[assignment]
    return {row["run_id"]: row for row in records}
