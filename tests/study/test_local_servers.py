"""The study files for Ollama and vLLM, whole, against loopback servers that answer as these two do.

Shapes: Ollama's openai/openai.go (what it takes and answers), vLLM's "Reasoning Outputs" and the errors that its users
report (vllm-project/vllm, issue 20409). Nothing of the shipped files is changed but the addresses, that of
Ollama by OLLAMA_HOST.
"""

import os
import re
from contextlib import contextmanager
from unittest.mock import patch

from cases import cases
from places import TEMPLATES
from stub_server import Fault, StubServer
from stub_study import REASONED

from toolkit.audit.verify import verify_study
from toolkit.runs.estimate import estimate_summary
from toolkit.store import embedded
from toolkit.study import Study

SECRET = "The attacker is the auditor"
OLLAMA_TAKES = {*cases(__file__)["ollama_takes"]}


def reply_to(body):
    """Return the scores of a judge, or a reply of its own to each prompt."""
    prompt = body["messages"][-1]["content"]
    return (
        REASONED
        if body["model"].startswith(("gemma", "google/gemma"))
        else f"Isolate the host. {prompt[-60:]}"
    )


@contextmanager
def opened(name, folder, addresses, **variables):
    """Open a shipped study file with other addresses, in it or in the environment."""
    text = (TEMPLATES / f"{name}.toml").read_text(encoding="utf-8")
    for shipped, address in addresses.items():
        assert shipped in text
        text = text.replace(shipped, address)
    path = folder / "templates" / f"{name}.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    try:
        with patch.dict(os.environ, variables), Study.load(path) as study:
            yield study
    finally:
        embedded.stop(folder / "results" / ".store")


def tokens_of(text):
    """Return the tokens of a text as these stubs count them."""
    return len(text.split())


def has_results(study, judge):
    """One judge, named alone: its scores are results, and only what is about several judges cannot be told."""
    status = study.status()
    assert (status["spent_aud"], status["runs"]["succeeded"], status["judgements"]["scored"]) == (0.0, 30, 30)
    assert study.runs()["judged"].all()
    assert study.compare_models().differences[0].estimate is not None
    questions = study.questions().set_index("analysis")
    assert questions.loc[["length", "compare_models", "missing"], "answerable"].all()
    assert not questions.loc["reliability", "answerable"]
    assert questions.loc["reliability", "why_not"] == f"one judge ({judge}): not estimable"
    assert any(f"one judge ({judge})" in sentence for sentence in study.findings().sentences())
    assert verify_study(study).fields["differences"] == []


def test_the_study_of_ollama_runs_as_it_is(tmp_path):
    """Thoughts beside the reply and in it are no part of it; nothing is sent that Ollama ignores; nothing costs."""

    def shaped(reply):
        choice = reply["choices"][0]
        text = choice["message"]["content"]
        message = {"role": "assistant", "content": text}
        if reply["model"] == "qwen3:8b":
            message["reasoning"] = f"{SECRET}. Really?\n"
        elif reply["model"] == "gpt-oss:20b":  # a model that Ollama has no parser for
            message["content"] = f"<think>\n{SECRET}\n</think>\n\n{text}"
        words = tokens_of(message["content"]) + tokens_of(message.get("reasoning", ""))
        usage = {"prompt_tokens": 400, "completion_tokens": 2 * words, "total_tokens": 400 + 2 * words}
        return {
            **reply,
            "system_fingerprint": "fp_ollama",
            "usage": usage,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        }

    def absent(number, body):
        words = f'model "{body["model"]}" not found, try pulling it first'
        error = {"message": words, "type": "not_found_error", "param": None, "code": None}
        return None if body["model"] in pulled else Fault(status=404, body={"error": error})

    pulled = {"qwen3:8b", "gpt-oss:20b"}
    with (
        StubServer(answer=reply_to, change=shaped, faults=absent) as server,
        opened("ollama", tmp_path, {}, OLLAMA_HOST=server.url) as study,
    ):
        assert f"ollama/qwen3:8b is asked at {server.openai_url}" in estimate_summary(study.estimate()).text
        assert study.estimate().attrs["contexts"] == {}
        study.execute(progress=False)
        assert study.status()["runs"]["succeeded"] == 30
        assert study.status()["judgements"]["scored"] == 0
        assert re.search("404|not_found", str(study.status()["judgement_failures"]))
        pulled.add("gemma3:12b")
        study.execute(progress=False)
        has_results(study, "ollama/gemma3:12b")
        assert set().union(*(call.body for call in server.seen)) <= OLLAMA_TAKES
        judges = [call.body for call in server.seen if call.body["model"] == "gemma3:12b"]
        assert not any(SECRET in str(body) for body in judges)
        assert all(body["response_format"]["type"] == "json_schema" for body in judges)
        replies = study.runs(replies=True)
        assert replies["reply"].str.startswith("Isolate the host.").all()
        assert not replies["reply"].str.contains(SECRET).any()
        assert {c.body.get("reasoning_effort") for c in server.seen if c.body["model"] == "gpt-oss:20b"} == {
            "low"
        }
        assert set(replies["model"]) == {"ollama/qwen3:8b", "ollama/gpt-oss:20b (low)"}


