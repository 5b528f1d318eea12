"""Every model of the catalogue asked as a study asks it, by a stub that refuses what its provider documents as refused.

What each refuses is written here from the providers' documentation, and not read from the catalogue. The same stub
answers in the provider's shape, with thoughts where its models have some.
"""

import asyncio
import re
from functools import partial

import pytest
from cases import cases
from refusals import failed
from stub_server import Fault, StubServer, ask

from toolkit.models.catalogue import PROVIDERS, model_names, model_spec
from toolkit.models.registry import open_model
from toolkit.models.thoughts import written_in
from toolkit.plan import make_plan
from toolkit.runs.run_state import score_requests
from toolkit.study_file import load_study_file
from toolkit.words import JUDGE_ROLES

THOUGHT, ANSWER = "The attacker is the auditor.", "Isolate the host."
SAMPLING = ("temperature", "top_p", "top_k")
CHAT = {
    "model",
    "messages",
    "temperature",
    "top_p",
    "stream",
    "stop",
    "n",
    "response_format",
    "tools",
    "tool_choice",
}
CHAT |= {"frequency_penalty", "presence_penalty"}


def unknown(body, allowed):
    """Return the first field that a provider does not know."""
    return next((name for name in body if name not in allowed), None)


def openai(body):
    """Refuse as gpt-6 does: developers.openai.com/api/docs/guides/latest-model, and its models' pages."""

    def refused(name, words, code="unsupported_parameter"):
        error = {"message": words, "type": "invalid_request_error", "param": name, "code": code}
        return Fault(status=400, body={"error": error})

    allowed = CHAT | {
        "max_completion_tokens",
        "seed",
        "logprobs",
        "top_logprobs",
        "reasoning_effort",
        "verbosity",
    }
    if "max_tokens" in body:
        return refused("max_tokens", "Unsupported parameter: use 'max_completion_tokens' instead.")
    if name := unknown(body, allowed | {"service_tier"}):
        return refused(name, f"Unknown parameter: '{name}'.", "unknown_parameter")
    model, effort = body["model"], body.get("reasoning_effort")
    if not model.startswith("gpt-6"):
        chat_only = ("reasoning_effort", "verbosity")
        return next((refused(n, f"Unrecognized request argument: {n}") for n in chat_only if n in body), None)
    # Chat completions of 6.1 Sol end at xhigh (docs.laozhang.ai, 2026-11-04).
    efforts = {"low", "medium", "high", "xhigh", "max"} - ({"max"} if model == "gpt-6.1-sol" else set())
    efforts |= {"none"} if model in ("gpt-6-luna", "gpt-6-sol", "gpt-6.1-terra") else set()
    if effort is not None and effort not in efforts:
        return refused("reasoning_effort", f"Unsupported value: '{effort}'.", "unsupported_value")
    for name in (*SAMPLING, "logprobs", "top_logprobs"):
        if effort != "none" and name in body:
            return refused(name, f"Unsupported value: '{name}' does not support this.", "unsupported_value")
    return refused("seed", "Unsupported parameter: 'seed'.") if "seed" in body else None


