"""The series of one metric: a value for each combination of its labels, as many as there may be and no more.

Invariant: beyond a number of values, a label's new ones count as "other", and so do all of a new combination's beyond
the number of series, but for labels whose values are our own words; what is already counted by its name stays so. A
line's text is made once for each series. Not thread-safe: `metrics` has the lock.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final, Literal

from wakeful.core.text import clean

MOST_VALUES: Final = 50
MOST_SERIES: Final = 500
MOST_HISTOGRAMS: Final = 200  # of one metric: each has a line for every bucket
OTHER: Final = "other"
# What only our own words stand in: few values, which no producer chooses, so that a death stays one.
CLOSED: Final = frozenset({"outcome", "state", "reason", "phase", "stage", "table", "duty", "window"})

_VALUE_LIMIT_BYTES: Final = 120
# Controls, and what ends or reorders a line on a terminal (bidi marks, separators).
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")

Key = tuple[str, ...]
Labels = tuple[object, ...]  # the values, in the order of the metric's labels


class Cell:
    """The value of one series."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0


class Times:
    """How many observations fell into each bucket of one series, and their sum in seconds."""

    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * buckets
        self.total = 0.0


class Series:
    """Numbers by labels."""

    __slots__ = ("_cells", "_fold", "_keys")

    def __init__(self, labels: tuple[str, ...], *, fold: Literal["sum", "max"] = "sum") -> None:
        self._keys = Keys(labels)
        self._fold = fold
        self._cells: dict[Key, Cell] = {}

    def cell(self, labels: Labels) -> tuple[Key, Cell]:
        """Give what holds the value for these labels, until all are replaced, and the key that it counts under."""
        key = self._keys.of(labels)
        if key not in self._cells:
            self._cells[key] = Cell()
        return key, self._cells[key]

    def add(self, labels: Labels, amount: float) -> None:
        """Add to the value for these labels."""
        self.cell(labels)[1].value += amount

    def set(self, labels: Labels, value: float) -> None:
        """Set the value for these labels."""
        self.cell(labels)[1].value = value

    def replace(self, values: Iterable[tuple[Mapping[str, object], float]]) -> None:
        """Set all values anew; those that fold into "other" are summed, or the highest of them counts."""
        self._keys = Keys(self._keys.names)
        self._cells = {}
        for labels, value in values:
            known = len(self._cells)
            _, cell = self.cell(self.ordered(labels))
            parts = (value,) if len(self._cells) > known else (cell.value, value)
            cell.value = max(parts) if self._fold == "max" else sum(parts)

    def clear(self) -> None:
        """Have no value for any labels."""
        self.replace(())

    def values(self) -> list[float]:
        """Give the values of all labels."""
        return [cell.value for cell in self._cells.values()]

    def ordered(self, labels: Mapping[str, object]) -> Labels:
        """Give named labels in the metric's order. Raises ValueError for others than it has."""
        names = self._keys.names
        if labels.keys() != set(names):
            raise ValueError(
                f"the labels are {', '.join(names) or 'none'}, not {', '.join(labels) or 'none'}"
            )
        return tuple(labels[name] for name in names)

    def lines(self, name: str) -> list[str]:
        """Give one line a series."""
        return [f"{name}{self._keys.text(key)} {number(cell.value)}" for key, cell in self._cells.items()]


class Buckets:
    """How many observations were up to each of some seconds, by labels."""

    __slots__ = ("_bounds", "_cells", "_heads", "_keys", "_name")

    def __init__(self, name: str, labels: tuple[str, ...], bounds: tuple[float, ...]) -> None:
        self._name = name
        self._keys = Keys(labels, most=MOST_HISTOGRAMS)
        self._bounds = bounds
        self._cells: dict[Key, Times] = {}
        self._heads: dict[Key, tuple[str, ...]] = {}

    def cell(self, labels: Labels) -> tuple[Key, Times]:
        """Give what holds the observations for these labels, and the key that they count under."""
        key = self._keys.of(labels)
        if key not in self._cells:
            self._cells[key] = Times(len(self._bounds) + 1)
            self._heads[key] = self._made_heads(key)
        return key, self._cells[key]

    def lines(self) -> list[str]:
        """Give the lines of all buckets, the sum and the count, for each combination of labels."""
        lines: list[str] = []
        for key, times in self._cells.items():
            *buckets, sum_head, count_head = self._heads[key]
            counts = list(accumulate(times.counts))
            lines += [f"{head}{count}" for head, count in zip(buckets, counts, strict=True)]
            lines += [f"{sum_head}{number(times.total)}", f"{count_head}{counts[-1]}"]
        return lines

    def _made_heads(self, key: Key) -> tuple[str, ...]:
        """Give what stands before the numbers of one series."""
        # As floats are written: to Prometheus 1 and 1.0 may be two buckets, and one of its formats asks for this.
        bounds = (*(repr(float(bound)) for bound in self._bounds), "+Inf")
        text = self._keys.text(key)
        return (
            *(f"{self._name}_bucket{self._keys.text(key, le=bound)} " for bound in bounds),
            *(f"{self._name}_sum{text} ", f"{self._name}_count{text} "),
        )


class Keys:
    """The combinations of a metric's labels that are counted apart. `names` gives the labels' order."""

    __slots__ = ("_key_of", "_known", "_most", "_texts", "_values", "names")

    def __init__(self, names: tuple[str, ...], most: int = MOST_SERIES) -> None:
        self.names = names
        self._most = most
        self._texts: dict[Key, str] = {}
        self._values: tuple[set[str], ...] = tuple(set() for _ in names)
        self._known: set[Key] = set()
        self._key_of: dict[Labels, Key] = {}

    def of(self, labels: Labels) -> Key:
        """Give the key to count these labels under."""
        try:
            return self._key_of[labels]
        except (KeyError, TypeError):  # new, or a value that can't be looked up
            return self._key(labels)

    def _key(self, labels: Labels) -> Key:
        key = tuple(self._folded(value, known) for value, known in zip(labels, self._values, strict=True))
        if key not in self._known:
            if len(self._known) >= self._most:
                named = zip(self.names, key, strict=True)
                return tuple(value if name in CLOSED else OTHER for name, value in named)
            self._known.add(key)
        if key == labels:
            self._key_of[key] = key
        return key

    def text(self, key: Key, le: str | None = None) -> str:
        """Give a key as it stands between braces."""
        if key not in self._texts:
            pairs = [f'{name}="{_escaped(value)}"' for name, value in zip(self.names, key, strict=True)]
            self._texts[key] = ",".join(pairs)
        text = self._texts[key]
        if le is not None:
            text = f'{text},le="{le}"' if text else f'le="{le}"'
        return f"{{{text}}}" if text else ""

    def _folded(self, value: object, known: set[str]) -> str:
        text = "" if value is None else _CONTROL.sub("\ufffd", clean(value, _VALUE_LIMIT_BYTES))
        if text not in known:
            if text == OTHER or len(known) >= MOST_VALUES:
                return OTHER
            known.add(text)
        return text


def number(value: float) -> str:
    """Give a number as Prometheus writes it."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
