"""Every expected value of the shipped questions is calculated again from the CSV with pandas alone."""

import re
from collections import Counter
from functools import cache
from typing import get_args

import pandas as pd
import pytest

from toolkit.traffic.measures import Table, Type, canonical
from toolkit.traffic.questions import SHIPPED_PROMPTS, load_questions
from toolkit.traffic.sample import load_sample, shipped_samples

QUESTIONS = {question.id: question for question in load_questions()}


@cache
def frame(sample):
    return load_sample(sample).frame


def requests(f):
    return f[f.method.notna()]


def pairs(f):
    """Return one row a request, with the status and the time of the response that follows in its stream."""
    rows = []
    for _, stream in f.groupby("stream"):
        asked, answered = requests(stream), stream[stream.status.notna()]
        assert len(asked) == len(answered)
        assert (answered.number.to_numpy() > asked.number.to_numpy()).all()
        rows.append(asked.assign(status=answered.status.to_numpy(), answered=answered.time.to_numpy()))
    return pd.concat(rows).sort_values("number")


def after(f, status):
    redirect = f.loc[f.status == status, "number"].item()
    return requests(f)[lambda r: r.number > redirect].uri.iloc[0]


def gap(f):
    return f.time.iloc[-1] - f.time.iloc[0]


def only(column):
    """Return the one value a column has; that there is one only is what makes a question unambiguous."""
    (value,) = column.dropna().unique()
    return value


