"""The dataset of a study: prompts under one version, checked when they are loaded.

In a folder each base is one TOML file whose S prompt states ``facts_s``; M adds ``facts_m`` and L adds ``facts_l``, so
that a longer prompt contains a shorter one. A fact is a text or, with its kind, ``{timeline = "..."}``. A base may have
length arms, which tell length from information: ``arm_neutral_m`` and ``arm_neutral_l`` are background that lengthens S
to M and to L, and ``arm_short`` tells every fact of L in the length of M.
"""

import datetime
import json
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from toolkit.errors import InputError
from toolkit.files.digests import sha256_hex
from toolkit.files.hub import is_hub
from toolkit.files.reading import read_toml, similar_file
from toolkit.files.strict import Name, Strict, Text, checked
from toolkit.files.tables import ROW_FILES, table_rows
from toolkit.models.tokens import count_all
from toolkit.prompt_test import Prompt, TestItem
from toolkit.words import LENGTH_ARMS, LENGTH_BINS, choices, scenario_rank, suggestion

SHIPPED = ("demo", "rq1_controlled")
CSF = ("GOVERN", "IDENTIFY", "PROTECT", "DETECT", "RESPOND", "RECOVER")
"""The functions of the NIST Cybersecurity Framework 2.0."""
FACT_KINDS = ("timeline", "indicator", "asset", "obligation", "constraint", "stakeholder", "decoy")
"""Kinds of facts; a decoy is true and misleads."""
TASK = "\n\nTask:\n"  # separates the facts of a base from its task
INDEX = "dataset.toml"  # optional file of a folder that gives the dataset its name and its version


@dataclass(frozen=True)
class Dataset:
    """Prompts under one version; ``digest`` is the SHA-256 of their content, whatever their order.

    ``date`` is the date of the version and ``focus`` its purpose, where the dataset has them.
    """

    name: str
    version: str
    prompts: tuple[Prompt, ...]
    digest: str
    date: datetime.date | None = None
    focus: str = ""


def _one_value(allowed: Iterable[str]) -> AfterValidator:
    def check(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"unknown value {value!r}, {choices(value, allowed, 'allowed are')}")
        return value

    return AfterValidator(check)


def _fact(value: Any) -> Any:
    """Return a fact as (kind, text): a text alone has no kind."""
    if isinstance(value, dict) and len(value) == 1:
        (pair,) = value.items()
        return pair
    return ("", value)


_Fact = Annotated[tuple[Annotated[str, _one_value(("", *FACT_KINDS))], Text], BeforeValidator(_fact)]
_Facts = Annotated[list[_Fact], Field(min_length=1)]
_Texts = Annotated[list[Text], Field(min_length=1)]


class _Index(Strict):
    name: Name
    version: Name
    date: datetime.date | None = None
    focus: str = ""
    seed: int | None = None


class _Base(Strict):
    base: Name
    scenario: Name
    category: Name
    opening: Text
    task: Text
    data_sources: _Texts
    facts_s: _Facts
    facts_m: _Facts
    facts_l: _Facts
    csf: Annotated[str, _one_value(CSF)] | None = None
    elements: Annotated[list[Text], Field(min_length=5, max_length=10)] | None = None
    reference: Text | None = None
    arm_neutral_m: _Facts | None = None
    arm_neutral_l: _Facts | None = None
    arm_short: _Facts | None = None


class _Row(Strict):
    prompt_id: Name
    text: Text
    scenario: Name | None = None
    category: Name | None = None
    length_bin: Annotated[str, _one_value(LENGTH_BINS)] | None = None
    base: Name | None = None
    dataset_version: Name | None = None
    reference: Text | None = None
    length_arm: Annotated[str, _one_value(LENGTH_ARMS)] | None = None


_ARM_SUFFIXES = {"neutral_m": "nm", "neutral_l": "nl", "short_l": "lm"}
_SourcedRow = tuple[str, _Row, Mapping[str, Any]]
"""The location of a prompt, its row, and the metadata of its base."""


def path_of(source: str | Path) -> Path:
    """Return the folder or the table of a dataset; one that is neither is refused."""
    shipped = str(source) in SHIPPED
    path = Path(__file__).parent / "data" / source if shipped else Path(source).expanduser()
    if not (path.is_dir() or (path.is_file() and path.suffix.lower() in (".csv", ".json", ".jsonl"))):
        raise InputError(
            f"{path}: no such dataset, {suggestion(path.name, SHIPPED) or similar_file(path)}give "
            f"{' or '.join(map(repr, SHIPPED))}, a folder of .toml bases, or a .csv, .json or .jsonl file"
        )
    return path


