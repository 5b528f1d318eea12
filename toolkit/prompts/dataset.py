"""The dataset of a study: prompts with a version, checked as they are loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from toolkit.errors import InputError
from toolkit.models.tokens import count_all
from toolkit.prompt_test import TestItem
from toolkit.prompts.bases import read_folder
from toolkit.prompts.tables import read_table
from toolkit.words import LENGTH_BINS, SCENARIOS

DEMO: Final = "demo"
"""The name under which the dataset that ships with the toolkit is loaded."""


@dataclass(frozen=True)
class Prompt:
    """One text of a base at one length bin; the fields are those of seed 002, section 3.1.

    ``token_count`` counts ``o200k_base`` tokens of the text. ``metadata`` has ``data_sources`` (list of
    texts), ``academic_grade`` (whether the prompt was composed from a checked base) and ``base_scenario``.
    The prompts of other tests than the rubric study have no scenario, category and length bin.
    """

    prompt_id: str
    text: str
    scenario: str
    category: str
    length_bin: str
    token_count: int
    dataset_version: str
    base: str
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Dataset:
    """Prompts under one version; ``digest`` is the SHA-256 of their content, whatever their order."""

    name: str
    version: str
    prompts: tuple[Prompt, ...]
    digest: str


def load_dataset(source: str | Path, *, check_ranges: bool = True) -> Dataset:
    """Return a dataset by name, from a folder of bases, or from a table of prompts.

    Parameters
    ----------
    source
        ``"demo"`` for the dataset that ships with the toolkit; otherwise the path of a folder with one TOML
        file a base, or of a ``.csv`` or ``.jsonl`` file with the columns prompt_id, text, scenario, category,
        length_bin and perhaps base and dataset_version. Without the column base it is the prompt_id less its
        ``_s``, ``_m`` or ``_l``.
    check_ranges
        Whether a prompt outside the token range of its length bin is refused; ``check_dataset`` loads without
        refusing, to list every one of them.

    Returns
    -------
    Dataset
        The prompts in the order of the table, or by scenario, base and length.

    Raises
    ------
    InputError
        One line with the file, the row and the key, and what is allowed there.

    Examples
    --------
    >>> demo = load_dataset("demo")
    >>> demo.version, len(demo.prompts), demo.prompts[0].prompt_id
    ('20261121_demo_v1', 36, 'academic_soc_001_s')
    """
    path = Path(__file__).parent / "data" / DEMO if str(source) == DEMO else Path(source).expanduser()
    if path.is_dir():
        name, version, rows = read_folder(path)
    elif path.is_file() and path.suffix.lower() in {".csv", ".jsonl"}:
        name, version, rows = read_table(path)
    else:
        raise InputError(
            f"{path}: no such dataset, give '{DEMO}', a folder of .toml bases, or a .csv or .jsonl file"
        )
    prompts: list[Prompt] = []
    seen: dict[str, str] = {}
    found = list(rows)
    counts = count_all([row["text"] for _, row in found])
    for (where, row), tokens in zip(found, counts, strict=True):
        prompt = _prompt(where, row, version, tokens, check_ranges)
        if prompt.prompt_id in seen:
            first = seen[prompt.prompt_id]
            raise InputError(f"{where}: key 'prompt_id': '{prompt.prompt_id}' is already used in {first}")
        seen[prompt.prompt_id] = where
        prompts.append(prompt)
    return Dataset(name, version, tuple(prompts), digest_of(tuple(prompts)))


def dataset_of(name: str, items: Iterable[TestItem]) -> Dataset:
    """Return the prompts of a test's own items as a dataset, versioned by their content.

    Parameters
    ----------
    name
        Name of the test.
    items
        Its items; an item is the base of its prompts.
    """
    pairs = [(item, prompt) for item in items for prompt in item.prompts]
    content = sorted([prompt.prompt_id, item.item_id, prompt.text] for item, prompt in pairs)
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    version = f"{name}_{digest[:12]}"
    counts = count_all([prompt.text for _, prompt in pairs])
    prompts = tuple(
        Prompt(
            prompt_id=prompt.prompt_id,
            text=prompt.text,
            scenario="",
            category="",
            length_bin="",
            token_count=tokens,
            dataset_version=version,
            base=item.item_id,
            metadata={"base_scenario": item.item_id},
        )
        for (item, prompt), tokens in zip(pairs, counts, strict=True)
    )
    return Dataset(name, version, prompts, digest)


def digest_of(prompts: tuple[Prompt, ...]) -> str:
    """Return the SHA-256 of everything that is written in the prompts, independent of their order.

    Parameters
    ----------
    prompts
        The prompts of one dataset.

    Returns
    -------
    str
        64 hexadecimal digits.

    Examples
    --------
    >>> prompts = load_dataset("demo").prompts
    >>> digest_of(prompts) == digest_of(prompts[::-1])
    True
    """
    content = [
        [
            p.prompt_id,
            p.text,
            p.scenario,
            p.category,
            p.length_bin,
            p.dataset_version,
            p.base,
            dict(p.metadata),
        ]
        for p in sorted(prompts, key=lambda p: p.prompt_id)
    ]
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _prompt(where: str, row: Mapping[str, Any], version: str, tokens: int, check_ranges: bool) -> Prompt:
    """Return the prompt of one row, whatever file it came from."""
    for key, allowed in (("scenario", SCENARIOS), ("length_bin", tuple(LENGTH_BINS))):
        if row[key] not in allowed:
            raise InputError(
                f"{where}: key '{key}': unknown value '{row[key]}', allowed are {', '.join(allowed)}"
            )
    length_bin = row["length_bin"]
    low, high = LENGTH_BINS[length_bin]
    if check_ranges and not low <= tokens <= high:
        raise InputError(
            f"{where}: key 'text': {tokens} tokens (o200k_base) are outside length bin {length_bin}, "
            f'allowed are {low} to {high} (a study takes it with accept_flaws = ["range"])'
        )
    base = row.get("base", row["prompt_id"].removesuffix(f"_{length_bin.lower()}"))
    return Prompt(
        prompt_id=row["prompt_id"],
        text=row["text"],
        scenario=row["scenario"],
        category=row["category"],
        length_bin=length_bin,
        token_count=tokens,
        dataset_version=version,
        base=base,
        metadata={
            "data_sources": list(row.get("data_sources", ())),
            "academic_grade": "data_sources" in row,
            "base_scenario": base,
        },
    )
