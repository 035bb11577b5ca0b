"""The options of an enqueue, as `wakeful.enqueue` in SQL has them, checked where they are written.

Invariant: an `EnqueueOptions` that exists holds only what the database accepts; the mistake is raised in the line
that made it, with all of its problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from wakeful.core import jsontext
from wakeful.core.durations import parse_duration
from wakeful.core.names import (
    KEY_LIMIT_BYTES,
    NAME_LIMIT_BYTES,
    deadline_problem,
    max_attempts_problem,
    name_problem,
    priority_problem,
)
from wakeful.telemetry.tracing.carrier import TRACEPARENT, Carrier

META_LIMIT_BYTES: Final = 16384
LONGEST_WAIT: Final = timedelta(
    days=3650
)  # within the database's ten years of the calendar, whatever the clocks
TAGS_LIMIT: Final = 20
TAGS_LIMIT_BYTES: Final = 2000

_NAMES: Final = (
    ("queue", NAME_LIMIT_BYTES),
    ("subject", KEY_LIMIT_BYTES),
    ("dedupe_key", KEY_LIMIT_BYTES),
    ("group", NAME_LIMIT_BYTES),
    ("limit_key", NAME_LIMIT_BYTES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueOptions:
    """How a job is enqueued; what is left out is what its type declares, else the product's default.

    `run_after` is an aware time (a past one means now); `deadline` is the longest time that one attempt may run, in
    seconds or as "10m" or a timedelta. Raises ValueError naming every option that is wrong.
    """

    queue: str | None = None
    priority: str | None = None
    subject: str | None = None
    dedupe_key: str | None = None
    run_after: datetime | None = None
    max_attempts: int | None = None
    deadline: float | str | timedelta | None = None
    tags: tuple[str, ...] | list[str] | None = None
    meta: Mapping[str, object] | None = None
    group: str | None = None
    limit_key: str | None = None

    def __post_init__(self) -> None:
        """Refuse what the database would refuse, all of it at once."""
        problems = tuple(_problems(self))
        if problems:
            raise ValueError("; ".join(problems))

    @property
    def deadline_seconds(self) -> float | None:
        """The deadline in seconds, where one is given."""
        return None if self.deadline is None else parse_duration(self.deadline)

    @property
    def meta_text(self) -> str | None:
        """The meta data as JSON text, where some are given."""
        return None if self.meta is None else jsontext.dumps(dict(self.meta))

    def document(self) -> dict[str, object]:
        """Give the options that are set as JSON values under the names of the SQL function."""
        values: dict[str, object] = {
            "queue": self.queue,
            "priority": self.priority,
            "subject": self.subject,
            "dedupe_key": self.dedupe_key,
            "run_after": None if self.run_after is None else self.run_after.isoformat(),
            "max_attempts": self.max_attempts,
            "deadline": self.deadline_seconds,
            "tags": None if self.tags is None else list(self.tags),
            "meta": None if self.meta is None else dict(self.meta),
            "group": self.group,
            "limit_key": self.limit_key,
        }
        return {name: value for name, value in values.items() if value is not None}


def with_trace(options: EnqueueOptions, carrier: Carrier | None) -> EnqueueOptions:
    """Give the options with a trace context in their meta data, unless the caller gave one, or there is no room."""
    if carrier is None or (options.meta is not None and TRACEPARENT in options.meta):
        return options
    try:
        return replace(options, meta={**(options.meta or {}), **carrier.members()})
    except ValueError:
        return options


def _problems(options: EnqueueOptions) -> Iterator[str]:
    for name, limit in _NAMES:
        value = getattr(options, name)
        problem = None if value is None else name_problem(value, limit)
        if problem is not None:
            yield f"{name} {problem}"
    if options.priority is not None and (problem := priority_problem(options.priority)):
        yield f"priority {problem}"
    if options.max_attempts is not None and (problem := max_attempts_problem(options.max_attempts)):
        yield f"max_attempts {problem}"
    yield from _time_problems(options)
    yield from _tag_problems(options.tags)
    yield from _meta_problems(options.meta)


def _time_problems(options: EnqueueOptions) -> Iterator[str]:
    if options.run_after is not None:
        if not isinstance(options.run_after, datetime):
            yield f"run_after is a {type(options.run_after).__name__}, not a datetime"
        elif options.run_after.utcoffset() is None:
            yield "run_after has no time zone: use datetime.now(UTC) + ..."
        elif options.run_after - datetime.now(UTC) > LONGEST_WAIT:
            yield "run_after is not within ten years"
    if options.deadline is None:
        return
    try:
        problem = deadline_problem(parse_duration(options.deadline))
    except ValueError as error:
        problem = f"is wrong: {error}"
    if problem is not None:
        yield f"deadline {problem}"


def _tag_problems(tags: object) -> Iterator[str]:
    if tags is None:
        return
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        yield "tags is not a list of strings"
        return
    if len(tags) > TAGS_LIMIT:
        yield f"tags are {len(tags)}; at most {TAGS_LIMIT} are allowed"
    problem = name_problem("".join(tags), TAGS_LIMIT_BYTES) if any(tags) else None
    if problem is not None:
        yield f"tags: their text {problem}"


def _meta_problems(meta: object) -> Iterator[str]:
    if meta is None:
        return
    if not isinstance(meta, Mapping):
        yield f"meta is a {type(meta).__name__}, not a mapping"
        return
    try:
        jsontext.check_size(jsontext.dumps(dict(meta)), META_LIMIT_BYTES, "its text")
    except ValueError as error:
        yield f"meta: {error}"
