"""Makes `docs/events.md` and, with `metrics`, the table of `docs/monitoring.md`.

`python -m wakeful.telemetry.reference > docs/events.md`

Invariant: both say what the catalogues say and nothing else; tests compare them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from wakeful.telemetry.events import EVENTS, Event
from wakeful.telemetry.exposition import unit_of
from wakeful.telemetry.meters import METERS, Counter

_HEAD = """# Events

Made by `python -m wakeful.telemetry.reference`; not to be edited.

Everything that the daemon says is an event of this catalogue: a line of the log, a counter, a mark on the live page.
Names and fields keep their meaning from release to release. Fields are there where they are known; times are in
seconds, unless their name ends in `_ms`. Each attempt ends with exactly one of the events `job.finished`,
`job.retried`, `job.died`, `job.snoozed`, `job.cancelled`, `job.handed_back`, `job.lost` and `job.unknown_outcome`: its
canonical line. A stop is never an error; `critical` comes only just before the process ends by itself. What is counted
of them: [metrics](monitoring.md#metrics).
"""


def page() -> str:
    """Give the page as Markdown."""
    return "\n".join([_HEAD, *_events()])


def metrics_table() -> str:
    """Give the table of metrics as Markdown."""
    return "\n".join(_meters())


def _events() -> Iterator[str]:
    yield from ("| event | level | what happened | fields |", "| --- | --- | --- | --- |")
    yield from (_row(event) for event in EVENTS)
    yield ""


def _row(event: Event) -> str:
    fields = " ".join(f"`{name}`" for name in event.fields)
    return f"| `{event.name}` | {event.level} | {event.help} | {fields} |"


def _meters() -> Iterator[str]:
    yield from (
        "| metric | kind | unit | what it is | labels | counts |",
        "| --- | --- | --- | --- | --- | --- |",
    )
    for meter in METERS:
        counts = " ".join(f"`{event.name}`" for event in meter.events) if isinstance(meter, Counter) else ""
        labels = " ".join(f"`{name}`" for name in meter.labels)
        kind = type(meter).__name__.lower()
        yield f"| `{meter.name}` | {kind} | {unit_of(meter)} | {meter.help} | {labels} | {counts} |"


if __name__ == "__main__":
    sys.stdout.write(metrics_table() + "\n" if sys.argv[1:] == ["metrics"] else page())
