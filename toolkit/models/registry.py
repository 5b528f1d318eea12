"""From a description of a model to one that can be asked; keys come from the environment or a ``.env`` alone.

An address may come from there too, under the name that clients of its provider know: it is as good as a ``base_url`` of
the study, a part of every call's identity and of what is recorded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import InputError, remember
from toolkit.models.base import Model
from toolkit.models.catalogue import PROVIDERS, ModelSpec, address_fault, class_of

if TYPE_CHECKING:
    from toolkit.models.batches import BatchClient


def open_model(
    spec: ModelSpec,
    *,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    seconds: float | None = None,
    question: Callable[[str], Any] | None = None,
) -> Model:
    """Return a model that can be asked; nothing is sent, and no server is started, before the first request.

    ``question`` tells a script with planted accuracy what a prompt asks (`toolkit.models.scripted.Question`).
    """
    client = class_of(spec.provider, "client")
    if spec.provider == "scripted":
        return client(
            spec.replies or None, spec=spec, question=question
        )  # a planted truth stands in the spec

    limit = {} if seconds is None else {"seconds": seconds}
    if spec.provider == "local":
        return client(spec, **limit)
    return client(spec, key=api_key(spec, env, folder), **limit)


def open_batch_client(
    spec: ModelSpec, *, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> BatchClient | None:
    """Return the batch endpoint of a model, or ``None`` where its provider has none; nothing is sent."""
    batches = class_of(spec.provider, "batches")
    return batches(spec, key=api_key(spec, env, folder)) if batches else None


def read_environment(study_folder: Path | None = None) -> Mapping[str, str]:
    """Return the variables that keys are looked up in, without changing the process's own environment."""
    from dotenv import dotenv_values

    merged: dict[str, str] = {}
    for folder in filter(None, (study_folder, Path.cwd())):
        path = Path(folder) / ".env"
        if not path.is_file():
            continue
        try:
            # Without interpolation: a key may hold a dollar sign.
            values = dotenv_values(path, interpolate=False)
        except (OSError, UnicodeDecodeError) as error:
            message = f"{path} cannot be read ({type(error).__name__}): make it a readable UTF-8 file"
            raise InputError(message) from None
        merged |= {name: value for name, value in values.items() if value}
    # An exported but empty variable must not hide the file's.
    return merged | {name: value for name, value in os.environ.items() if value.strip() or name not in merged}


def address_of(provider: str, env: Mapping[str, str]) -> str | None:
    """Return the address that a variable gives a provider; ``None`` where it gives none, or the provider's own."""
    row = PROVIDERS[provider]
    variable = row.get("address_env", "")
    address = env.get(variable, "").strip().rstrip("/")
    if (
        address and provider == "ollama"
    ):  # a host, a port, or both; where its server listens to all, it is here
        scheme, _, host = address.rpartition("://")
        host = re.sub(r"\A(0\.0\.0\.0)?(?=:|\Z)", "127.0.0.1", host)
        port = "" if scheme or re.search(r":\d+\Z", host) else ":11434"
        address = f"{scheme or 'http'}://{host}{port}/v1"
    if address and (fault := address_fault(address)):
        raise InputError(f"{variable} {fault}")
    return None if address in ("", row.get("base_url")) else address


def api_key(spec: ModelSpec, env: Mapping[str, str] | None = None, folder: Path | None = None) -> str | None:
    """Return the key of a model's provider; a study's ``.env`` stands in its folder."""
    env = read_environment(folder) if env is None else env
    if fault := key_fault(spec, env):
        raise InputError(
            f"model {spec.name!r} {fault}: export it, or write {spec.api_key_env}=... into a .env file in the working "
            "folder or beside the study"
        )
    remember(env, spec.api_key_env or "")
    return env[spec.api_key_env].strip() if spec.api_key_env else None


def key_fault(spec: ModelSpec, env: Mapping[str, str]) -> str | None:
    """Return what a model lacks of a package or key, in words that follow its name; ``None`` where nothing is wrong."""
    if spec.provider == "local" and not find_spec("xllamacpp"):
        return "needs xllamacpp (pip install 'llm-security-toolkit[local]')"
    if spec.api_key_env is None:
        return None
    key = env.get(spec.api_key_env, "").strip()
    if not key:
        return f"needs {spec.api_key_env}"
    # Checked here because the error a client raises about such a header carries the whole key.
    if not (key.isascii() and key.isprintable() and " " not in key):
        return f"needs {spec.api_key_env}, which is not a key now: it holds spaces or characters no key has"
    return None
