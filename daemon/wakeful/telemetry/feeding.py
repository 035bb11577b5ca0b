"""How events feed metrics: what a metric takes from an event's fields is worked out once, when the process starts.

Invariant: an event costs no look at the catalogue of metrics, and for labels that came before one look-up a metric;
what is remembered is bounded by the series. Not thread-safe: `metrics` has the lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TypeVar

from wakeful.telemetry.events import Event
from wakeful.telemetry.meters import OUTCOME, OUTCOMES, Counter, Gauge, Histogram
from wakeful.telemetry.series import Buckets, Key, Labels, Series

Fields = Mapping[str, object]
C = TypeVar("C")
Feed = Callable[[Fields], None]


def counting(counter: Counter, event: Event, series: Series) -> Feed:
    """Give what counts one `event`, or as many as its field `amount` says."""
    cell_of, amount = _cells(counter.labels, event, series.cell), counter.amount

    def count_one(fields: Fields) -> None:
        cell_of(fields).value += 1.0

    def count_many(fields: Fields) -> None:
        number = _number_in(fields, amount or "")
        if number is not None and number > 0:
            cell_of(fields).value += number

    return count_one if amount is None else count_many


def timing(histogram: Histogram, event: Event, buckets: Buckets) -> Feed:
    """Give what puts the time that an `event` names into its bucket."""
    cell_of, bounds = _cells(histogram.labels, event, buckets.cell), histogram.buckets
    field, scale = histogram.field, histogram.scale

    def time(fields: Fields) -> None:
        numbers = _numbers_in(fields, field)
        if numbers:
            cell = cell_of(fields)
            for number in numbers:
                seconds = number * scale if number > 0 else 0.0
                cell.counts[bisect_left(bounds, seconds)] += 1
                cell.total += seconds

    return time


def setting(gauge: Gauge, event: Event, series: Series) -> Feed:
    """Give what sets a gauge to its number for this `event`."""
    cell_of, value = _cells(gauge.labels, event, series.cell), dict(gauge.events)[event]

    def set_value(fields: Fields) -> None:
        cell_of(fields).value = value

    return set_value


def _cells(
    names: tuple[str, ...], event: Event, find: Callable[[Labels], tuple[Key, C]]
) -> Callable[[Fields], C]:
    """Give what finds the cell for an event's fields: 0.2 µs where the labels came before, 3 where they did not."""
    outcome = None if OUTCOME in event.fields else event.name.partition(".")[2]
    taken = tuple(name for name in names if name != OUTCOME or outcome is None)
    pick: Callable[[Fields], object] = itemgetter(*taken) if taken else lambda fields: ()
    known: dict[object, C] = {}

    def cell_of(fields: Fields) -> C:
        try:
            return known[pick(fields)]
        except (KeyError, TypeError):  # new, a field is not there, or a value that can't be looked up
            return found(fields)

    def found(fields: Fields) -> C:
        labels = tuple(
            _word_of(outcome or fields.get(OUTCOME)) if name == OUTCOME else fields.get(name)
            for name in names
        )
        key, cell = find(labels)
        if key == labels:  # so there are no more of them than series
            known[pick(fields)] = cell
        return cell

    return cell_of


def _word_of(outcome: object) -> object:
    return OUTCOMES.get(outcome, outcome) if isinstance(outcome, str) else outcome


def _number_in(fields: Fields, name: str) -> float | None:
    value = fields.get(name)
    return value if isinstance(value, (int, float)) else None


def _numbers_in(fields: Fields, name: str) -> Sequence[float]:
    given = fields.get(name)
    if isinstance(given, list):
        return given
    return (given,) if isinstance(given, (int, float)) else ()
