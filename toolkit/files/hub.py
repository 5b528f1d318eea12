"""Datasets of the Hugging Face hub, which a study names by an address, read by the package `datasets`.

Whoever publishes a dataset may change it, so the commit that was read is a part of what it is called; an address with
that commit reads the same rows again. No code of a dataset is run: from its version 4 on `datasets` has no way to.
"""

import re
from pathlib import Path
from typing import Any

from toolkit.errors import InputError
from toolkit.words import one_line

_ADDRESS = re.compile(r"hf://([^/@:\s]+/[^/@:\s]+)(?:@([^/:\s]+))?(?:/([^/:\s]+))?(?::(\S+))?")


def is_hub(source: str | Path) -> bool:
    """Return whether a dataset is one of the hub and no file."""
    return str(source).startswith("hf://")


def read_hub(address: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the name and commit of a dataset of the hub, and its rows as a file of them would have them."""
    if not (parts := _ADDRESS.fullmatch(address)):
        raise InputError(
            f"{address}: is no dataset of the hub; write hf://OWNER/NAME@COMMIT/CONFIG:SPLIT or less of it"
        )
    repository, commit, config, split = parts.groups()
    try:
        import datasets  # type: ignore[import-not-found]

        if int(datasets.__version__.partition(".")[0]) < 4:
            raise ImportError
    except ImportError:
        raise InputError(
            f"{address}: needs the package datasets, 4 or later, which runs no code of a dataset: "
            "pip install 'llm-security-toolkit[hub]'"
        ) from None
    try:
        builder = datasets.load_dataset_builder(repository, config, revision=commit)
        builder.download_and_prepare()
        data = builder.as_dataset(split=split)
        splits = data if isinstance(data, dict) else {split: data}
        table = next(iter(splits.values())).with_format("arrow")
        rows = table[:].to_pylist()
    except Exception as error:  # of the network, of the hub, of a file that somebody put there
        raise InputError(f"{address}: cannot be read ({one_line(str(error), 300)})") from None
    # A folder of that name goes first for `datasets`, and without a network the newest commit that it has.
    pinned = commit if commit and re.fullmatch("[0-9a-f]{7,40}", commit) else ""
    if not re.fullmatch("[0-9a-f]{40}", builder.hash) or not builder.hash.startswith(pinned):
        raise InputError(
            f"{address}: found {builder.hash} on this machine, which is not that commit of the hub; connect to it, "
            f"in a folder without {repository}"
        )
    if len(splits) > 1:
        raise InputError(
            f"{address}: has the splits {', '.join(splits)}; write one of them, as in {address}:{[*splits][-1]}"
        )
    for name, feature in table.features.items():
        if labels := getattr(feature, "names", None):
            for row in rows:  # the number of a label, -1 where it is not published
                row[name] = None if row[name] in (None, -1) else labels[row[name]]
    return f"{repository}@{builder.hash}", rows
