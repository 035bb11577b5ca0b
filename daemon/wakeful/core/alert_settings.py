"""The settings of alerts: when something is said, to whom, and from when on a rule speaks.

Invariant: values only, already checked, as in `core.settings`, of which these are three sections. What follows from
them is in `outbox.policy`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

Severity = Literal["info", "warning", "error", "critical"]
Digest = Literal["off", "info", "warning", "error"]

SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "error", "critical")
MINUTE: Final = 60.0
HOUR: Final = 3600.0
DAY: Final = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSettings:
    """When people hear of an alert. `stale`: how old a message may get before it is merged with others of its sink.

    `environment` and `public_url` are shown on cards: which installation it is, and where its page is; with `payload`,
    what the latest job was about, too, but for its secret paths. `link_key` signs links (several keys with blanks
    between: the first signs, all are good), which open things for `link_lifetime`, and change something for
    `action_lifetime`.
    """

    first_wait: float = 10.0
    updates: float = 5 * MINUTE
    repeats: float = 4 * HOUR
    stale: float = HOUR
    environment: str | None = None
    payload: bool = False
    public_url: str | None = None
    link_key: str | None = field(default=None, repr=False)
    link_key_file: str | None = None
    link_lifetime: float = 7 * DAY
    action_lifetime: float = DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSettings:
    """What goes to the sink of the same name, and when.

    `owners`: of the job types concerned, "*" for all alerts and "-" for those without an owner. `after`: only what is
    open and not acknowledged for so long. `digest`: up to this severity, alerts are told together, every
    `digest_every`. `most` cards within `window` (0: no bound), the rest together at its end. `quiet_hours`, such as
    "22:00-07:00" in `zone`: only what is critical.
    """

    severity: Severity = "info"
    owners: tuple[str, ...] = ("*",)
    after: float = 0.0
    digest: Digest = "info"
    digest_every: float = HOUR
    most: int = 20
    window: float = MINUTE
    quiet_hours: str | None = None
    zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """What a rule is told differently: for the alerts that it names, or for all of its own.

    `rule` is the rule's name, or the kind of an alert; without one, the section's own name. `over` and `least` are its
    threshold, as a time or a number. `sinks` are the only ones that hear of it.
    """

    rule: str | None = None
    off: bool = False
    queues: tuple[str, ...] = ()
    job_types: tuple[str, ...] = ()
    over: float | None = None
    least: int | None = None
    severity: Severity | None = None
    sinks: tuple[str, ...] = ()
