"""A study that asks one stub server everything, and what its judges answer there."""

import json

from toolkit.words import DIMENSIONS, JUDGE_ROLES

SCORES = "{" + ", ".join(f'"{name}": 4.0' for name in DIMENSIONS) + "}"
REASONED = '{"reasons": "Sound.", ' + SCORES[1:]


def stub_study(
    folder, address, *, name = "stub", provider = "compatible", also = "",
    runs = "", bins = '["S", "M", "L"]', model = "", judges = "", more = "",
):  # fmt: skip
    """Write a study of the CTI prompts that asks one server everything, through a provider's client.

    ``runs`` are lines of the file, ``judges`` of its judges and ``more`` of tables after them; ``also`` is what each
    entry has besides, ``model`` that of the model alone.
    """
    server = f'provider = "{provider}", base_url = "{address}", usd_per_million_input = 1.0, '
    server += f"usd_per_million_output = 2.0{also}"
    roles = "\n".join(
        f'{role} = {{ name = "{role}", {server}, family = "family-{role}" }}' for role in JUDGE_ROLES
    )
    path = folder / f"{name}.toml"
    path.write_text(
        f'name = "{name}"\noutput = "results/{name}"\nscenarios = ["CTI_ANALYSIS"]\nlength_bins = {bins}\n'
        f'models = [{{ name = "answerer", {server}{model} }}]\n{runs}\n[judges]\n{judges}\n{roles}\n{more}'
    )
    return path


def is_judge(body):
    """Whether a request is to a judge."""
    return body["model"] in JUDGE_ROLES


def fours(body):
    """Answer a request with a schema by four points for every dimension."""
    schema = body["response_format"]["json_schema"]["schema"]
    return json.dumps({name: "why" if "reason" in name else 4 for name in schema["properties"]})


def plain(body):
    """Answer as a judge who gives four points, or as a model whose reply is its own for each prompt."""
    return REASONED if is_judge(body) else str(body["messages"])


def batch_study(folder, server, *, provider, settings=""):
    """Write a study of the six CTI prompts and three judges, all asked through batches of one provider."""
    address = server.address(provider)
    runs = f'mode = "batch"\nbatch_poll_seconds = 0.05\n{settings}'
    return stub_study(
        folder, address, name="batch", provider=provider, also=', api_key_env = "BATCH_KEY"', runs=runs
    )
