"""Makes `docs/events.md` from the catalogues of events and metrics: `python -m wakeful.telemetry.reference`.

Invariant: the page says what the catalogues say and nothing else; a test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from wakeful.telemetry.events import EVENTS, Event
from wakeful.telemetry.meters import METERS, Counter

_HEAD = """# Events and metrics

Made by `python -m wakeful.telemetry.reference`; not to be edited.

Everything that the daemon says is an event of this catalogue: a line of the log, a counter, a mark on the live page.
Names and fields keep their meaning from release to release. Fields are there where they are known; times are in
seconds, unless their name ends in `_ms`. Each attempt ends with exactly one of the events `job.finished`,
`job.retried`, `job.died`, `job.snoozed`, `job.cancelled`, `job.handed_back`, `job.lost` and `job.unknown_outcome`: its
canonical line. A stop is never an error; `critical` comes only just before the process ends by itself.
"""

_METRICS = """## Metrics

`GET /metrics` answers from memory, in Prometheus' text format, without a call to the database. What is read from the
database is refreshed in the background; `wakeful_database_gauges_age_seconds` says how long ago. It is the same in
every instance, so use `max by (...)`. A label with many values ends in `other` beyond fifty of them.
"""


def page() -> str:
    """Give the page as Markdown."""
    return "\n".join([_HEAD, *_events(), _METRICS, *_meters(), ""])


def _events() -> Iterator[str]:
    yield from ("| event | level | what happened | fields |", "| --- | --- | --- | --- |")
    yield from (_row(event) for event in EVENTS)
    yield ""


def _row(event: Event) -> str:
    fields = " ".join(f"`{name}`" for name in event.fields)
    return f"| `{event.name}` | {event.level} | {event.help} | {fields} |"


def _meters() -> Iterator[str]:
    yield from ("| metric | kind | what it is | labels | counts |", "| --- | --- | --- | --- | --- |")
    for meter in METERS:
        counts = " ".join(f"`{event.name}`" for event in meter.events) if isinstance(meter, Counter) else ""
        labels = " ".join(f"`{name}`" for name in meter.labels)
        yield f"| `{meter.name}` | {type(meter).__name__.lower()} | {meter.help} | {labels} | {counts} |"


if __name__ == "__main__":
    sys.stdout.write(page())
