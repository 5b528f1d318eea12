"""Whole scripted studies: every table calculated a second time, from the raw calls alone and by other formulas.

A scripted model's reply names its own call and each judge answers with one of twelve replies, so that what was said of
which run is read from requests and replies in the ledger, without the readers, the frames and the formulas of the
toolkit.
"""

import json
import math
import random
import re
import statistics
from itertools import combinations
from operator import itemgetter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from logit_jackknife import logit_jackknife
from scipy import stats

import toolkit
from toolkit import Study

DIMENSIONS = (
    *("technical_accuracy", "actionability", "completeness", "compliance_alignment"),
    *("risk_awareness", "relevance", "clarity"),
)
ROLES = ("primary", "secondary", "tertiary")
LEVELS = dict(zip(ROLES, (3.0, 3.5, 2.5), strict=True))
USD = (1.0, 2.0)
"""Price of a million tokens in and out, for models and judges alike."""
PRICES = Path(toolkit.__file__).parent / "models" / "prices.toml"
HARD = "judges fail and give zeros"
STUDIES = {
    "all judges answer": {"repeats": 2, "models": ("scripted", "scripted-b"), "hard": False},
    HARD: {"repeats": 1, "models": ("scripted",), "hard": True},
}


def replies(role, hard):
    """Return twelve replies of a judge in half points; where it is hard, three of no use and some true zeros."""
    dice = random.Random(f"20261121 {role}")
    found = []
    for place in range(12):
        level = LEVELS[role] + dice.choice((-1.0, 0.0, 0.5, 1.0))
        scores = {name: min(5.0, max(0.5, level + dice.choice((-0.5, 0.0, 0.5)))) for name in DIMENSIONS}
        if hard and place % 3 == 0:
            scores[dice.choice(DIMENSIONS)] = 0.0
        off = json.dumps({"reasons": "So.", **scores, DIMENSIONS[0]: 6.0})
        unusable = ("I would give it a five.", '{"reasons": "Too good for the scale."', off)
        found.append(unusable[place] if hard and place < 3 else json.dumps({"reasons": "So.", **scores}))
    return found


@pytest.fixture(
    scope="module", params=[HARD, *(pytest.param(n, marks=pytest.mark.full) for n in STUDIES if n != HARD)]
)
def study(request, tmp_path_factory):
    """A finished study: 144 runs that all judges score, or 36 with judges that fail and give zeros."""
    about = STUDIES[request.param]
    price = f"usd_per_million_input = {USD[0]}, usd_per_million_output = {USD[1]}"
    models = ", ".join(f'{{ name = "{name}", provider = "scripted", {price} }}' for name in about["models"])
    judges = "\n".join(
        f'{role} = {{ name = "judge-{role}", provider = "scripted", {price}, '
        f"replies = {json.dumps(replies(role, about['hard']))} }}"
        for role in ROLES
    )
    path = tmp_path_factory.mktemp("second") / "study.toml"
    path.write_text(
        f'name = "{request.param.replace(" ", "-")}"\nrepeats = {about["repeats"]}\nmodels = [{models}]\n'
        f'output = "results/study"\n[judges]\nrepair = false\n{judges}\n',
        encoding="utf-8",
    )
    with Study.load(path) as found:
        found.run(progress=False)
        yield found


class Facts:
    """What the raw calls of a study say."""

    def __init__(self, study):
        about = {prompt.text: prompt for prompt in study.plan.dataset.prompts}
        calls = list(study.store.database["calls"].find({"study": study.name, "state": "done"}))
        rate = float(re.search(r"aud_per_usd = ([\d.]+)", PRICES.read_text())[1])
        self.aud = {
            call["_id"]: (call["input_tokens"] * USD[0] + call["output_tokens"] * USD[1]) / 1e6 * rate
            for call in calls
        }
        self.runs, by_reply, self.cell = {}, {}, {}
        for call in calls:
            if call["purpose"] == "run":
                prompt = about[call["request"]["messages"][-1]["content"]]
                run = (prompt.prompt_id, call["model"], int(call["request"]["repeat"]))
                self.runs[run], by_reply[call["_id"][:12]] = self.aud[call["_id"]], run
                self.cell[run] = (prompt.base, call["model"], prompt.level)
        self.said = {}
        for call in calls:
            if call["purpose"] == "judge":
                text = " ".join(message["content"] for message in call["request"]["messages"])
                (reply,) = set(re.findall(r"Scripted reply ([0-9a-f]{12})\.", text))
                role = call["model"].removeprefix("judge-")
                self.said[*by_reply[reply], role] = (scores_of(call["text"]), self.aud[call["_id"]])

    def of_run(self, run):
        """Return the usable scores of a run, judge by judge."""
        return [found for role in ROLES if (found := self.said[*run, role][0]) is not None]

    def composite(self, run):
        """Return the mean over judges of their means, zeros counted; None with fewer than two."""
        given = [statistics.fmean(scores.values()) for scores in self.of_run(run)]
        return statistics.fmean(given) if len(given) >= 2 else None


