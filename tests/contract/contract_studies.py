"""Scripted studies whose every number is frozen: whole; with gaps, zeros, people and repeats; one-shot, typed."""

import csv
import json
import shutil
from pathlib import Path

from toolkit.words import DIMENSIONS


def _scores(*scores):
    """Return what a judge says who gives these scores."""
    return json.dumps({"reasons": "", **dict(zip(DIMENSIONS, scores, strict=True))})


def _claim(value, measure, column=None):
    """Return a typed answer of one claim over the requests."""
    of = {"measure": measure, "column": column, "filter": {"method": "*"}}
    return json.dumps({"claims": [{"value": value, "of": of, "rows": "all"}]})


PRICE = "usd_per_million_input = 2.0, usd_per_million_output = 8.0"
JUDGE = f'provider = "scripted", {PRICE}'
STUDIES = {
    "whole": f"""
name = "whole"
output = "results/whole"
models = [{{ name = "alpha", provider = "scripted", {PRICE} }}, {{ name = "beta", provider = "scripted", {PRICE} }}]
note = "Scripted models answer and judge."
[budget]
aud = 50.0
[analysis]
equivalence_margin = 0.5
[judges]
rubric = "rubric_v2.toml"
primary = {{ name = "judge-a", {JUDGE} }}
secondary = {{ name = "judge-b", {JUDGE} }}
tertiary = {{ name = "judge-c", {JUDGE} }}
""",
    "gaps": f"""
name = "gaps"
output = "results/gaps"
repeats = 2
models = [
  {{ name = "gamma", provider = "scripted", {PRICE}, replies = ["", "Block it. Keep the logs.", "Ask 192.0.2.7."] }},
  {{ name = "delta", provider = "scripted", {PRICE} }},
]
[judges]
rubric = "rubric_v2.toml"
repeats = 2
repair = false
primary = {{ name = "judge-a", {JUDGE} }}
secondary = {{ name = "judge-b", {JUDGE} }}
[judges.tertiary]
name = "judge-c"
provider = "scripted"
structured = false
usd_per_million_input = 2.0
usd_per_million_output = 8.0
replies = [
  "I would rather not say.",
  '{_scores(0, 0, 0, 0, 0, 0, 0)}',
  '{_scores(4, 3, 2.5, 4, 0, 5, 4)}',
]
[bias_controls]
fsp_enabled = true
""",
    "one_shot": f"""
name = "one_shot"
test = "one_shot"
output = "results/one_shot"
repeats = 10
models = [{{ name = "epsilon", provider = "scripted", {PRICE}, replies = [
  "www.plain.example", "The host is 203.0.113.9.", "I do not know.", "GET", "192.0.2.10", "3"] }}]
[options]
samples = ["plain_gets"]
questions = "questions.toml"
answer_format = "text"
[judges]
primary = false
secondary = false
tertiary = false
""",
    "typed": f"""
name = "typed"
test = "one_shot"
output = "results/typed"
repeats = 10
models = [{{ name = "epsilon", provider = "scripted", {PRICE}, replies = [
  '{_claim("intranet.example", "value", "host")}', '{_claim("evil.example", "value", "host")}',
  '{_claim(5, "count")}', '{_claim(4, "count")}', '{_claim("GET", "value", "method")}'] }}]
[options]
samples = ["plain_gets"]
only = ["plain_gets_host", "plain_gets_requests"]
""",
}
FILES = [Path(__file__).with_name(name) for name in ("questions.toml", "rubric_v2.toml")]
"""Questions of the study in free text, and the rubric that was the default when the numbers were frozen."""


def write_studies(folder):
    """Write the study files and return their paths by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in STUDIES.items():
        (folder / f"{name}.toml").write_text(text)
    for file in FILES:
        shutil.copy(file, folder)
    return {name: folder / f"{name}.toml" for name in STUDIES}


def write_ratings(path, run_ids):
    """Write what two people gave some runs, as the same numbers at each call."""
    with path.open("w", newline="") as sink:
        rows = csv.writer(sink)
        rows.writerow(["run_id", "rater", "dimension", "score"])
        for place, run_id in enumerate(run_ids):
            for rater, shift in (("anna", 0.0), ("ben", 0.5)):
                rows.writerow([run_id, rater, "technical_accuracy", 2 + (place * 7 % 5) / 2 + shift])
                rows.writerow([run_id, rater, "clarity", 1.5 + (place * 3 % 6) / 2])
    return path