def load_dataset(
    source: str | Path,
    *,
    check_ranges: bool = True,
    length_arms: bool = False,
    columns: Collection[str] = (),
) -> Dataset:
    """Return a dataset by name, from a folder of bases, or from a table of prompts.

    Parameters
    ----------
    source
        ``"demo"`` or ``"rq1_controlled"`` for a dataset that ships with the toolkit; otherwise
        the path of a folder with one TOML file a base, or of a ``.csv``, ``.jsonl`` or ``.json`` file, or the address
        ``hf://OWNER/NAME@COMMIT/CONFIG:SPLIT`` of a dataset of the Hugging Face hub, with the columns prompt_id (or
        id), text, and perhaps scenario, category, length_bin, base, dataset_version, reference and length_arm. Without
        the column base it is the prompt_id less its ``_s``, ``_m`` or ``_l``. JSON is a list of prompts or has it under
        ``prompts``. Other columns are not read, but one whose name is nearly that of one of these is refused.
    check_ranges
        Whether a prompt outside the token range of its length bin is refused; ``check_dataset`` lists them instead.
    length_arms
        Whether the prompts of length arms are read too; without them the dataset and its digest are as if it had none.
    columns
        Further columns of a table, which stand in the metadata of its prompts under ``columns``.

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
    date, focus = None, ""
    faults: list[str] = []
    if is_hub(source):
        name, (version, rows) = str(source), _table(source, faults, columns)
    elif (path := path_of(source)).is_dir():
        if columns:
            raise InputError(
                f"{path}: a folder of bases has no column {next(iter(columns))!r}; give a table of prompts"
            )
        index = {"name": path.resolve().name, "version": path.resolve().name}
        settings = read_toml(path / INDEX) if (path / INDEX).is_file() else {}
        named = checked(_Index, index | settings, str(path / INDEX))
        name, version, date, focus = named.name, named.version, named.date, named.focus
        rows = list(_bases(path, faults, named.seed))
    else:
        name, (version, rows) = path.stem, _table(path, faults, columns)
    rows = [row for row in rows if length_arms or row[1].length_arm is None]
    prompts = []
    locations: dict[str, str] = {}
    counts = count_all([row.text for _, row, _ in rows])
    for (location, row, extra), tokens in zip(rows, counts, strict=True):
        if row.prompt_id in locations:
            faults.append(
                f"{location}: key 'prompt_id': "
                f"'{row.prompt_id}' is already used in {locations[row.prompt_id]}"
            )
        low, high = LENGTH_BINS.get(row.length_bin or "", (0, tokens))
        if check_ranges and not low <= tokens <= high:
            faults.append(
                f"{location}: key 'text': {tokens} tokens (o200k_base) are outside length bin {row.length_bin}, "
                f'allowed are {low} to {high} (a study takes it with accept_flaws = ["range"])'
            )
        if row.length_arm and row.length_bin != LENGTH_ARMS[row.length_arm]:
            problem = f"{row.length_arm!r} stands in length bin {LENGTH_ARMS[row.length_arm]}"
            faults.append(f"{location}: key 'length_arm': {problem}, not in {row.length_bin}")
        locations[row.prompt_id] = location
        level = row.length_bin or ""
        suffix = _ARM_SUFFIXES[row.length_arm] if row.length_arm else level.lower()
        base = row.base or row.prompt_id.removesuffix(f"_{suffix}")
        graded = "data_sources" in extra
        metadata = {"data_sources": [], "academic_grade": graded, "base_scenario": base, **extra}
        metadata |= row.model_dump(include={"reference", "length_arm"}, exclude_none=True)
        prompts.append(
            Prompt(
                row.text, row.prompt_id, row.scenario or "", row.category or "", level,
                tokens, version, base, metadata,
            )
        )  # fmt: skip
    if len({prompt.level == "" for prompt in prompts}) > 1:
        bare = next(prompt.prompt_id for prompt in prompts if not prompt.level)
        faults.append(f"{locations[bare]}: key 'length_bin' is missing, other prompts have it; add it")
    if faults:
        raise InputError(*faults)
    return Dataset(name, version, tuple(prompts), digest_of(prompts), date, focus)


@contextmanager
def _collecting(faults: list[str]) -> Iterator[None]:
    """Put down the faults of a part of a dataset, so that those of the others are told too."""
    try:
        yield
    except InputError as error:
        faults += error.faults


def base_files(folder: Path) -> list[Path]:
    """Return the files of a folder that hold a base each, by name."""
    return sorted(path for path in folder.glob("*.toml") if path.name != INDEX)


def _bases(folder: Path, faults: list[str], seed: int | None) -> Iterator[_SourcedRow]:
    paths = base_files(folder)
    bases = []
    for path in paths:
        with _collecting(faults):
            base = checked(_Base, read_toml(path), str(path))
            bases.append((path, base, _texts(base, str(path), seed)))
    if not paths:
        raise InputError(f"{folder}: no dataset here, expected one .toml file a base")
    for path, base, texts in sorted(bases, key=lambda item: (scenario_rank(item[1].scenario), item[1].base)):
        for length_bin, arm, facts in texts:
            labels = base.model_dump(include={"scenario", "category", "base"})
            text = compose(base.opening, [fact for _, fact in facts], base.task)
            metadata = base.model_dump(
                include={"data_sources", "csf", "elements", "reference"}, exclude_none=True
            )
            if kinds := [kind for kind, _ in facts if kind]:
                metadata["fact_kinds"] = kinds
            prompt_id = f"{base.base}_{_ARM_SUFFIXES.get(arm, length_bin.lower())}"
            row = _Row(
                prompt_id=prompt_id, text=text, length_bin=length_bin, length_arm=arm or None, **labels
            )
            yield f"{path}, {f'arm {arm}' if arm else f'length bin {length_bin}'}", row, metadata


def _texts(base: _Base, location: str, seed: int | None) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return length bin, name of the arm and facts of each text that a base has."""
    if base.arm_neutral_l and not base.arm_neutral_m:
        raise InputError(
            f"{location}: key 'arm_neutral_l' goes on from 'arm_neutral_m', which is missing; give both"
        )
    rng = None if seed is None else random.Random(f"{seed} {base.base}")
    medium = _merged(base.facts_s, base.facts_m, rng)
    long = _merged(medium, base.facts_l, rng)
    texts = [("S", "", base.facts_s), ("M", "", medium), ("L", "", long)]
    neutral = base.facts_s
    for name, background in (("neutral_m", base.arm_neutral_m), ("neutral_l", base.arm_neutral_l)):
        if background:
            neutral = _merged(neutral, background, rng)
            texts.append((LENGTH_ARMS[name], name, neutral))
    if short := base.arm_short:
        written = base.facts_s + base.facts_m + base.facts_l
        if len(short) == len(written):  # else `prompts check` names it
            short_by_fact = dict(zip(written, short, strict=True))
            short = [short_by_fact[fact] for fact in long]
        texts.append((LENGTH_ARMS["short_l"], "short_l", short))
    return texts