def scores_of(text):
    """Return seven scores within 0-5, or None."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    scores = {name: float(found[name]) for name in DIMENSIONS}
    return scores if all(0 <= score <= 5 for score in scores.values()) else None


def above_zero(scores):
    above = [score for score in scores.values() if score > 0]
    return sum(above) / len(above)


def same(found, expected):
    """Hold every number to the one expected; a missing one is never a zero."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if value is None:
            assert pd.isna(found[name]), name
        else:
            assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name


def rows_of(frame, keys, columns):
    rows = frame.to_dict("records")
    return {(*(row[key] for key in keys), column): row[column] for row in rows for column in columns}


RUN = ("prompt_id", "model", "repeat")


def test_judgements(study):
    """Every score, composite and cost of every judgement; where it cannot be used there is none."""
    expected = {}
    for key, (scores, aud) in Facts(study).said.items():
        expected |= {(*key, name): scores and scores[name] for name in DIMENSIONS}
        expected[*key, "composite"] = scores and above_zero(scores)
        expected[*key, "composite_strict"] = scores and sum(scores.values()) / len(DIMENSIONS)
        expected[*key, "aud_cost"] = aud
    columns = (*DIMENSIONS, "composite", "composite_strict", "aud_cost")
    same(rows_of(study.judgements(), (*RUN, "judge"), columns), expected)


def test_runs_status_and_cost(study):
    """The ensemble's mean, spread and t interval of every run, and what the whole study did and spent."""
    facts, expected = Facts(study), {}
    for run, aud in facts.runs.items():
        given = facts.of_run(run)
        each = [above_zero(scores) for scores in given]
        judged = len(each) >= 2
        middle, spread = (statistics.fmean(each), statistics.stdev(each)) if judged else (None, None)
        half = stats.t.isf(0.025, len(each) - 1) * spread / math.sqrt(len(each)) if judged else None
        expected |= {
            (*run, "judge_count"): len(given),
            (*run, "composite"): middle,
            (*run, "composite_std"): spread,
            (*run, "composite_low"): max(0.0, middle - half) if judged else None,
            (*run, "composite_high"): min(5.0, middle + half) if judged else None,
            (*run, "aud_cost"): aud,
            (*run, "judge_aud_cost"): math.fsum(facts.said[*run, role][1] for role in ROLES),
        }
        for name in DIMENSIONS:
            expected[*run, name] = statistics.fmean(scores[name] for scores in given) if judged else None
    columns = tuple(dict.fromkeys(key[-1] for key in expected))
    same(rows_of(study.runs(), RUN, columns), expected)
    status = study.status()
    assert status["runs"]["succeeded"] == len(facts.runs) == len(study.plan.runs)
    assert status["judgements"]["done"] == len(facts.said) == 3 * len(facts.runs)
    assert status["judgements"]["scored"] == sum(scores is not None for scores, _ in facts.said.values())
    assert status["spent_aud"] == pytest.approx(math.fsum(facts.aud.values()), rel=1e-12)


