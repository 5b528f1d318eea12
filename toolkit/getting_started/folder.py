"""`toolkit init`: a thesis folder that stands alone, with study files, notebooks, templates and a Makefile."""

import re
import shutil
from pathlib import Path

from toolkit.errors import InputError
from toolkit.files.shipped import shipped
from toolkit.files.writing import write_atomically
from toolkit.words import Summary

_TEXTS = {name: name for name in ("README.md", "Makefile", "local.toml", "compare.toml")} | {"gitignore": ".gitignore"}


def init_folder(folder: Path) -> Summary:
    """Write a thesis folder where nothing is yet; where there is something, nothing of it is touched."""
    from toolkit.thesis.methods import bibliography, known_references

    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there and not empty; name a new folder for the thesis")
    templates = shipped("templates")
    for source in (templates, shipped("notebooks")):
        ignored = shutil.ignore_patterns("thesis", "my_prompts", ".ipynb_checkpoints", "__pycache__")
        shutil.copytree(source, folder / source.name, ignore=ignored)
    shutil.copytree(templates / "my_prompts", folder / "my_prompts")
    for source_name, name in _TEXTS.items():
        write_atomically(folder / name, (templates / "thesis" / source_name).read_bytes())
    text = (templates / "gpt4o_claude.toml").read_text(encoding="utf-8")
    # Without an output it is results/NAME beside the file.
    text = re.sub(r"^output = .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r'^name = ".*"', 'name = "cloud"', text, count=1, flags=re.MULTILINE)
    write_atomically(folder / "cloud.toml", text.encode())
    write_atomically(folder / "references.bib", bibliography(known_references()).encode())
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    text = f"{folder}: {len(files)} files; read README.md there, then: cd {folder} && make demo"
    return Summary({"folder": str(folder), "files": files}, text)
