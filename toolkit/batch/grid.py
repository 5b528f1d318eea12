"""The grid of a batch: which parameters each notebook is called with, from four small tables.

A grid file is TOML::

    [product]                       # every value of each with every value of the others
    study = ["a.toml", "b.toml"]
    k = [3, 5]

    [zip]                           # lists of one length, walked together; combined with the product
    model = ["gpt-4o", "claude-3-5-haiku"]
    label = ["OpenAI", "Anthropic"]

    [[list]]                        # one more cell of the grid, as it stands
    study = "c.toml"
    k = 9

    [[exclude]]                     # leaves out every cell of the product that has all of these
    study = "b.toml"
    k = 5
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from toolkit.batch.parameters import short
from toolkit.errors import InputError
from toolkit.files import read_toml

Cell = dict[str, Any]
TABLES: Final = ("product", "zip", "list", "exclude")
MOST: Final = 100_000
"""Cells of a product: a list too many, and it would be written out until the machine has no memory left."""


def read_grid(path: Path) -> tuple[Cell, ...]:
    """Return the cells of a grid file, in the order of the file; the last parameter of the product varies fastest."""
    return cells_of(read_toml(path, what="grid file"), str(path))


def cells_of(grid: Mapping[str, Any], where: str = "grid") -> tuple[Cell, ...]:
    """Return the cells of a grid."""
    unknown = [name for name in grid if name not in TABLES]
    if unknown:
        raise InputError(f"{where}: unknown table {unknown[0]!r}; a grid has {', '.join(TABLES)}")
    product, together = _lists(grid, "product", where), _lists(grid, "zip", where)
    single, excluded = _rows(grid, "list", where), _rows(grid, "exclude", where)
    both = sorted(set(product) & set(together))
    if both:
        raise InputError(f"{where}: {both[0]!r} stands in [product] and in [zip]; keep one")
    lengths = {name: len(values) for name, values in together.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        raise InputError(f"{where}: [zip] walks lists of one length together, but {said} values")
    count = math.prod(len(values) for values in product.values()) * max(lengths.values(), default=1)
    if count > MOST:
        raise InputError(
            f"{where}: the product has {count:,} cells, more than the {MOST:,} that a batch takes"
        )
    rows = [dict(zip(together, values, strict=True)) for values in zip(*together.values(), strict=True)] or [
        {}
    ]
    crossed = [
        dict(zip(product, values, strict=True)) | row
        for values in itertools.product(*product.values())
        for row in rows
    ]
    cells = crossed if product or together else []
    for exclusion in excluded:
        left = [cell for cell in cells if not _matches(cell, exclusion)]
        if len(left) == len(cells):
            raise InputError(
                f"{where}: [[exclude]] {short(exclusion)} leaves out no cell of the product; mend or remove it"
            )
        cells = left
    cells = [*cells, *single]
    if not cells:
        raise InputError(f"{where}: the grid is empty; give it [product], [zip] or [[list]]")
    return tuple(cells)


def _lists(grid: Mapping[str, Any], table: str, where: str) -> dict[str, list[Any]]:
    found = grid.get(table, {})
    if not isinstance(found, Mapping):
        raise InputError(f"{where}: [{table}] must be a table of lists")
    found = {
        name: values.tolist() if hasattr(values, "tolist") else values  # an array, or a column of a frame
        for name, values in found.items()
    }
    for name, values in found.items():
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise InputError(
                f"{where}: [{table}] {name} must be a list of values, e.g. {name} = [{short(values)}]"
            )
        if not values:
            raise InputError(f"{where}: [{table}] {name} is an empty list, so the grid would be empty")
    return {str(name): list(values) for name, values in found.items()}


def _rows(grid: Mapping[str, Any], table: str, where: str) -> list[Cell]:
    found = grid.get(table, [])
    listed = isinstance(found, Sequence) and not isinstance(found, str)
    if not listed or not all(isinstance(row, Mapping) for row in found):
        raise InputError(f"{where}: write [[{table}]] with two brackets, once for each")
    if table == "exclude" and not all(found):
        raise InputError(f"{where}: an [[exclude]] without a parameter would leave out everything")
    return [dict(row) for row in found]


def _matches(cell: Cell, exclusion: Cell) -> bool:
    return all(name in cell and _same(cell[name], value) for name, value in exclusion.items())


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same; true is not 1 here."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
