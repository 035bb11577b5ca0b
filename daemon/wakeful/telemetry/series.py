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


class Series:
    """Numbers by labels."""

    __slots__ = ("_fold", "_keys", "_values")

    def __init__(self, labels: tuple[str, ...], *, fold: Literal["sum", "max"] = "sum") -> None:
        self._keys = Keys(labels)
        self._fold = fold
        self._values: dict[Key, float] = {}

    def add(self, labels: Mapping[str, object], amount: float) -> None:
        """Add to the value for these labels."""
        key = self._keys.of(labels)
        self._values[key] = self._values.get(key, 0.0) + amount

    def set(self, labels: Mapping[str, object], value: float) -> None:
        """Set the value for these labels."""
        self._values[self._keys.of(labels)] = value

    def replace(self, values: Iterable[tuple[Mapping[str, object], float]]) -> None:
        """Set all values anew; those that fold into "other" are summed, or the highest of them counts."""
        self._keys = Keys(self._keys.labels)
        self._values = {}
        for labels, value in values:
            key = self._keys.of(labels)
            parts = (self._values[key], value) if key in self._values else (value,)
            self._values[key] = max(parts) if self._fold == "max" else sum(parts)

    def value(self, labels: Mapping[str, object]) -> float:
        """Give the value for these labels."""
        return self._values[self._keys.of(labels)]

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

    def observe(self, labels: Mapping[str, object], seconds: float) -> None:
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
    """The combinations of a metric's labels that are counted apart."""

    __slots__ = ("_known", "_values", "labels")

    def __init__(self, labels: tuple[str, ...]) -> None:
        self.labels = labels
        self._values: tuple[set[str], ...] = tuple(set() for _ in labels)
        self._known: set[Key] = set()

    def of(self, labels: Mapping[str, object]) -> Key:
        """Give the key to count these labels under.

        Raises ValueError for labels that the metric does not have.
        """
        if labels.keys() != set(self.labels):
            raise ValueError(
                f"the labels are {', '.join(self.labels) or 'none'}, not {', '.join(labels) or 'none'}"
            )
        key = tuple(
            self._folded(labels[name], known) for name, known in zip(self.labels, self._values, strict=True)
        )
        if key not in self._known:
            if len(self._known) >= MOST_SERIES:
                return (OTHER,) * len(self.labels)
            self._known.add(key)
        return key

    def text(self, key: Key, le: str | None = None) -> str:
        """Give a key as it stands between braces."""
        pairs = [f'{name}="{_escaped(value)}"' for name, value in zip(self.labels, key, strict=True)]
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