def anthropic(body):
    """Refuse as Claude does: platform.claude.com/docs/en/about-claude/models/migration-guide."""

    def refused(words):
        return Fault(
            status=400, body={"type": "error", "error": {"type": "invalid_request_error", "message": words}}
        )

    allowed = {
        "model",
        "messages",
        "max_tokens",
        "system",
        "output_config",
        "thinking",
        "stop_sequences",
        *SAMPLING,
    }
    if "max_tokens" not in body:
        return refused("max_tokens: Field required")
    if name := unknown(body, allowed):
        return refused(f"{name}: Extra inputs are not permitted")
    if any(message["role"] == "system" for message in body["messages"]):
        return refused('messages: Unexpected role "system"')
    new = "-5-" in body["model"] and "haiku-4" not in body["model"] and "-3-" not in body["model"]
    if new and (name := next((name for name in SAMPLING if name in body), None)):
        return refused(f"`{name}` is deprecated for this model.")
    if "-4-5" in body["model"] and {"temperature", "top_p"} <= set(body):
        return refused(
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        )
    config = body.get("output_config", {})
    if not new and "effort" in config:
        return refused("This model does not support the effort parameter.")
    if config.get("effort", "low") not in ("low", "medium", "high", "xhigh", "max"):
        return refused("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
    if "claude-3" in body["model"] and "format" in config:
        return refused("output_format: this model does not support structured outputs")
    return None


def google(body):
    """Refuse as Google's compatible endpoint does: ai.google.dev/gemini-api/docs/openai; it answers a list."""

    def refused(words):
        return Fault(
            status=400, body=[{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}]
        )

    allowed = (CHAT - {"frequency_penalty", "presence_penalty"}) | {"max_tokens", "max_completion_tokens"}
    allowed |= {"reasoning_effort", "extra_body"}
    if name := unknown(body, allowed):
        return refused(f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.')
    config = body.get("extra_body", {}).get("google", {}).get("thinking_config", {})
    if name := unknown(config, {"thinking_level", "include_thoughts"}):
        return refused(f"{name} is not supported for this model. Use thinking level instead.")
    if "thinking_level" in config and "reasoning_effort" in body:
        return refused("reasoning_effort and thinking_level cannot be used at the same time")
    levels = {"low", "medium", "high"} | ({"xhigh"} if body["model"] == "gemini-4-hydrogen" else set())
    for level in (body.get("reasoning_effort"), config.get("thinking_level")):
        if level is not None and level not in levels:
            return refused(f"Thinking level {level} is not supported for this model.")
    if any(name in body for name in SAMPLING):  # strictest: they are ignored, and a study would report them
        return refused("temperature, top_p and top_k have no effect")
    return None


def mistral(body):
    """Refuse as Mistral does: docs.mistral.ai/api; 422 to every field that it does not know."""

    def refused(name, words="Extra inputs are not permitted"):
        detail = {"detail": [{"type": "extra_forbidden", "loc": ["body", name], "msg": words, "input": 0}]}
        return Fault(status=422, body={"object": "error", "message": detail, "type": "invalid_request_error"})

    allowed = CHAT | {"max_tokens", "random_seed", "safe_prompt", "prompt_mode", "reasoning_effort"}
    if name := unknown(body, allowed):
        return refused(name)
    if extra := [name for message in body["messages"] for name in message if name not in ("role", "content")]:
        return refused(extra[0])
    if body.get("temperature", 0) > 1.5:
        return refused("temperature", "Input should be less than or equal to 1.5")
    adjustable = {"mistral-small-2603": ("none", "high"), "mistral-medium-3-5": ("none", "high")}
    efforts = adjustable.get(
        body["model"], ("low", "medium", "high") if body["model"] == "mistral-large-4-0" else ()
    )
    if (effort := body.get("reasoning_effort")) is not None and effort not in efforts:
        return refused("reasoning_effort", "reasoning_effort is not supported for this model")
    return None


def groq(body):
    """Refuse as Groq does: console.groq.com/docs/openai and /docs/reasoning."""

    def refused(words):
        return Fault(status=400, body={"error": {"message": words, "type": "invalid_request_error"}})

    for name in ("logprobs", "top_logprobs", "logit_bias"):
        if name in body:
            return refused(f"property '{name}' is unsupported")
    allowed = CHAT | {"max_completion_tokens", "max_tokens", "seed", "reasoning_effort", "reasoning_format"}
    if name := unknown(body, allowed | {"include_reasoning", "service_tier"}):
        return refused(f"property '{name}' is unsupported")
    if body.get("n", 1) != 1 or any("name" in message for message in body["messages"]):
        return refused("n must be 1, and messages have no name")
    known = {"openai": ("low", "medium", "high"), "qwen": ("none", "default")}
    efforts = known.get(body["model"].partition("/")[0], ())
    if (effort := body.get("reasoning_effort")) is not None and effort not in efforts:
        return refused(f"`reasoning_effort` must be one of {', '.join(efforts)}")
    if "reasoning_format" in body and "include_reasoning" in body:
        return refused("reasoning_format and include_reasoning are mutually exclusive")
    if body.get("reasoning_format") == "raw" and "response_format" in body:
        return refused("reasoning_format raw is not supported with JSON mode")
    return None


def compatible(body, more=frozenset()):
    """Refuse what old compatible servers do not know: all that came to the chat API after its first year."""
    name = unknown(body, {"model", "messages", "max_tokens", "temperature", "top_p", "seed", *more})
    return (
        Fault(status=400, body={"object": "error", "message": f"{name}: extra", "code": 400})
        if name
        else None
    )


def shaped(provider):
    """Return how a provider answers: where its thoughts are, and its usage."""

    def change(reply):
        if provider == "anthropic":
            thinking = {"type": "thinking", "thinking": THOUGHT, "signature": "c2ln"}
            return {**reply, "content": [thinking, *reply["content"]], "stop_sequence": None}
        message = reply["choices"][0]["message"]
        details = {"completion_tokens_details": {"reasoning_tokens": 1}}
        if provider == "openai":
            message |= {"refusal": None, "annotations": []}
            return {**reply, "service_tier": "default", "usage": reply["usage"] | details}
        if provider == "google":
            message |= {"extra_content": {"google": {"thought_signature": "c2ln"}}}
        elif provider == "mistral":
            thinking = {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}
            message["content"] = [thinking, {"type": "text", "text": message["content"]}]
        elif provider == "groq":
            message["reasoning"] = THOUGHT
            return {
                **reply,
                "x_groq": {"id": "req_1"},
                "usage": reply["usage"] | details | {"total_time": 0.1},
            }
        else:
            message["reasoning_content"] = THOUGHT
        return reply

    return change


PROVIDED = {"openai": openai, "anthropic": anthropic, "google": google, "mistral": mistral, "groq": groq}
OTHERS = {
    "compatible": compatible,
    "openrouter": compatible,
    "ollama": partial(compatible, more={"response_format"}),
}
ASKED = PROVIDED | OTHERS
WITHOUT_THE_CATALOGUE = cases(__file__)["without_the_catalogue"]
"""What a study would be refused for if the catalogue did not know better."""


def entries(provider, url):
    """Return every model of a provider as a study may name it: at each of its efforts, and without one."""
    if provider in OTHERS:
        return [{"name": f"{provider}/mine", "base_url": url}]
    names = [name for name in model_names() if model_spec(name).provider == provider]
    keys = ("reasoning_effort", "thinking_level")[: 1 + (provider == "google")]
    return [
        {"name": name, "base_url": url, **more}
        for name in names
        for more in ({}, *({key: effort} for key in keys for effort in model_spec(name).efforts))
    ]


def asked(folder, chosen):
    """Yield a request of a study to each of up to three models, and one to each as a judge with everything on."""
    price = "usd_per_million_input = 1.0, usd_per_million_output = 1.0"
    tables = [
        "{ " + ", ".join([*(f'{name} = "{value}"' for name, value in entry.items()), price]) + " }"
        for entry in chosen
    ]
    judges = [
        f"{role} = {tables[at] if at < len(tables) else 'false'}" for at, role in enumerate(JUDGE_ROLES)
    ]
    path = folder / "study.toml"
    path.write_text(
        f'name = "s"\nbases = 1\nlength_bins = ["S"]\nscenarios = ["CTI_ANALYSIS"]\nmodels = [{", ".join(tables)}]\n'
        f"[sampling]\ntop_p = 1.0\n[judges]\nexpected_scores = true\n{chr(10).join(judges)}\n"
    )
    plan = make_plan(load_study_file(path)[0], folder)
    for run in plan.runs:
        yield plan.models[run.model], run.request
    for role, spec in plan.judge_models.items():
        for request in score_requests(plan, plan.judges[role], run.prompt, "Reply."):
            yield spec, request


@pytest.mark.parametrize("provider", ASKED)
def test_no_model_of_the_catalogue_is_asked_for_what_its_provider_refuses(provider, tmp_path):
    """Under test and as a judge, at every effort; the reply is read in the provider's shape, without its thoughts."""

    async def ask_all():
        rows = entries(provider, url)
        requests = [pair for at in range(0, len(rows), 3) for pair in asked(tmp_path, rows[at : at + 3])]
        model = open_model(requests[0][0], env={})
        try:
            for spec, request in requests:
                model.spec = spec  # one client for all of them: to open one takes longer than everything else
                reply = await model.ask(request)
                assert reply.text == ANSWER
                assert provider in ("openai", "google") or written_in(reply.raw).thoughts == [THOUGHT]
                assert reply.usage.output > 0
        finally:
            await model.close()
        assert {spec.name for spec, _ in requests} == {row["name"] for row in rows}
        return len(requests)

    with StubServer(
        faults=lambda _, body: ASKED[provider](body), answer=lambda body: ANSWER, change=shaped(provider)
    ) as server:
        url = server.address(provider)
        assert asyncio.run(ask_all()) == server.count >= 2


@pytest.mark.parametrize("provider", WITHOUT_THE_CATALOGUE)
def test_the_stub_refuses_what_the_catalogue_keeps_back(provider, make_request):
    """So that the test above would see it."""
    with StubServer(faults=lambda _, body: ASKED[provider](body)) as server:
        url = server.address(provider)
        spec = model_spec(**WITHOUT_THE_CATALOGUE[provider], base_url=url)
        request = make_request(
            provider=provider, model=spec.model, temperature=0.2 if spec.takes_sampling else None,
            seed=1 if spec.seed_supported and provider != "compatible" else None, top_logprobs=5,
            response_schema='{"type": "object", "properties": {"a": {"type": "string"}}}',
        )  # fmt: skip

        assert re.search(r"40\d|422", str(failed(ask, spec, request)))
        assert server.count == 1


def test_every_provider_is_asked():
    """But those that are no servers of others."""
    assert set(ASKED) == set(PROVIDERS) - {"local", "scripted"}