SQL = r"%27"
SERVER = "198.51.100.40"
ANSWERS = {
    "plain_gets_host": lambda f: only(f.host),
    "plain_gets_requests": lambda f: len(requests(f)),
    "plain_gets_uris": lambda f: set(f.uri.dropna()),
    "plain_gets_curl": lambda f: only(f[f.user_agent.str.startswith("curl", na=False)].uri),
    "plain_gets_streams": lambda f: f.stream.nunique(),
    "plain_gets_last_type": lambda f: f[f.status.notna()].content_type.iloc[-1],
    "plain_gets_health_port": lambda f: only(f[f.uri == "/health"].source_port),
    "plain_gets_curl_share": lambda f: f.user_agent.dropna().str.startswith("curl").mean(),
    "plain_gets_flow": lambda f: [list(f.uri.dropna()), f.status.value_counts()[200], set(f.user_agent.dropna())],
    "login_post_posts": lambda f: (f.method == "POST").sum(),
    "login_post_refused": lambda f: pairs(f)[lambda p: p.method == "POST"].status.iloc[0],
    "login_post_after_redirect": lambda f: after(f, 302),
    "login_post_statuses": lambda f: set(f.status.dropna()),
    "login_post_form_type": lambda f: only(f[f.method == "POST"].content_type),
    "login_post_seconds_between": lambda f: f[f.method == "POST"].time.diff().iloc[-1],
    "login_post_status_order": lambda f: list(f.status.dropna()),
    "login_post_form_method": lambda f: only(f[f.content_type.str.endswith("urlencoded", na=False)].method),
    "login_post_redirected": lambda f: (pairs(f)[lambda p: p.method == "POST"].status == 302).any(),
    "login_post_flow": lambda f: [(f.method == "POST").sum(), list(pairs(f)[lambda p: p.method == "POST"].status),
        after(f, 302)],
    "redirects_and_404s_not_found": lambda f: (f.status == 404).sum(),
    "redirects_and_404s_missing_uris": lambda f: set(pairs(f)[lambda p: p.status == 404].uri),
    "redirects_and_404s_root": lambda f: pairs(f)[lambda p: p.uri == "/"].status.item(),
    "redirects_and_404s_statuses": lambda f: set(f.status.dropna()),
    "redirects_and_404s_after_302": lambda f: after(f, 302),
    "redirects_and_404s_second_port": lambda f: only(requests(f[f.stream == 1]).source_port),
    "redirects_and_404s_missing_share": lambda f: (f.status.dropna() == 404).mean(),
    "redirects_and_404s_second_begins": lambda f: f[f.stream == 1].time.min(),
    "redirects_and_404s_server_error": lambda f: (f.status // 100 == 5).any(),
    "redirects_and_404s_flow": lambda f: [list(f.uri.dropna()), list(f.status.dropna()),
        len(requests(f[f.stream == 1]))],
    "slow_download_uri": lambda f: only(f.uri),
    "slow_download_agent": lambda f: only(f.user_agent),
    "slow_download_full_segments": lambda f: (f.payload_length == 1460).sum(),
    "slow_download_seconds": lambda f: (pairs(f).answered - pairs(f).time).item(),
    "slow_download_bytes": lambda f: f[f.source_port == 80].payload_length.sum(),
    "slow_download_server": lambda f: only(f[f.source_port == 80].source),
    "slow_download_handshake": lambda f: list(f.tcp_flags.head(3)),
    "slow_download_mean_length": lambda f: f[f.source == SERVER].length.mean(),
    "slow_download_closes": lambda f: {80: "server"}.get(
        f[f.tcp_flags.str.contains("FIN")].source_port.iloc[0], "client"
    ),
    "slow_download_flow": lambda f: [(f.source == SERVER).sum(), f[f.source == SERVER].payload_length.sum(), gap(f)],
    "sql_injection_attacker": lambda f: only(f[f.uri.str.contains(SQL, na=False)].source),
    "sql_injection_parameter": lambda f: only(f.uri[f.uri.str.contains(SQL, na=False)].str.extract(r"\?(\w+)=",
        expand=False)),
    "sql_injection_union": lambda f: only(f[f.uri.str.contains("UNION", na=False)].uri),
    "sql_injection_error": lambda f: pairs(f)[lambda p: p.status == 500].uri.item(),
    "sql_injection_agent": lambda f: only(f[f.source == "203.0.113.66"].user_agent),
    "sql_injection_answered": lambda f: len(pairs(f).query("source == '203.0.113.66' and status == 200")),
    "sql_injection_customer_error": lambda f: bool(len(pairs(f).query("source == '192.0.2.23' and status == 500"))),
    "sql_injection_attack_seconds": lambda f: gap(requests(f[f.source == "203.0.113.66"])),
    "sql_injection_suspicious": lambda f: [len(requests(f[f.source == "203.0.113.66"])),
        only(f[f.source == "203.0.113.66"].user_agent), list(pairs(f).query("source == '203.0.113.66'").status)],
    "beaconing_host": lambda f: f.host.value_counts().idxmax(),
    "beaconing_agent": lambda f: only(f[f.host == "updates.example"].user_agent),
    "beaconing_polls": lambda f: (f.host == "updates.example").sum(),
    "beaconing_interval": lambda f: f.loc[f.host == "updates.example", "time"].diff().mean(),
    "beaconing_other_uris": lambda f: set(f[f.host == "intranet.example"].uri),
    "beaconing_order": lambda f: pairs(f).query("host == 'updates.example' and status == 200").uri.item(),
    "beaconing_first_page": lambda f: f[f.host == "intranet.example"].time.min(),
    "beaconing_empty_share": lambda f: (f.status.dropna() == 204).mean(),
    "beaconing_page_method": lambda f: only(f[f.uri == "/phonebook"].method),
    "beaconing_suspicious": lambda f: [(f.host == "updates.example").sum(), f.loc[f.host == "updates.example",
        "time"].diff().mean(), only(f[f.host == "updates.example"].user_agent), (f.status == 204).sum()],
}  # fmt: skip
"""The answer to each question, of an open one the values of its claims."""


def same(value, oracle):
    if isinstance(oracle, list | set):
        members = [canonical(None, str(one)) for one in oracle]
        given = [canonical(None, one) for one in value]
        return (
            given == members
            if isinstance(oracle, list)
            else (set(given) == set(members) and len(given) == len(members))
        )
    if isinstance(oracle, str):
        return bool(value == oracle)
    return float(value) == pytest.approx(float(oracle), abs=1e-9)


def test_there_are_questions_of_every_type_over_every_sample_and_an_oracle_for_each():
    unknown = [question for question in QUESTIONS.values() if question.answer and not question.answer.known]
    assert set(QUESTIONS) == {*ANSWERS, *(question.id for question in unknown)}
    assert {question.answer.type for question in unknown} == {*get_args(Type)} - {"claims"}
    assert {question.sample for question in unknown} == set(shipped_samples())
    samples = Counter(question.sample for question in QUESTIONS.values())
    assert set(samples) == set(shipped_samples())
    assert min(samples.values()) >= 8
    types = Counter(question.answer.type for question in QUESTIONS.values() if question.answer)
    assert set(types) == set(get_args(Type))
    assert types["claims"] == len(samples)
    assert all(question.id.startswith(f"{question.sample}_") for question in QUESTIONS.values())


@pytest.mark.parametrize("name", list(ANSWERS))
def test_an_expected_value_is_what_the_sample_holds(name):
    question, f = QUESTIONS[name], frame(QUESTIONS[name].sample)
    answer, table = question.answer, Table(f)
    assert answer is not None
    oracle = ANSWERS[name](f)
    if answer.claims:
        assert len(answer.claims) == len(oracle) >= 3
        assert all(same(claim.of(table), value) for claim, value in zip(answer.claims, oracle, strict=True))
    else:
        assert same(answer.value_in(table), oracle)


def test_the_two_prompts_hold_the_question_and_the_sample_once():
    assert [*SHIPPED_PROMPTS] == ["plain", "careful"]
    plain, careful = SHIPPED_PROMPTS.values()
    care = (
        "Use only what the CSV holds."
        + careful.partition("Use only what the CSV holds.")[2].partition("\n\n")[0]
    )
    assert careful.replace(f"{care}\n\n", "") == plain
    for text in SHIPPED_PROMPTS.values():
        assert sorted(re.findall(r"[{][^}]*[}]", text)) == ["{csv}", "{question}"]
