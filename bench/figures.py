"""What a measurement gives: samples of one round, gathered over rounds into figures with median and range.

A sample knows its unit, which way is better and how it was got, so that a table or a file explains itself.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One value of one round."""

    name: str
    value: float
    unit: str
    better: Better
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One curve over time: points of (seconds since the start, value)."""

    name: str
    unit: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All that one round of one measurement gave."""

    samples: Sequence[Sample]
    series: Sequence[Series] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One quantity over all rounds, in their order."""

    name: str
    values: Sequence[float]
    unit: str
    better: Better
    how: str

    @property
    def median(self) -> float:
        """The middle of the rounds' values."""
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """Smallest and largest value."""
        return min(self.values), max(self.values)


@dataclass(slots=True)
class Results:
    """What was measured so far: samples by name, in the order of their first round, and the last round's curves."""

    rounds: list[dict[str, Sample]] = field(default_factory=list)
    series: dict[str, Series] = field(default_factory=dict)

    def begin_round(self) -> None:
        """What is added from now on belongs to a new round."""
        self.rounds.append({})

    def add(self, outcome: Outcome) -> None:
        """Add one measurement of the present round."""
        self.rounds[-1].update({sample.name: sample for sample in outcome.samples})
        self.series.update({series.name: series for series in outcome.series})

    def figures(self) -> list[Figure]:
        """Every quantity, in the order in which it was first measured."""
        first = {name: sample for samples in reversed(self.rounds) for name, sample in samples.items()}
        names = dict.fromkeys(name for samples in self.rounds for name in samples)
        return [figure_of(first[name], self._values(name)) for name in names]

    def latest(self, outcome: Outcome) -> list[Figure]:
        """The figures of one measurement alone, of the present round."""
        return [figure_of(sample, [sample.value]) for sample in outcome.samples]

    def _values(self, name: str) -> list[float]:
        return [samples[name].value for samples in self.rounds if name in samples]


def figure_of(sample: Sample, values: Sequence[float]) -> Figure:
    """Describe values as the sample describes itself."""
    return Figure(name=sample.name, values=values, unit=sample.unit, better=sample.better, how=sample.how)


def shown(value: float) -> str:
    """A value with three or four digits that count."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def table(figures: Iterable[Figure]) -> str:
    """The figures as aligned lines: name, median, range, unit, which way is better."""
    rows = [("what", "median", "range", "unit", "better")]
    for figure in figures:
        low, high = figure.spread
        spread = f"{shown(low)} … {shown(high)}" if len(figure.values) > 1 else ""
        rows.append((figure.name, shown(figure.median), spread, figure.unit, figure.better))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        f"{name:<{widths[0]}}  {median:>{widths[1]}}  {spread:>{widths[2]}}  {unit:<{widths[3]}}  {better}".rstrip()
        for name, median, spread, unit, better in rows
    )