def expected_lengths(facts):
    """Return means of the bins, paired differences with t intervals and Holm's p values, and d_z, by scipy."""
    cells = {}
    for run, cell in facts.cell.items():
        if (score := facts.composite(run)) is not None:
            cells.setdefault(cell, []).append(score)
    score = {cell: statistics.fmean(scores) for cell, scores in cells.items()}
    models, bases = sorted({cell[1] for cell in score}), sorted({cell[0] for cell in score})
    expected = {}
    for name in "SML":
        per_base = [[score[b, m, name] for m in models if (b, m, name) in score] for b in bases]
        values = [statistics.fmean(one) for one in per_base if one]
        low, high = logit_jackknife([[value] for value in values])
        expected |= {(name, "estimate"): np.mean(values), (name, "low"): low, (name, "high"): high}
    raw = {}
    for one, other in (("M", "S"), ("L", "M"), ("L", "S")):
        both = [[m for m in models if (b, m, one) in score and (b, m, other) in score] for b in bases]
        values = [
            statistics.fmean(score[b, m, one] - score[b, m, other] for m in shared)
            for b, shared in zip(bases, both, strict=True)
            if shared
        ]
        name, found = f"{one}-{other}", stats.ttest_1samp(values, 0.0)
        low, high = found.confidence_interval(0.95)
        raw[name] = found.pvalue
        expected |= {(name, "estimate"): np.mean(values), (name, "low"): low, (name, "high"): high}
        expected[f"d_z({name})", "estimate"] = found.statistic / math.sqrt(len(values))
    adjusted = 0.0
    for rank, name in enumerate(sorted(raw, key=raw.__getitem__)):
        adjusted = min(1.0, max(adjusted, (3 - rank) * raw[name]))
        expected[name, "p_value"] = adjusted
    return expected


def test_prompt_lengths(study):
    """24 numbers of the comparison within bases; p values without Holm's correction would differ."""
    expected = expected_lengths(Facts(study))
    shown = study.length().frame()
    found = rows_of(
        shown[shown["comparison"] != "equivalence"], ("name",), ("estimate", "low", "high", "p_value")
    )
    same({key: found[key] for key in expected}, expected)


def test_reliability(study):
    """ICC by Shrout & Fleiss (1979, table 4), alpha from variances of items, Pearson by scipy, for every score."""
    facts, expected = Facts(study), {}
    for name in (*DIMENSIONS, "composite_strict"):
        score = (lambda s: statistics.fmean(s.values())) if name not in DIMENSIONS else itemgetter(name)
        given = {key: score(scores) for key, (scores, _) in facts.said.items() if scores is not None}
        x = np.array(
            [
                [given[*run, role] for role in ROLES]
                for run in facts.runs
                if all((*run, role) in given for role in ROLES)
            ]
        )
        n, k = x.shape
        bms = k * sum((row.mean() - x.mean()) ** 2 for row in x) / (n - 1)
        jms = n * sum((column.mean() - x.mean()) ** 2 for column in x.T) / (k - 1)
        wms = sum(((row - row.mean()) ** 2).sum() for row in x) / (n * (k - 1))
        ems = (wms * n * (k - 1) - jms * (k - 1)) / ((n - 1) * (k - 1))
        items = sum(statistics.variance(column) for column in x.T.tolist())
        expected |= {
            (name, "ICC(1,1)"): (bms - wms) / (bms + (k - 1) * wms),
            (name, "ICC(A,1)"): (bms - ems) / (bms + (k - 1) * ems + k * (jms - ems) / n),
            (name, "ICC(C,1)"): (bms - ems) / (bms + (k - 1) * ems),
            (name, "ICC(1,k)"): (bms - wms) / bms,
            (name, "ICC(A,k)"): (bms - ems) / (bms + (jms - ems) / n),
            (name, "ICC(C,k)"): (bms - ems) / bms,
            (name, "alpha over judges"): k
            / (k - 1)
            * (1 - items / statistics.variance(x.sum(axis=1).tolist())),
        }
        for one, other in combinations(ROLES, 2):
            pairs = [
                (given[*run, one], given[*run, other])
                for run in facts.runs
                if {(*run, one), (*run, other)} <= given.keys()
            ]
            expected[name, f"r({one}, {other})"] = stats.pearsonr(*zip(*pairs, strict=True)).statistic
    rows = study.reliability().frame().drop_duplicates(["dimension", "name"]).to_dict("records")
    found = {(row["dimension"], row["name"]): row["estimate"] for row in rows}
    same({key: found[key] for key in expected}, expected)


def test_the_hard_study_has_what_makes_it_hard(study):
    """Judges that fail, true zeros, and runs of fewer judges, or agreement would mean little."""
    judgements = study.judgements()
    hard = HARD.replace(" ", "-") == study.name
    assert bool(judgements["failed"].any()) == hard
    assert bool((judgements[list(DIMENSIONS)] == 0).any(axis=None)) == hard
    assert (study.runs()["judge_count"].nunique() > 1) == hard
