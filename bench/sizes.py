"""How large a measurement is: numbers by name with documented defaults, which `--set NAME=VALUE` replaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers that one measurement goes by."""

    values: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        """The number of this name."""
        return self.values[name]

    def whole(self, name: str) -> int:
        """The number of this name, as a count."""
        return int(self.values[name])

    def replaced(self, given: Mapping[str, float]) -> Sizes:
        """These with the given ones in their place; names that mean nothing here are left out."""
        return Sizes({name: given.get(name, value) for name, value in self.values.items()})
