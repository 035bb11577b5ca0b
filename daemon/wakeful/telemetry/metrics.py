"""The values of all metrics, fed by events and by loops, and their text for Prometheus.

Invariant: memory and the size of the text are bounded, whatever labels come (F89), and rendering only reads
memory (F88). Thread-safe. What the metrics are is in `meters`, in which form they are given in `exposition`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from threading import Lock
from typing import Final

from wakeful.telemetry.events import Event
from wakeful.telemetry.exposition import PROMETHEUS, TextForm, head
from wakeful.telemetry.feeding import Feed, counting, setting, timing
from wakeful.telemetry.footprint import processor_seconds, resident_bytes
from wakeful.telemetry.meters import METERS, Age, Counter, Gauge, Histogram, Meter
from wakeful.telemetry.series import Buckets, Series, number

BUILD: Final = "wakeful_build_info"


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

    def hide(self) -> None:
        """Show none, until it is reset."""
        with self._lock:
            self._series.clear()


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
        self._series["process_start_time_seconds"].set((), round(time.time(), 3))
        self.built(schema=None)

    def built(self, *, schema: int | None) -> None:
        """Tell which version runs here, on which version of the schema; None: not known yet."""
        labels = {"version": _version(), "schema": schema}
        self.gauge(BUILD).replace([(labels, 1)])

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

    def render(self, form: TextForm = PROMETHEUS) -> str:
        """Give all metrics in one of the text forms."""
        lines: list[str] = []
        with self._lock:
            self._look_at_process()
            for meter in self._meters.values():
                lines += head(meter, form)
                lines += self._lines(meter)
        return "\n".join(lines) + "\n" + form.ending

    def _look_at_process(self) -> None:
        self._series["process_cpu_seconds_total"].set((), round(processor_seconds(), 3))
        memory = resident_bytes()
        if memory is not None:
            self._series["process_resident_memory_bytes"].set((), memory)

    def _prepare(self, meter: Meter) -> None:
        match meter:
            case Histogram():
                buckets = self._histograms[meter.name] = Buckets(meter.name, meter.labels, meter.buckets)
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

    def _lines(self, meter: Meter) -> list[str]:
        if isinstance(meter, Histogram):
            return self._histograms[meter.name].lines()
        if isinstance(meter, Age):
            now = self._clock()
            return [f"{meter.name} {number(now - since)}" for since in self._series[meter.name].values()]
        return self._series[meter.name].lines(meter.name)


def _version() -> str:
    try:
        return metadata.version("wakeful")
    except metadata.PackageNotFoundError:
        return "0+unknown"
