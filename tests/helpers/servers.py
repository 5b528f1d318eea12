"""Run the storage tests and one whole study on other servers than the embedded one: `make test-servers`.

Servers are the addresses in ``TOOLKIT_TEST_MONGODB_URIS``, and mongoeco's wire server where CPython 3.13 is found:
it is installed into ``build/mongoeco`` and ends with this script.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from places import ROOT

TESTS = ("test_store", "test_servers")
PACKAGES = ("mongoeco==4.11.0", "pymongo")
SERVER = """
import asyncio, sys
from mongoeco.engines.sqlite import SQLiteEngine as Engine
from mongoeco.wire.proxy import AsyncMongoEcoProxyServer as Server

async def main():
    async with Server(engine=Engine(sys.argv[1])) as server:
        print(server.address.uri, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def python_313():
    """Return a CPython 3.13 that starts, if this machine has one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    places = [shutil.which("python3.13"), *map(str, sorted(pyenv.glob("versions/3.13*/bin/python")))]
    starts = (
        python
        for python in places
        if python and not subprocess.call([python, "-c", ""], stderr=subprocess.DEVNULL)
    )
    return next(starts, None)


@contextmanager
def mongoeco():
    """Start the wire server of mongoeco and yield its address, or say why there is none."""
    python, folder = python_313(), ROOT / "build" / "mongoeco"
    if python is None:
        print("mongoeco: skipped, no CPython 3.13 on this machine", flush=True)
        yield []
        return
    own = str(folder / "bin" / "python")
    if (
        subprocess.call([own, "-c", "import mongoeco.wire"], stderr=subprocess.DEVNULL)
        if folder.exists()
        else True
    ):
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        if subprocess.call([own, "-m", "pip", "install", "-q", *PACKAGES]):
            print("mongoeco: skipped, it could not be installed", flush=True)
            yield []
            return
    with tempfile.TemporaryDirectory() as data:
        command = [own, "-c", SERVER, str(Path(data) / "mongoeco.db")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                yield [server.stdout.readline().strip()]
            finally:
                server.terminate()


def main():
    """Run the tests with every server, and return pytest's exit code."""
    with mongoeco() as started:
        addresses = [*os.environ.get("TOOLKIT_TEST_MONGODB_URIS", "").split(), *started]
        if not addresses:
            print("no server: name some in TOOLKIT_TEST_MONGODB_URIS, with spaces between them")
            return 0
        files = [str(ROOT / "tests" / "hard" / f"{name}.py") for name in TESTS]
        environment = {**os.environ, "TOOLKIT_TEST_MONGODB_URIS": " ".join(addresses)}
        return subprocess.call([sys.executable, "-m", "pytest", "-q", *files, *sys.argv[1:]], env=environment)


if __name__ == "__main__":
    sys.exit(main())
