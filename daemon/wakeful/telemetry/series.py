"""The series of one metric: a value for each combination of its labels, as many as there may be and no more.

Invariant: beyond a number of values, a label's new ones count as "other", and so does a new combination
beyond the number of series; what is already counted by its name stays so. Not thread-safe: `metrics` has the
lock.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from wakeful.core.text import clean

MOST_VALUES: Final = 50
MOST_SERIES: Final = 500
OTHER: Final = "other"

_VALUE_LIMIT_BYTES: Final = 120
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")

Key = tuple[str, ...]
Labels = tuple[object, ...]  # the values, in the order of the metric's labels


class Series:
    """Numbers by labels."""

    __slots__ = ("_fold", "_keys", "_values")

    def __init__(self, labels: tuple[str, ...], *, fold: Literal["sum", "max"] = "sum") -> None:
        self._keys = Keys(labels)
        self._fold = fold
        self._values: dict[Key, float] = {}

    def add(self, labels: Labels, amount: float) -> None:
        """Add to the value for these labels."""
        key = self._keys.of(labels)
        self._values[key] = self._values.get(key, 0.0) + amount

    def set(self, labels: Labels, value: float) -> None:
        """Set the value for these labels."""
        self._values[self._keys.of(labels)] = value

    def replace(self, values: Iterable[tuple[Mapping[str, object], float]]) -> None:
        """Set all values anew; those that fold into "other" are summed, or the highest of them counts."""
        self._keys = Keys(self._keys.names)
        self._values = {}
        for labels, value in values:
            key = self._keys.of(self.ordered(labels))
            parts = (self._values[key], value) if key in self._values else (value,)
            self._values[key] = max(parts) if self._fold == "max" else sum(parts)

    def value(self, labels: Labels) -> float:
        """Give the value for these labels."""
        return self._values[self._keys.of(labels)]

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
        return [f"{name}{self._keys.text(key)} {number(value)}" for key, value in self._values.items()]


class Buckets:
    """How many observations were up to each of some seconds, by labels."""

    __slots__ = ("_bounds", "_counts", "_keys", "_sums")

    def __init__(self, labels: tuple[str, ...], bounds: tuple[float, ...]) -> None:
        self._keys = Keys(labels)
        self._bounds = bounds
        self._counts: dict[Key, list[int]] = {}
        self._sums: dict[Key, float] = {}

    def observe(self, labels: Labels, seconds: float) -> None:
        """Count one observation."""
        key = self._keys.of(labels)
        counts = self._counts.setdefault(key, [0] * (len(self._bounds) + 1))
        counts[bisect_left(self._bounds, seconds)] += 1
        self._sums[key] = self._sums.get(key, 0.0) + seconds

    def lines(self, name: str) -> list[str]:
        """Give the lines of all buckets, the sum and the count, for each combination of labels."""
        lines: list[str] = []
        for key, counts in self._counts.items():
            total = 0
            for bound, count in zip((*self._bounds, math.inf), counts, strict=True):
                total += count
                lines.append(f"{name}_bucket{self._keys.text(key, le=number(bound))} {total}")
            lines.append(f"{name}_sum{self._keys.text(key)} {number(self._sums[key])}")
            lines.append(f"{name}_count{self._keys.text(key)} {total}")
        return lines


class Keys:
    """The combinations of a metric's labels that are counted apart. `names` gives the labels' order."""

    __slots__ = ("_key_of", "_known", "_values", "names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
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
            if len(self._known) >= MOST_SERIES:
                return (OTHER,) * len(self.names)
            self._known.add(key)
        if key == labels:
            self._key_of[key] = key
        return key

    def text(self, key: Key, le: str | None = None) -> str:
        """Give a key as it stands between braces."""
        pairs = [f'{name}="{_escaped(value)}"' for name, value in zip(self.names, key, strict=True)]
        if le is not None:
            pairs.append(f'le="{le}"')
        return f"{{{','.join(pairs)}}}" if pairs else ""

    def _folded(self, value: object, known: set[str]) -> str:
        text = "" if value is None else _CONTROL.sub("\ufffd", clean(value, _VALUE_LIMIT_BYTES))
        if text not in known:
            if len(known) >= MOST_VALUES:
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