def _merged(shorter: list[Any], added: list[Any], rng: random.Random | None) -> list[Any]:
    """Return the facts of a shorter prompt and those added, each in their order, at places that a generator draws."""
    if rng is None:
        return shorter + added
    slots = set(rng.sample(range(len(shorter) + len(added)), len(shorter)))
    first, second = iter(shorter), iter(added)
    return [next(first if slot in slots else second) for slot in range(len(shorter) + len(added))]


def compose(opening: str, facts: Iterable[str], task: str) -> str:
    r"""Return the text of a prompt: the role, the facts as a list, the task.

    Examples
    --------
    >>> compose("You are an analyst.", ["Host A is down."], "Say why.")
    'You are an analyst.\n\nFacts:\n- Host A is down.\n\nTask:\nSay why.'
    """
    listed = "\n".join(f"- {fact}" for fact in facts)
    return f"{opening}\n\nFacts:\n{listed}{TASK}{task}"


def _table(
    path: str | Path, faults: list[str], columns: Collection[str] = ()
) -> tuple[str, list[_SourcedRow]]:
    versions: dict[str, str] = {}
    rows: list[_SourcedRow] = []
    optional = {name for name, column in _Row.model_fields.items() if not column.is_required()}
    for location, cells in _rows(path):
        # An empty cell of an optional column is like a missing key; a column of another name is somebody's own.
        filled = {
            name: cells[name]
            for name in cells
            if (cells[name] or name not in optional)
            and (name in {*_Row.model_fields, *columns} or get_close_matches(name, _Row.model_fields, 1, 0.8))
        }
        if lacking := [name for name in columns if name not in cells]:
            raise InputError(f"{location}: key {lacking[0]!r} is missing, which the factor uses; add it")
        further = {name: filled.pop(name) for name in columns if name in filled}
        with _collecting(faults):
            row = checked(_Row, filled, location)
            if absent := [name for name in columns if not further.get(name)]:
                raise InputError(f"{location}: key {absent[0]!r} is empty, which the factor uses; fill it")
            rows.append((location, row, {"columns": further} if columns else {}))
            versions.setdefault(row.dataset_version or Path(path).stem, location)
    if not (rows or faults):
        faults.append(f"{path}: no prompt in it, expected one a row")
    if len(versions) > 1:
        faults.append(
            f"{list(versions.values())[1]}: "
            f"key 'dataset_version' must be the same in every row, found {', '.join(versions)}"
        )
    return next(iter(versions), ""), rows


