"""The one taxonomy of errors: what Wakeful raises, and what handlers raise to say exactly what should happen.

A class carries data; its docstring is the advice. Foreign errors (asyncpg's, the operating system's) are translated
once, in ``store.database``; nothing else in the package sees them.
"""

from __future__ import annotations

from datetime import timedelta


def seconds_of(delay: float | int | timedelta) -> float:
    """Give a delay, in seconds or as a timedelta, as seconds."""
    return delay.total_seconds() if isinstance(delay, timedelta) else float(delay)


class WakefulError(Exception):
    """Whatever Wakeful itself raises."""


class ConfigError(WakefulError):
    """The configuration has mistakes; all of them are in `problems`, each with its path. Exit code 78."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class SchemaMismatch(WakefulError):
    """The schema is missing, too old or newer-breaking; the message names the command that helps. Exit 78."""


class StoreError(WakefulError):
    """The database did not do what it was asked."""


class StoreUnavailable(StoreError):
    """The database can't be reached or asks to try again later: an outage of the process, never a fault of a job."""


class ConnectionLost(StoreUnavailable):
    """A connection broke or gave no answer; a new one may work at once. What became of the statement is unknown."""


class StoreBusy(StoreUnavailable):
    """The server is there, but a lock, a deadline or a conflict stood in the way; the statement changed nothing."""


class DataRefused(StoreError):
    """PostgreSQL refused a value (class 22 or 23): split the batch, or store the last-resort text."""


class OptionRefused(StoreError):
    """A public SQL function refused its input: `sqlstate` of class WK, with a hint that says what to do."""

    def __init__(self, sqlstate: str, message: str, hint: str | None) -> None:
        self.sqlstate = sqlstate
        self.message = message
        self.hint = hint
        super().__init__(message if hint is None else f"{message} ({hint})")


class LeaseLost(StoreError):
    """The job is held by another claim or by none: this attempt may not write any more."""


class UnknownJobType(WakefulError):
    """No handler is registered for this job type."""

    def __init__(self, job_type: str) -> None:
        self.job_type = job_type
        super().__init__(f"no handler is registered for job type {job_type!r}")


class InvalidPayload(WakefulError):
    """The payload does not fit the handler's declared type; the job is DEAD at once. `problems` names each field."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class JobDeadlineExceeded(WakefulError):
    """The handler ran past its job's deadline and was cancelled."""


class JobCancelled(WakefulError):
    """An operator or a producer asked that this running job be cancelled."""


class JobInterrupted(WakefulError):
    """The process is stopping; the job is handed back and its attempt is returned."""


class NoFreeThread(JobInterrupted):
    """A plain handler waited for a thread until its deadline and never began; the job is put back as it was."""


class ProcessDied(WakefulError):
    """The process that a handler with isolation ran in has ended before the handler; the message says how."""


class MemoryLimitExceeded(WakefulError):
    """A handler's process took more memory than `worker.process_memory` allows, and was killed or refused."""


class Directive(WakefulError):
    """Raised by a handler to say what should happen to its job; not a failure of the handler's code.

    `fingerprint`: where it was raised, if that was in another process.
    """

    fingerprint: str | None = None


class Retry(Directive):
    """Fail this attempt and try again after at least `after` (it spends the attempt)."""

    def __init__(
        self, after: float | int | timedelta = 0.0, reason: str = "retry asked for by the handler"
    ) -> None:
        self.after = seconds_of(after)
        self.reason = reason
        super().__init__(reason)


class Snooze(Directive):
    """Run again after `after` without spending the attempt; the total time so spent is bounded."""

    def __init__(self, after: float | int | timedelta, reason: str = "snoozed by the handler") -> None:
        self.after = seconds_of(after)
        self.reason = reason
        super().__init__(reason)


class RateLimited(Snooze):
    """A server said "too many requests": run again after `after`, the attempt is not spent."""

    def __init__(self, after: float | int | timedelta = 60.0, reason: str = "rate limited") -> None:
        super().__init__(after, reason)


class Fail(Directive):
    """The attempt failed for `reason`; with ``retry=False`` the job is DEAD at once, with its alert."""

    def __init__(self, reason: str, *, retry: bool = False) -> None:
        self.reason = reason
        self.retry = retry
        super().__init__(reason)


class Discard(Directive):
    """The job is no longer wanted: CANCELLED for `reason`, without an alert."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class EmbeddedUnavailable(WakefulError):
    """No private PostgreSQL can be started here; the message names the cause and what to install or to change."""


class DataFolderInUse(EmbeddedUnavailable):
    """Another process has this data folder's server running. `pid` is that process, None where it can't be known."""

    def __init__(self, folder: str, pid: int | None) -> None:
        self.folder = folder
        self.pid = pid
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(
            f"the data folder {folder} is in use by {holder}: stop it first, or choose another folder"
        )
