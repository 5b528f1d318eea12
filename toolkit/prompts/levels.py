"""A dataset at the levels of a factor: each prompt as every level words it, or at the level that a column names."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from toolkit.errors import InputError
from toolkit.models.tokens import count_all
from toolkit.prompt_test import Prompt
from toolkit.prompts.dataset import Dataset, digest_of
from toolkit.words import CROSSED, PLACEHOLDER, choices


def with_levels(
    dataset: Dataset,
    factor: str,
    templates: Mapping[str, str],
    texts: Mapping[str, str],
    column: str | None = None,
    *,
    crossed: bool = False,
) -> Dataset:
    """Return a dataset whose prompts have the levels of a factor; its version changes with every text.

    ``templates`` has the text around the prompts of each level, and ``texts`` what stands there in braces besides
    columns. Where a ``column`` names the level of a prompt it is asked at no other. What is ``crossed`` with it, a
    second factor of the study or prompt length, stands in the metadata of a prompt.
    """
    several = not crossed and len({prompt.level for prompt in dataset.prompts}) > 1
    if crossed and any(CROSSED in prompt.metadata for prompt in dataset.prompts):
        raise InputError(
            f"factor.crossed: the prompts of dataset {dataset.name} differ in length, which is a factor too; choose a "
            'length, such as length_bins = ["M"], or take factor.crossed out'
        )
    for prompt in dataset.prompts if column else ():
        if (level := prompt.metadata["columns"][column]) not in templates:
            raise InputError(
                f"prompt {prompt.prompt_id}: {column} is {level!r}; {choices(level, templates, 'the levels are')}"
            )
    prompts = [
        _at_level(
            prompt,
            (prompt.level, name) if crossed else (name, prompt.level if several else ""),
            template,
            texts,
            named=name if column else "",
            suffix="" if column else f"_{name}",
        )
        for prompt in dataset.prompts
        for name, template in templates.items()
        if column is None or prompt.metadata["columns"][column] == name
    ]
    counts = Counter((prompt.base, *_levels(prompt)) for prompt in prompts)
    if twice := next((pair for pair, count in counts.items() if count > 1), None):
        raise InputError(
            f"factor: base {twice[0]!r} has {counts[twice]} prompts at level {twice[1]!r}; keep one, or give "
            "each base its own name"
        )
    if absent := [name for name in templates if all(name not in _levels(prompt) for prompt in prompts)]:
        raise InputError(
            f"factor: no prompt of dataset {dataset.name} has the level {absent[0]!r}; take it out"
        )
    bases, levels = list(dict.fromkeys(prompt.base for prompt in prompts)), list(templates)
    if not crossed:
        prompts.sort(key=lambda prompt: (bases.index(prompt.base), levels.index(prompt.level)))
    return _versioned(dataset, factor, prompts)


def _levels(prompt: Prompt) -> tuple[str, str]:
    return prompt.level, prompt.metadata.get(CROSSED, "")


def _at_level(
    prompt: Prompt, levels: tuple[str, str], template: str, texts: Mapping[str, str], named: str, suffix: str
) -> Prompt:
    """Return a prompt as a level words it; one that a column gives its level has an id of its own already."""
    values = {**texts, **prompt.metadata.get("columns", {}), "prompt": prompt.text}
    base = prompt.base.removesuffix(f"_{named}") if named else prompt.base
    level, crossed = levels
    metadata = {**prompt.metadata, "base_scenario": base} | ({CROSSED: crossed} if crossed else {})
    return replace(
        prompt,
        text=PLACEHOLDER.sub(lambda match: str(values[match[1]]), template),
        prompt_id=f"{prompt.prompt_id}{suffix}",
        level=level,
        base=base,
        metadata=metadata,
    )


def _versioned(dataset: Dataset, factor: str, prompts: list[Prompt]) -> Dataset:
    """Return prompts with their tokens as a version of its own, because texts of levels are no texts of the dataset."""
    digest = digest_of(prompts)
    version = f"{dataset.version}+{factor}_{digest[:12]}"
    counts = count_all([prompt.text for prompt in prompts])
    versions = (
        replace(prompt, token_count=tokens, dataset_version=version)
        for prompt, tokens in zip(prompts, counts, strict=True)
    )
    return replace(dataset, version=version, prompts=tuple(versions), digest=digest)
