"""Every setting of the daemon with its default: the values that all other parts are given.

Invariant: values only, already checked; durations are float seconds, sizes are counts. `config.toml` lists
each of these keys at its default, and a test holds it to that. Reading files and the environment, and saying
what is wrong with them, is for `wakeful.config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from wakeful.core.alert_settings import AlertSettings, RouteSettings, RuleSettings

Pooler = Literal["auto", "direct", "transaction"]
UnknownTypes = Literal["fail", "leave"]
LogFormat = Literal["auto", "json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]
SinkKind = Literal["log", "webhook", "teams", "slack", "discord", "pagerduty", "email", "apprise"]
SinkAddresses = Literal["any", "public"]
HeartbeatMethod = Literal["get", "post"]
TracingMode = Literal["link", "parent", "off"]

MINUTE: Final = 60.0
DAY: Final = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSettings:
    """Where PostgreSQL is.

    `dsn_file` holds the DSN and is read again at each connect, so that passwords can rotate.
    """

    dsn: str | None = field(default=None, repr=False)
    dsn_file: str | None = None
    listen_dsn: str | None = field(default=None, repr=False)
    listen_dsn_file: str | None = None
    connections: int = 4
    pooler: Pooler = "auto"
    connect_timeout: float = 10.0
    statement_timeout: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What one instance runs. `queues` holds queue names, or "*" for every queue that exists or will.

    `processes` are those of types with isolation: `process_memory` is the limit of each in MiB, 0 for none, and after
    `process_jobs` jobs it is replaced.
    """

    name: str | None = None
    concurrency: int = 10
    threads: int = 10
    processes: int = 2
    process_memory: int = 1024
    process_jobs: int = 100
    queues: tuple[str, ...] = ("*",)
    stuck_limit: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """An instance's own cap for one queue: never more than `concurrency` of its jobs run here at once."""

    concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PollSettings:
    """How long a quiet instance waits before it looks again without having been woken."""

    min: float = 1.0
    max: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSettings:
    """How long an owner may be silent.

    `long` is for types that declare a deadline of more than `long_deadline`.
    """

    default: float = 30.0
    long: float = 180.0
    long_deadline: float = 10 * MINUTE
    beat: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaperSettings:
    """How often dead owners are looked for, and how often a job may lose its owner before it is DEAD.

    `backstop` is the grace, past its deadline, after which a job is taken back even from a live owner.
    """

    interval: float = 5.0
    lost_limit: int = 3
    backstop: float = MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainSettings:
    """How long handlers may run on after a stop was asked for, and interrupted ones may unwind."""

    grace: float = 25.0
    interrupt: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """What holds for jobs of every type.

    `subject_paths`: payload keys that name what a job is about, first hit wins.
    """

    unknown_types: UnknownTypes = "fail"
    unknown_type_grace: float = MINUTE
    subject_paths: tuple[str, ...] = ("subject", "place_id")
    snooze_limit: float = DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """How long jobs are kept after their end: `finished` for DONE and CANCELLED, `dead` for dead letters."""

    finished: float = 7 * DAY
    dead: float = 90 * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """The HTTP server of probes and metrics. Port 0 means any free port."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 8080


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """How log lines look, and from which level on they are written; "auto": text on a terminal, else JSON."""

    format: LogFormat = "auto"
    level: LogLevel = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingSettings:
    """How the trace of an attempt hangs together with its producer's, where the process has an OpenTelemetry SDK."""

    mode: TracingMode = "link"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSettings:
    """How often alerts are looked for, the tries of one message, and after how much quiet an alert has ended."""

    interval: float = 5.0
    attempts: int = 20
    quiet: float = 15 * MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSettings:
    """One place that alerts are sent to. Its `url` is a secret, and so is its `key`; `timeout` bounds one try.

    `key`: what signs a webhook (several with blanks between), the key of a PagerDuty integration, the password of a
    mail account. `addresses`: "public" refuses those inside, for URLs that come from others. `sender` and `recipients`
    are those of letters.
    """

    kind: SinkKind
    url: str | None = field(default=None, repr=False)
    url_file: str | None = None
    key: str | None = field(default=None, repr=False)
    key_file: str | None = None
    timeout: float = 10.0
    addresses: SinkAddresses = "any"
    sender: str | None = None
    recipients: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSettings:
    """A URL that is called every so often while this instance serves, so that somebody outside hears of its silence."""

    url: str | None = field(default=None, repr=False)
    url_file: str | None = None
    every: float = MINUTE
    method: HeartbeatMethod = "get"
    timeout: float = 10.0


def _no_queues() -> Mapping[str, QueueSettings]:
    return MappingProxyType({})


def _no_sinks() -> Mapping[str, SinkSettings]:
    return MappingProxyType({})


def _no_routes() -> Mapping[str, RouteSettings]:
    return MappingProxyType({})


def _no_rules() -> Mapping[str, RuleSettings]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of one process.

    `handlers`: modules that hold a `Registry`; `queues`, `sinks`, `routes` (by sink) and `rules` are keyed by name.
    """

    handlers: tuple[str, ...] = ()
    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    queues: Mapping[str, QueueSettings] = field(default_factory=_no_queues)
    poll: PollSettings = field(default_factory=PollSettings)
    lease: LeaseSettings = field(default_factory=LeaseSettings)
    reaper: ReaperSettings = field(default_factory=ReaperSettings)
    drain: DrainSettings = field(default_factory=DrainSettings)
    jobs: JobSettings = field(default_factory=JobSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    log: LogSettings = field(default_factory=LogSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
    outbox: OutboxSettings = field(default_factory=OutboxSettings)
    alerts: AlertSettings = field(default_factory=AlertSettings)
    rules: Mapping[str, RuleSettings] = field(default_factory=_no_rules)
    sinks: Mapping[str, SinkSettings] = field(default_factory=_no_sinks)
    routes: Mapping[str, RouteSettings] = field(default_factory=_no_routes)
    heartbeat: HeartbeatSettings = field(default_factory=HeartbeatSettings)
