"""The design of a generalizability study: which factors are crossed, which are nested, and the effects that follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from toolkit.errors import InputError

Effect = frozenset[str]
"""The factors of one effect, with what they are nested in."""


@dataclass(frozen=True)
class Design:
    """Which factors the scores of a study are crossed over, and which are nested in others.

    Examples
    --------
    >>> design = Design(("base", "judge", "repeat"), {"repeat": ("base",)})
    >>> [design.name(effect) for effect in design.effects]
    ['base', 'judge', 'base x judge', 'repeat:base', 'judge x repeat:base']
    """

    factors: tuple[str, ...]
    nested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = set(self.factors)
        wrong = [name for name, parents in self.nested.items() if not {name, *parents} <= known - {""}]
        if not self.factors or len(known) < len(self.factors) or wrong or self.factors[0] in self.nested:
            raise InputError(
                f"design {' x '.join(self.factors)} with nesting {dict(self.nested)}: name each factor once, "
                "nest factors in factors of the design only, and leave the first one crossed"
            )

    def closure(self, subset: Iterable[str]) -> Effect:
        """Return a set of factors together with everything they are nested in."""
        names = set(subset)
        return frozenset(names.union(*(self.nested.get(name, ()) for name in names)))

    @property
    def effects(self) -> tuple[Effect, ...]:
        """All effects that the design has, smaller ones first; the last is confounded with the error."""
        sizes = range(1, len(self.factors) + 1)
        found = {self.closure(subset) for size in sizes for subset in combinations(self.factors, size)}
        return tuple(sorted(found, key=lambda effect: (len(effect), self._order(effect))))

    def name(self, effect: Effect) -> str:
        """Return an effect as it is written, e.g. ``judge x repeat:(base x model)``."""
        parents = {parent for name in effect for parent in self.nested.get(name, ())}
        heads = " x ".join(name for name in self.factors if name in effect and name not in parents)
        within = [name for name in self.factors if name in parents]
        if not within:
            return heads
        return f"{heads}:{within[0] if len(within) == 1 else '(' + ' x '.join(within) + ')'}"

    def without(self, factors: Iterable[str]) -> Design:
        """Return the design with some factors left out, because they have one level."""
        gone = set(factors)
        return Design(
            tuple(name for name in self.factors if name not in gone),
            {
                name: tuple(parent for parent in parents if parent not in gone)
                for name, parents in self.nested.items()
                if name not in gone
            },
        )

    def _order(self, effect: Effect) -> tuple[int, ...]:
        return tuple(index for index, name in enumerate(self.factors) if name in effect)