def _rows(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    version, rows = table_rows(path)
    unit = "line" if str(path).lower().endswith(ROW_FILES) else "row"
    for number, cells in rows:
        row = dict(cells)
        if "id" in row:
            row.setdefault("prompt_id", row.pop("id"))
        metadata = cells.get("metadata")
        if isinstance(metadata, Mapping) and metadata.get("base_scenario"):
            row.setdefault("base", metadata["base_scenario"])
        if row.get("scenario") == "CTI_SUMMARY":  # the name in the dataset of the architecture document
            row["scenario"] = "CTI_ANALYSIS"
        if is_hub(path):  # its version is its commit, whatever a column says
            row["dataset_version"] = version
        yield f"{path}, {unit} {number}", row


def dataset_of(name: str, items: Iterable[TestItem]) -> Dataset:
    """Return the prompts of a test's own items as a dataset, versioned by their content; an item is a base."""
    pairs = [(item, prompt) for item in items for prompt in item.prompts]
    content = sorted([prompt.prompt_id, item.item_id, prompt.text] for item, prompt in pairs)
    digest = sha256_hex(json.dumps(content))
    version = f"{name}_{digest[:12]}"
    counts = count_all([prompt.text for _, prompt in pairs])
    prompts = tuple(
        Prompt(
            prompt.text, prompt.prompt_id, "", item.category, "", tokens, version, item.item_id,
            {"base_scenario": item.item_id} | ({"cluster": item.cluster} if item.cluster else {}),
        )
        for (item, prompt), tokens in zip(pairs, counts, strict=True)
    )  # fmt: skip
    return Dataset(name, version, prompts, digest)


def clusters_of(prompts: Iterable[Prompt]) -> dict[str, str]:
    """Return the cluster of each base: bases that share a text, directly or through others, are one independent unit.

    One text is one call and one reply, and so one observation. Bases of one ``cluster`` in the metadata are one unit
    too. A cluster has the name of its first base.

    Examples
    --------
    >>> texts = {"a": ("one", "two"), "b": ("one", "three"), "c": ("three ", "four"), "d": ("five",)}
    >>> made = [Prompt(text, base=base) for base in texts for text in texts[base]]
    >>> clusters_of(made)
    {'a': 'a', 'b': 'a', 'c': 'a', 'd': 'd'}
    """
    above: dict[str, str] = {}
    first: dict[Any, str] = {}

    def top(base: str) -> str:
        while above[base] != base:
            base = above[base]
        return base

    for prompt in prompts:
        above.setdefault(prompt.base, prompt.base)
        keys = [("text", words_of(prompt)), ("cluster", prompt.metadata.get("cluster"))]
        for shared in [first.setdefault(key, prompt.base) for key in keys if key[1]]:
            name, child = sorted((top(shared), top(prompt.base)))
            above[child] = name
    return {base: top(base) for base in above}


def words_of(prompt: Prompt) -> str:
    """Return the text of a prompt with single blanks, by which texts are told to be the same."""
    return " ".join(prompt.text.split())


def without_arms(prompts: Iterable[Prompt]) -> list[Prompt]:
    """Return the prompts that are S, M or L themselves and no length arm."""
    return [prompt for prompt in prompts if "length_arm" not in prompt.metadata]


def by_bin(prompts: Sequence[Prompt]) -> dict[str, list[Prompt]]:
    """Return the prompts of each length bin that occurs, the shortest bin first."""
    bins = {name: [prompt for prompt in prompts if prompt.level == name] for name in LENGTH_BINS}
    return {name: members for name, members in bins.items() if members}


def digest_of(prompts: Iterable[Prompt]) -> str:
    """Return the SHA-256 of the content of prompts, independent of their order."""
    names = ("prompt_id", "text", "scenario", "category", "level", "dataset_version", "base")
    content = [
        [*(getattr(prompt, name) for name in names), dict(prompt.metadata)]
        for prompt in sorted(prompts, key=lambda prompt: prompt.prompt_id)
    ]
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return sha256_hex(text)


def version_of(dataset: Dataset) -> dict[str, str]:
    """Return what tells a version of a dataset from others, with the digest that a study without length arms has."""
    return {
        "version": dataset.version,
        "digest": digest_of(without_arms(dataset.prompts)),
        "date": dataset.date.isoformat() if dataset.date else "",
        "focus": dataset.focus,
    }
