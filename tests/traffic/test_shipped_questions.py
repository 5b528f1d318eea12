"""Every key of the shipped questions is what the sample holds, computed again by other means than a person's eyes."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pytest

import toolkit.traffic
from toolkit.traffic.questions import answer_key, load_prompts, load_questions, matches
from toolkit.traffic.sample import load_sample, shipped_samples

DATA: Final = Path(toolkit.traffic.__file__).parent
QUESTIONS: Final[list[dict[str, Any]]] = tomllib.loads((DATA / "questions.toml").read_text())["question"]
BY_ID: Final = {question["id"]: question for question in QUESTIONS}


@cache
def frame(sample: str) -> pd.DataFrame:
    return load_sample(sample).frame


def requests(f: pd.DataFrame) -> pd.DataFrame:
    return f[f.method.notna()]


def pairs(f: pd.DataFrame) -> pd.DataFrame:
    """Return one row a request, with the status and the time of the response that follows in its stream."""
    rows = []
    for _, stream in f.groupby("stream"):
        asked, answered = requests(stream), stream[stream.status.notna()]
        assert len(asked) == len(answered)
        assert (answered.number.to_numpy() > asked.number.to_numpy()).all()
        rows.append(asked.assign(status=answered.status.to_numpy(), answered=answered.time.to_numpy()))
    return pd.concat(rows).sort_values("number")


def after_302(f: pd.DataFrame) -> str:
    redirect = f.loc[f.status == 302, "number"].item()
    return requests(f)[lambda r: r.number > redirect].uri.iloc[0]


def sql(f: pd.DataFrame) -> pd.DataFrame:
    return f[f.uri.str.contains("%27", na=False)]


ANSWERS: Final[dict[str, Callable[[pd.DataFrame], Any]]] = {
    "plain_gets_host": lambda f: only(f.host),
    "plain_gets_requests": lambda f: len(requests(f)),
    "plain_gets_uris": lambda f: set(f.uri.dropna()),
    "plain_gets_curl": lambda f: only(f[f.user_agent.str.startswith("curl", na=False)].uri),
    "plain_gets_streams": lambda f: f.stream.nunique(),
    "plain_gets_last_type": lambda f: f[f.status.notna()].content_type.iloc[-1],
    "login_post_posts": lambda f: int((f.method == "POST").sum()),
    "login_post_refused": lambda f: pairs(f)[lambda p: p.method == "POST"].status.iloc[0],
    "login_post_after_redirect": after_302,
    "login_post_statuses": lambda f: set(f.status.dropna()),
    "login_post_form_type": lambda f: only(f[f.method == "POST"].content_type),
    "login_post_seconds_between": lambda f: f[f.method == "POST"].time.diff().iloc[-1],
    "redirects_and_404s_not_found": lambda f: int((f.status == 404).sum()),
    "redirects_and_404s_missing_uris": lambda f: set(pairs(f)[lambda p: p.status == 404].uri),
    "redirects_and_404s_root": lambda f: pairs(f)[lambda p: p.uri == "/"].status.item(),
    "redirects_and_404s_statuses": lambda f: set(f.status.dropna()),
    "redirects_and_404s_after_302": after_302,
    "redirects_and_404s_second_port": lambda f: only(requests(f[f.stream == 1]).source_port),
    "slow_download_uri": lambda f: only(f.uri),
    "slow_download_agent": lambda f: only(f.user_agent),
    "slow_download_full_segments": lambda f: int((f.payload_length == 1460).sum()),
    "slow_download_seconds": lambda f: (pairs(f).answered - pairs(f).time).item(),
    "slow_download_bytes": lambda f: f[f.source_port == 80].payload_length.sum(),
    "slow_download_server": lambda f: only(f[f.source_port == 80].source),
    "sql_injection_attacker": lambda f: only(sql(f).source),
    "sql_injection_parameter": lambda f: only(sql(f).uri.str.extract(r"\?(\w+)=", expand=False)),
    "sql_injection_union": lambda f: only(f[f.uri.str.contains("UNION", na=False)].uri),
    "sql_injection_error": lambda f: pairs(f)[lambda p: p.status == 500].uri.item(),
    "sql_injection_agent": lambda f: only(f[f.source == "203.0.113.66"].user_agent),
    "sql_injection_answered": lambda f: len(pairs(f).query("source == '203.0.113.66' and status == 200")),
    "beaconing_host": lambda f: f.host.value_counts().idxmax(),
    "beaconing_agent": lambda f: only(f[f.host == "updates.example"].user_agent),
    "beaconing_polls": lambda f: int((f.host == "updates.example").sum()),
    "beaconing_interval": lambda f: float(f.loc[f.host == "updates.example", "time"].diff().mean()),
    "beaconing_other_uris": lambda f: set(f[f.host == "intranet.example"].uri),
    "beaconing_order": lambda f: pairs(f).query("host == 'updates.example' and status == 200").uri.item(),
}
"""The answer to each question that no judge is needed for."""


def only(column: pd.Series[Any]) -> Any:
    """Return the one value a column has; that there is one only is what makes a question unambiguous."""
    (value,) = column.dropna().unique()
    return value


def test_questions_with_a_key_and_answers_are_the_same_and_no_id_is_twice() -> None:
    assert [question.id for question in load_questions()] == [question["id"] for question in QUESTIONS]
    assert len(BY_ID) == len(QUESTIONS) >= 24
    assert set(Counter(question["sample"] for question in QUESTIONS)) == set(shipped_samples())
    kinds = Counter(question["key"]["kind"] for question in QUESTIONS)
    assert set(kinds) == {"exact", "number", "set", "regex", "json", "judge"}
    assert kinds["judge"] == 2
    assert {q["id"] for q in QUESTIONS if q["key"]["kind"] != "judge"} == set(ANSWERS)


@pytest.mark.parametrize("question", QUESTIONS, ids=list(BY_ID))
def test_a_question_begins_with_its_sample_and_names_the_field_of_its_answer(
    question: dict[str, Any],
) -> None:
    assert question["id"].startswith(f"{question['sample']}_")
    assert f'field "{question["key"].get("field")}"' in question["text"] or question["key"]["kind"] != "json"


@pytest.mark.parametrize(
    "name", [name for name, q in BY_ID.items() if q["key"]["kind"] != "regex" and name in ANSWERS]
)
def test_a_key_is_what_the_sample_holds(name: str) -> None:
    question, key = BY_ID[name], BY_ID[name]["key"]
    answer = ANSWERS[name](frame(question["sample"]))
    if key["kind"] == "set":
        assert len(set(key["value"])) == len(key["value"])
        assert set(key["value"]) == answer
    elif "tolerance" in key:
        assert key["value"] == pytest.approx(answer, abs=0.02)
        assert "rounded to one decimal place" in question["text"]
        assert round(answer, 1) == pytest.approx(key["value"], abs=key["tolerance"])
    else:
        assert key["value"] == answer


def test_a_pattern_fits_the_answer_and_no_other_text_of_the_sample() -> None:
    for question in (q for q in QUESTIONS if q["key"]["kind"] == "regex"):
        everything = frame(question["sample"])
        answer = ANSWERS[question["id"]](everything)
        pattern = re.compile(question["key"]["value"])
        assert pattern.search(answer)
        assert pattern.search(f"`{answer}`")
        columns = ("uri", "host", "source", "user_agent", "method")
        texts = {text for column in columns for text in everything[column].dropna()}
        names = {name for uri in everything.uri.dropna() for name in re.findall(r"[\w.%/]+", uri)}
        assert not [text for text in (texts | names) - {answer} if pattern.search(text)]


def test_what_a_judge_looks_for_stands_in_the_sample() -> None:
    for question in (q for q in QUESTIONS if q["key"]["kind"] == "judge"):
        held = load_sample(question["sample"]).csv
        facts = r"\d+(?:\.\d+){3}|[\w-]+\.example|\w+-agent/[\d.]+|/products\b|\b[2-5]\d\d\b"
        named = re.findall(facts, question["key"]["value"])
        assert len(named) >= 3
        assert not [fact for fact in named if fact not in held]


def reply(question: dict[str, Any]) -> str:
    answer = ANSWERS[question["id"]](frame(question["sample"]))
    key = question["key"]
    if key["kind"] == "set":
        return json.dumps(sorted(one if isinstance(one, str) else int(one) for one in answer))
    if key["kind"] == "json":
        return json.dumps({key["field"]: answer if isinstance(answer, str) else int(answer)})
    return str(round(answer, 1) if "tolerance" in key else answer)


@pytest.mark.parametrize("name", list(ANSWERS))
def test_a_key_takes_the_true_answer_and_no_answer_to_another_question_of_the_sample(name: str) -> None:
    question = BY_ID[name]
    key = answer_key(question["key"])
    own = reply(question)
    assert matches(key, own, question["text"]).matched is True
    others = {reply(q) for q in QUESTIONS if q["sample"] == question["sample"] and q["id"] in ANSWERS} - {own}
    assert len(others) >= 4
    assert not [other for other in others if matches(key, other, question["text"]).matched is not False]


def test_the_two_prompts_hold_the_question_and_the_sample_once() -> None:
    variants = load_prompts()
    assert [variant.id for variant in variants] == ["plain", "careful"]
    for variant in variants:
        assert sorted(re.findall(r"[{][^}]*[}]", variant.text)) == ["{csv}", "{question}"]
