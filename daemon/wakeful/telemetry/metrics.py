"""The values of all metrics, fed by events and by loops, and their text for Prometheus.

Invariant: memory and the size of the text are bounded, whatever labels come (F89), and rendering only reads
memory (F88). Thread-safe. What the metrics are is in `meters`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Final

from wakeful.telemetry.events import Event
from wakeful.telemetry.feeding import Feed, counting, setting, timing
from wakeful.telemetry.meters import METERS, Age, Counter, Gauge, Histogram, Meter
from wakeful.telemetry.series import Buckets, Series, number

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class CounterHandle:
    """Adds to one counter."""

    __slots__ = ("_lock", "_series")

    def __init__(self, series: Series, lock: Lock) -> None:
        self._series, self._lock = series, lock

    def inc(self, amount: float = 1.0, **labels: object) -> None:
        """Add `amount`."""
        with self._lock:
            self._series.add(self._series.ordered(labels), amount)


class GaugeHandle:
    """Sets one gauge."""

    __slots__ = ("_lock", "_series")

    def __init__(self, series: Series, lock: Lock) -> None:
        self._series, self._lock = series, lock

    def set(self, value: float, **labels: object) -> None:
        """Set the value for these labels."""
        with self._lock:
            self._series.set(self._series.ordered(labels), value)

    def replace(self, values: Iterable[tuple[Mapping[str, object], float]]) -> None:
        """Set all values at once, each with its labels: what is not among them disappears."""
        with self._lock:
            self._series.replace(values)


class AgeHandle:
    """Resets one age."""

    __slots__ = ("_clock", "_lock", "_series")

    def __init__(self, series: Series, lock: Lock, clock: Callable[[], float]) -> None:
        self._series, self._lock, self._clock = series, lock, clock

    def reset(self) -> None:
        """Start again from zero."""
        with self._lock:
            self._series.set((), self._clock())


class Metrics:
    """All metrics of one process. `clock` gives monotonic seconds."""

    __slots__ = ("_clock", "_feeds", "_histograms", "_lock", "_meters", "_series")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._meters: Mapping[str, Meter] = {meter.name: meter for meter in METERS}
        self._series: dict[str, Series] = {}
        self._histograms: dict[str, Buckets] = {}
        self._feeds: dict[Event, list[Feed]] = {}
        for meter in METERS:
            self._prepare(meter)

    def wants(self, event: Event) -> bool:
        """Whether an event feeds any metric."""
        return event in self._feeds

    def on_event(self, event: Event, fields: Mapping[str, object]) -> None:
        """Subscriber of the bus."""
        feeds = self._feeds.get(event)
        if feeds is not None:
            with self._lock:
                for feed in feeds:
                    feed(fields)

    def gauge(self, name: str) -> GaugeHandle:
        """Give the gauge of that name; KeyError where the catalogue has none."""
        return GaugeHandle(self._series[self._known(name, Gauge)], self._lock)

    def counter(self, name: str) -> CounterHandle:
        """Give the counter of that name; KeyError where the catalogue has none."""
        return CounterHandle(self._series[self._known(name, Counter)], self._lock)

    def age(self, name: str) -> AgeHandle:
        """Give the age of that name; KeyError where the catalogue has none."""
        return AgeHandle(self._series[self._known(name, Age)], self._lock, self._clock)

    def render(self) -> str:
        """Give all metrics in Prometheus' text format (version 0.0.4)."""
        lines: list[str] = []
        with self._lock:
            for meter in self._meters.values():
                lines += self._rendered(meter)
        return "\n".join(lines) + "\n"

    def _prepare(self, meter: Meter) -> None:
        match meter:
            case Histogram():
                buckets = self._histograms[meter.name] = Buckets(meter.labels, meter.buckets)
                self._feed((event, timing(meter, event, buckets)) for event in meter.events)
            case Counter():
                series = self._series[meter.name] = Series(meter.labels)
                if not meter.labels:
                    series.set((), 0.0)
                self._feed((event, counting(meter, event, series)) for event in meter.events)
            case Gauge():
                series = self._series[meter.name] = Series(meter.labels, fold=meter.fold)
                self._feed((event, setting(meter, event, series)) for event, _ in meter.events)
            case Age():
                series = self._series[meter.name] = Series(meter.labels)
                series.set((), self._clock())

    def _feed(self, feeds: Iterable[tuple[Event, Feed]]) -> None:
        for event, feed in feeds:
            self._feeds.setdefault(event, []).append(feed)

    def _known(self, name: str, kind: type[Meter]) -> str:
        if not isinstance(self._meters.get(name), kind):
            raise KeyError(f"{name} is no {kind.__name__.lower()} in telemetry.meters")
        return name

    def _rendered(self, meter: Meter) -> list[str]:
        kind = {Counter: "counter", Histogram: "histogram"}.get(type(meter), "gauge")
        head = [f"# HELP {meter.name} {meter.help}", f"# TYPE {meter.name} {kind}"]
        if isinstance(meter, Histogram):
            return head + self._histograms[meter.name].lines(meter.name)
        if isinstance(meter, Age):
            since = self._series[meter.name].value(())
            return [*head, f"{meter.name} {number(self._clock() - since)}"]
        return head + self._series[meter.name].lines(meter.name)