def test_the_study_of_vllm_runs_as_it_is(tmp_path):
    """With thoughts and without is two methods; what does not fit is a failed run, and asked again when it does."""
    context = [1100]

    def thinks(body):
        return body.get("chat_template_kwargs", {}).get("enable_thinking", True)

    def shaped(reply):
        body, text = models.seen[-1].body, reply["choices"][0]["message"]["content"]
        message = {"role": "assistant", "content": text, "refusal": None, "tool_calls": []}
        # As it is named since v0.11, and before.
        field = "reasoning" if models.count % 2 else "reasoning_content"
        message[field] = f"{SECRET}." if thinks(body) else None
        words = tokens_of(text) + tokens_of(message[field] or "")
        usage = {"prompt_tokens": 400, "completion_tokens": 2 * words, "total_tokens": 400 + 2 * words}
        choice = {"index": 0, "message": message, "finish_reason": "stop"} | dict.fromkeys(
            ("logprobs", "stop_reason")
        )
        usage["prompt_tokens_details"] = None
        return reply | {"choices": [choice], "usage": usage, "prompt_logprobs": None}

    def too_long(number, body):
        asked = tokens_of(str(body["messages"]))
        if asked + 600 <= context[0]:
            return None
        words = (
            f"This model's maximum context length is {context[0]} tokens. However, you requested {asked + 600} tokens "
            f"({asked} in the messages, 600 in the completion). Please reduce the length of the messages or completion."
        )
        error = {"message": words, "type": "BadRequestError", "param": None, "code": 400}
        return Fault(status=400, body={"error": error} if number % 2 else {"object": "error", **error})

    with (
        StubServer(answer=reply_to, change=shaped, faults=too_long) as models,
        StubServer(answer=reply_to) as judge,
        opened(
            "vllm",
            tmp_path,
            {"http://127.0.0.1:8000/v1": models.openai_url, "http://127.0.0.1:8001/v1": judge.openai_url},
        ) as study,
    ):
        study.execute(progress=False)
        status = study.status()
        failed = status["runs"]["failed"]
        assert 0 < failed < 30
        assert sum(status["failures"].values()) == failed
        runs = study.runs()
        (said,) = {re.sub(r"\d+", "N", text) for text in runs.loc[runs["status"] == "failed", "failure"]}
        assert "maximum context length is N tokens" in said
        assert set(runs.loc[runs["status"] == "failed", "level"]) == {"L"}
        asked = models.count
        context[0] = 10_000
        study.execute(progress=False)
        assert models.count == asked + failed
        has_results(study, "gemma3-12b")
        runs = study.runs(replies=True)
        assert set(runs["model"]) == {"qwen3-8b-thinking", "qwen3-8b-plain"}
        assert not runs["reply"].str.contains(SECRET).any()
        assert not any(SECRET in str(call.body) for call in judge.seen)
        calls = study.calls(purpose="run").groupby("model", observed=True)["output_tokens"].mean()
        assert calls["qwen3-8b-thinking"] > calls["qwen3-8b-plain"]
        assert sum(not thinks(call.body) for call in models.seen) == models.count // 2
