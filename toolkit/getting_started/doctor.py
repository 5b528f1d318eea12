"""Check what the toolkit needs on this machine, say what to do about the rest, and open JupyterLab."""

import os
import platform
import shutil
import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import InputError, ToolkitError
from toolkit.files.shipped import shipped, workspace
from toolkit.words import Summary


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; ``needed`` says whether the demo fails without it."""

    what: str
    ok: bool
    detail: str
    needed: bool = True


def examine() -> Summary:
    """Look at everything the toolkit needs, a line for each; exit code 2 when something needed is missing."""
    from toolkit.models.catalogue import PROVIDERS
    from toolkit.models.registry import read_environment

    environment = read_environment()
    names = sorted(name for row in PROVIDERS.values() if (name := row.get("api_key_env")))
    tshark = shutil.which("tshark")
    advice = tshark or "apt-get install tshark (for network captures)"
    findings = [Check("python", sys.version_info >= (3, 11), platform.python_version())]
    for name, look in {"store": _store, "tokens": _tokens, "demo model": _demo_model}.items():
        try:
            findings.append(Check(name, True, look()))
        except (ToolkitError, ImportError, OSError) as error:
            findings.append(Check(name, False, str(error)))
    findings.append(Check("tshark", tshark is not None, advice, needed=False))
    for name in names:
        detail = "set" if environment.get(name) else "not set (environment or .env)"
        findings.append(Check(name, detail == "set", detail, needed=False))
    lines = [
        f"{'ok     ' if f.ok else 'MISSING' if f.needed else 'absent '}  {f.what:<12} {f.detail}"
        for f in findings
    ]
    ready = all(f.ok or not f.needed for f in findings)
    return Summary(
        {"findings": [vars(f) for f in findings], "ready": ready}, "\n".join(lines), 0 if ready else 2
    )


def _store() -> str:
    from toolkit.store.connection import Store, temporary_store

    if uri := os.environ.get("MONGODB_URI"):
        Store(uri, None).close()
        return "the server of MONGODB_URI answers"
    with temporary_store():
        pass
    return "the embedded server starts and answers"


def _demo_model() -> str:
    from toolkit.models.catalogue import model_spec
    from toolkit.models.registry import key_fault
    from toolkit.models.weights import find_weights

    if fault := key_fault(model_spec("smollm2-135m"), {}):
        raise InputError(fault)
    return find_weights().name


def _tokens() -> str:
    from toolkit.models.tokens import ENCODINGS, count_tokens

    for encoding in ENCODINGS:
        count_tokens("counted offline", encoding)
    return f"{' and '.join(ENCODINGS)} counted offline"


def open_lab() -> None:
    """Become JupyterLab on copies of the notebooks: a signal that ends this process ends it."""
    folder = workspace()
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # whoever is root in a container has no other account to use
    if copies := copied_notebooks(folder):
        command.append(f"--LabApp.default_url=/lab/tree/{copies[0].relative_to(folder).as_posix()}")
    # Messages of widgets over subshells run beside the cells (jupyterlab#19719), and some were never answered.
    ours = str(Path(__file__).resolve().parents[1] / "viewer")
    paths = os.pathsep.join(filter(None, (ours, os.environ.get("JUPYTER_CONFIG_PATH"))))
    os.execve(sys.executable, command, os.environ | {"JUPYTER_CONFIG_PATH": paths})


def open_docs() -> Summary:
    """Open the site that `make docs` built, or that came with the wheel, and say where it lies."""
    folder = shipped("docs")
    page = next(folder.parent.glob("build/docs/index.html"), folder / "index.html")
    if not page.is_file():
        raise InputError("the documentation is not built here; make docs builds it")
    webbrowser.open(page.as_uri())
    return Summary({"page": str(page)}, f"documentation: {page}")


def copied_notebooks(folder: Path) -> list[Path]:
    """Copy the notebooks of a folder to ``results/notebooks``, where running them changes no tree; one there stays."""
    copies = []
    for path in sorted((folder / "notebooks").glob("*.ipynb")):
        copy = folder / "results" / "notebooks" / path.name
        if not copy.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text(encoding="utf-8").replace("../templates/", "../../templates/")
            copy.write_text(text.replace('\\"../results', '\\"..'), encoding="utf-8")
        copies.append(copy)
    return copies
