"""A study that asks one stub server everything, and what its judges answer there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.words import DIMENSIONS, JUDGE_ROLES

if TYPE_CHECKING:
    from stub_server import StubServer

SCORES = "{" + ", ".join(f'"{name}": 4.0' for name in DIMENSIONS) + "}"
REASONED = '{"reasons": "Sound.", ' + SCORES[1:]


def stub_study(folder: Path, address: str, *, runs: str = "", bins: str = '["S", "M", "L"]') -> Path:
    """Write a study of the CTI prompts that asks one server everything, through the openai client."""
    price = "usd_per_million_input = 1.0, usd_per_million_output = 2.0"
    server = f'provider = "compatible", base_url = "{address}", {price}'
    judges = "\n".join(f'{role} = {{ name = "{role}", {server} }}' for role in JUDGE_ROLES)
    path = folder / "stub.toml"
    path.write_text(
        f'name = "stub"\noutput = "results/stub"\nscenarios = ["CTI_ANALYSIS"]\nlength_bins = {bins}\n{runs}\n'
        f'models = [{{ name = "answerer", {server} }}]\n[judges]\n{judges}\n'
    )
    return path


def is_judge(body: dict) -> bool:
    """Whether a request is to a judge."""
    return body["model"] in JUDGE_ROLES


def plain(body: dict) -> str:
    """Answer as a judge who gives four points, or as a model whose reply is its own for each prompt."""
    return REASONED if is_judge(body) else str(body["messages"])


def batch_study(folder: Path, server: StubServer, *, provider: str, settings: str = "") -> Path:
    """Write a study of the six CTI prompts and three judges, all asked through batches of one provider."""
    address = server.url if provider == "anthropic" else server.openai_url
    who = (
        f'provider = "{provider}", base_url = "{address}", api_key_env = "BATCH_KEY", '
        "usd_per_million_input = 1.0, usd_per_million_output = 2.0"
    )
    judges = "\n".join(f'{role} = {{ name = "{role}", {who} }}' for role in JUDGE_ROLES)
    path = folder / "batch.toml"
    path.write_text(
        f'name = "batch"\noutput = "results/batch"\nscenarios = ["CTI_ANALYSIS"]\nmode = "batch"\n'
        f'batch_poll_seconds = 0.05\n{settings}\nmodels = [{{ name = "answerer", {who} }}]\n[judges]\n{judges}\n'
    )
    return path
