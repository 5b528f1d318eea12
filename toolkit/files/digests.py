"""Names made of content: the SHA-256 of a file, of a text, and of parts that name something together."""

import hashlib
import json
from pathlib import Path
from typing import Any


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, which is never in memory as a whole."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_hex(text: str) -> str:
    """Return the SHA-256 of a text, also of one with half of a character."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest(*parts: Any) -> str:
    """Return the SHA-256 that names what these parts name together."""
    return sha256_hex(json.dumps(parts))
