"""Compares two versions of a dataset prompt by prompt."""

from collections import Counter
from dataclasses import asdict, dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from toolkit.prompts.dataset import Dataset, Prompt, load_dataset, version_of
from toolkit.words import Summary, template

LABELS = ("scenario", "category", "level", "base", "token_count")


@dataclass(frozen=True)
class Change:
    """A prompt that is ``added``, ``removed`` or ``changed``: how its labels, its text and its elements changed."""

    kind: str
    prompt_id: str
    labels: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


def diff_datasets(before: Dataset, after: Dataset) -> tuple[Change, ...]:
    """Return the prompts that differ, in the order of the later version, removed ones last."""
    old = {prompt.prompt_id: prompt for prompt in before.prompts}
    new = {prompt.prompt_id: prompt for prompt in after.prompts}
    changes = [_change(old.get(name), prompt) for name, prompt in new.items()]
    changes += [Change("removed", name) for name in old if name not in new]
    return tuple(change for change in changes if change)


def _change(old: Prompt | None, new: Prompt) -> Change | None:
    if old is None:
        return Change("added", new.prompt_id)
    labels = [(name, getattr(old, name), getattr(new, name)) for name in LABELS]
    names = [name for name in {**old.metadata, **new.metadata} if name != "base_scenario"]
    labels += [(name, old.metadata.get(name), new.metadata.get(name)) for name in names]
    differences = tuple(f"{name}: {was} -> {now}" for name, was, now in labels if was != now)
    lines = tuple(list(unified_diff(old.text.splitlines(), new.text.splitlines(), lineterm="", n=0))[2:])
    return Change("changed", new.prompt_id, differences, lines) if differences or lines else None


def diff_summary(before: str | Path, after: str | Path) -> Summary:
    """Compare two datasets: what `toolkit prompts diff` prints; exit code 1 when they differ."""
    old, new = (load_dataset(source, check_ranges=False, length_arms=True) for source in (before, after))
    changes = diff_datasets(old, new)
    kinds = Counter(change.kind for change in changes)
    named = {"before": {"name": old.name, **version_of(old)}, "after": {"name": new.name, **version_of(new)}}
    fields: dict[str, Any] = named | {name: kinds[name] for name in ("added", "removed", "changed")}
    fields["changes"] = [asdict(change) for change in changes]
    return Summary(fields, template("prompts", "diff.jinja").render(fields), 1 if changes else 0)
