"""The parameters of every notebook of a grid.

A grid is TOML, or a mapping with the same tables::

    [product]                       # every value of each with every value of the others
    study = ["a.toml", "b.toml"]
    k = [3, 5]

    [zip]                           # lists of one length, walked together; combined with the product
    model = ["gpt-4o", "claude-3-5-haiku"]
    label = ["OpenAI", "Anthropic"]

    [[list]]                        # one more cell of the grid
    study = "c.toml"
    k = 9

    [[exclude]]                     # leaves out every cell of the product that has all of these
    study = "b.toml"
    k = 5
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from toolkit.batch.template import short
from toolkit.errors import InputError
from toolkit.files.reading import read_toml
from toolkit.files.strict import Strict, checked

Parameters = dict[str, Any]
MOST = 100_000
"""Most cells of a product: one list too many would fill the machine's memory."""


def _listed(values: Any) -> Any:
    """Return an array, a column of a frame or another sequence as the list that it is."""
    values = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ValueError("must be a list: of values as in [1, 2], of tables by two brackets, [[list]]")
    return list(values)


_Listed = BeforeValidator(_listed)
_Columns = dict[str, Annotated[list[Any], _Listed, Field(min_length=1)]]
_Rows = Annotated[list[Parameters], _Listed]
_Exclusions = Annotated[list[Annotated[Parameters, Field(min_length=1)]], _Listed]


class Grid(Strict):
    """The tables of a grid."""

    product: _Columns = Field({})
    zip: _Columns = Field({})
    list: _Rows = Field([])
    exclude: _Exclusions = Field([])


def grid_cells(tables: Mapping[str, Any] | Path, location: str = "grid") -> tuple[Parameters, ...]:
    """Return the parameters of a grid or its file; the last one of the product varies fastest."""
    if isinstance(tables, Path):
        tables, location = read_toml(tables, what="grid file"), str(tables)
    grid = checked(Grid, dict(tables), location)
    if repeated := sorted(grid.product.keys() & grid.zip.keys()):
        raise InputError(f"{location}: {repeated[0]!r} stands in [product] and in [zip]; keep one")
    if len(set(map(len, grid.zip.values()))) > 1:
        sizes = ", ".join(f"{name} has {len(values)}" for name, values in grid.zip.items())
        raise InputError(f"{location}: [zip] walks lists of one length together, but {sizes} values")
    axes = [[{name: value} for value in values] for name, values in grid.product.items()]
    if grid.zip:
        rows = zip(*grid.zip.values(), strict=True)
        axes.append([dict(zip(grid.zip, row, strict=True)) for row in rows])
    count = math.prod(map(len, axes))
    if count > MOST:
        message = f"{location}: the product has {count:,} cells, more than the {MOST:,} that a batch takes"
        raise InputError(message)
    cells = [
        {name: value for part in parts for name, value in part.items()}
        for parts in (itertools.product(*axes) if axes else ())
    ]
    for exclusion in grid.exclude:
        # True is not 1 here.
        remaining = [
            cell
            for cell in cells
            if not all(
                name in cell
                and cell[name] == value
                and isinstance(cell[name], bool) == isinstance(value, bool)
                for name, value in exclusion.items()
            )
        ]
        if len(remaining) == len(cells):
            advice = "leaves out no cell of the product; mend or remove it"
            raise InputError(f"{location}: [[exclude]] {short(exclusion)} {advice}")
        cells = remaining
    if not (cells or grid.list):
        raise InputError(f"{location}: the grid is empty; give it [product], [zip] or [[list]]")
    return (*cells, *grid.list)
