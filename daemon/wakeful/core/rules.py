"""What values the settings may have: the bounds of each number, and which ones contradict each other.

Invariant: each rule is one entry or one function; its text says what is wrong, why it matters and what to do.
A rule on a setting that is already known to be wrong is silent, so that one mistake gives one problem.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from wakeful.core.alert_rules import alert_problems
from wakeful.core.dsn import dsn_problem
from wakeful.core.durations import format_duration
from wakeful.core.names import name_problem
from wakeful.core.settings import Settings
from wakeful.core.sink_rules import sink_problems

MOST: Final = 10_000
TICK: Final = 0.01

# Each number: (least, most). Durations have no upper bound here; `core.durations` allows ten years.
BOUNDS: Final[Mapping[str, tuple[float, float | None]]] = {
    "database.connections": (1, 1000),
    "database.connect_timeout": (TICK, None),
    "database.statement_timeout": (TICK, None),
    "worker.concurrency": (1, MOST),
    "worker.threads": (1, MOST),
    "worker.processes": (1, 1000),
    "worker.process_memory": (0, 2**30),
    "worker.process_jobs": (1, None),
    "worker.stuck_limit": (0, MOST),
    "queues.NAME.concurrency": (1, MOST),
    "poll.min": (TICK, None),
    "poll.max": (TICK, None),
    "lease.default": (TICK, None),
    "lease.long": (TICK, None),
    "lease.long_deadline": (0, None),
    "lease.beat": (TICK, None),
    "reaper.interval": (TICK, None),
    "reaper.lost_limit": (1, 1000),
    "reaper.backstop": (0, None),
    "drain.grace": (0, None),
    "drain.interrupt": (0, None),
    "jobs.unknown_type_grace": (0, None),
    "jobs.snooze_limit": (0, None),
    "history.finished": (0, None),
    "history.dead": (0, None),
    "http.port": (0, 65535),
    "outbox.interval": (TICK, None),
    "outbox.attempts": (1, 1000),
    "outbox.quiet": (0, None),
    "alerts.first_wait": (0, None),
    "alerts.updates": (0, None),
    "alerts.repeats": (TICK, None),
    "alerts.stale": (TICK, None),
    "alerts.link_lifetime": (1, None),
    "alerts.action_lifetime": (1, None),
    "rules.NAME.over": (0, None),
    "rules.NAME.least": (1, None),
    "routes.NAME.after": (0, None),
    "routes.NAME.digest_every": (TICK, None),
    "routes.NAME.most": (0, MOST),
    "routes.NAME.window": (TICK, None),
    "sinks.NAME.timeout": (TICK, None),
    "heartbeat.every": (1, None),
    "heartbeat.timeout": (TICK, None),
}

_NAMED: Final = frozenset({"queues", "sinks", "routes", "rules"})
_MODULE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*)?")

_Problem = tuple[
    tuple[str, ...], str
]  # the settings that it is about, the first one named; what is wrong with them


def check_bounds(dotted: str, number: float) -> None:
    """Raise ValueError where the setting's number is out of its bounds."""
    least, most = BOUNDS[_general(dotted)]
    is_duration = isinstance(number, float)
    shown = _number(number, is_duration=is_duration)
    if number < least:
        raise ValueError(
            f"{shown} is less than {_number(least, is_duration=is_duration)}, the least that it may be"
        )
    if most is not None and number > most:
        raise ValueError(
            f"{shown} is more than {_number(most, is_duration=is_duration)}, the most that it may be"
        )


def contradictions(settings: Settings, *, skip: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Give (dotted path, what is wrong) for each broken rule, but for those about a setting in `skip`."""
    rules = (_database, _worker, _queues, _names, _poll, _lease, _http, sink_problems, alert_problems)
    found = (problem for rule in rules for problem in rule(settings))
    return tuple((paths[0], what) for paths, what in found if skip.isdisjoint(paths))


def _database(settings: Settings) -> Iterator[_Problem]:
    database = settings.database
    for path, dsn in (("database.dsn", database.dsn), ("database.listen_dsn", database.listen_dsn)):
        problem = None if dsn is None else dsn_problem(dsn)
        if problem is not None:
            yield (path,), problem


def _worker(settings: Settings) -> Iterator[_Problem]:
    if not settings.worker.queues:
        yield ("worker.queues",), 'is empty: name the queues to serve, or "*" for all'
    for module in settings.handlers:
        if not _MODULE.fullmatch(module):
            yield ("handlers",), f'{module!r} is not the name of a module, such as "myapp.jobs"'


def _queues(settings: Settings) -> Iterator[_Problem]:
    most = settings.worker.concurrency
    for name, queue in settings.queues.items():
        path = f"queues.{name}.concurrency"
        if queue.concurrency > most:
            text = (
                f"{queue.concurrency} is more than worker.concurrency ({most}), which caps the whole instance"
            )
            yield (path, "worker.concurrency"), text


def _names(settings: Settings) -> Iterator[_Problem]:
    """What the database would refuse as a name, or keep under another one, is none here either."""
    for section in ("queues", "sinks", "routes", "rules"):
        for name in getattr(settings, section):
            yield from _name(f"{section}.{name}", (name,), "its name")
    yield from _name("worker.queues", settings.worker.queues, "a queue's name")
    yield from _name("alerts.environment", (settings.alerts.environment or "-",), "it")
    for name, rule in settings.rules.items():
        yield from _name(f"rules.{name}.queues", rule.queues, "a queue's name")
        yield from _name(f"rules.{name}.job_types", rule.job_types, "a job type")
    for name, route in settings.routes.items():
        yield from _name(f"routes.{name}.owners", route.owners, "an owner's name")


def _name(path: str, names: Iterable[str], what: str) -> Iterator[_Problem]:
    for name in names:
        problem = name_problem(name if name.strip() else "")
        if problem is not None:
            yield (path,), f"{what} {problem}"


def _poll(settings: Settings) -> Iterator[_Problem]:
    if settings.poll.min > settings.poll.max:
        text = f"{_time(settings.poll.min)} is more than poll.max ({_time(settings.poll.max)})"
        yield ("poll.min", "poll.max"), text


def _lease(settings: Settings) -> Iterator[_Problem]:
    lease = settings.lease
    for path, length in (("lease.default", lease.default), ("lease.long", lease.long)):
        if length < 3 * lease.beat:
            text = f"{_time(length)} is less than three times lease.beat ({_time(lease.beat)})"
            yield (path, "lease.beat"), f"{text}: one lost heartbeat would cost every job"
    if 3 * lease.beat <= lease.long < lease.default:
        text = f"{_time(lease.long)} is less than lease.default ({_time(lease.default)})"
        yield ("lease.long", "lease.default"), text


def _http(settings: Settings) -> Iterator[_Problem]:
    if any(character.isspace() or character == "/" for character in settings.http.host):
        yield ("http.host",), 'is not a host name or address, such as "127.0.0.1" or "0.0.0.0"'


def _general(dotted: str) -> str:
    section, _, rest = dotted.partition(".")
    return f"{section}.NAME.{rest.rpartition('.')[2]}" if section in _NAMED else dotted


def _number(number: float, *, is_duration: bool) -> str:
    return _time(number) if is_duration else f"{number:g}"


def _time(seconds: float) -> str:
    return format_duration(seconds)
