"""What a handler logs in its process, logged again in the daemon as if it had been said there.

Invariant: a line of the attempt that runs is kept with it and carries its names; a late one of a former attempt carries
none. Levels, secrets and shape are those of the daemon's own log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from wakeful.handlers.context import JobContext
from wakeful.handlers.isolation.frames import Frame, GarbageFrame, number_of, text_of
from wakeful.telemetry.job_log import JOB_LOGGER

_METHODS: Final[Mapping[int, str]] = MappingProxyType(
    {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "critical"}
)
_TAKEN: Final = frozenset({"event", "exc_info", "stack_info", "self", "fields"})
_MOST_FIELDS: Final = 100


def log_line(frame: Frame, job: JobContext | None = None) -> None:
    """Log what a process has logged, for the attempt that runs there if there is one. Raises GarbageFrame."""
    level, name, event = int(number_of(frame, "level")), text_of(frame, "logger"), text_of(frame, "event")
    given = frame.get("fields")
    if not isinstance(given, dict) or len(given) > _MOST_FIELDS:
        raise GarbageFrame("a line of a log without its fields")
    fields = {f"{key}_" if key in _TAKEN else key: value for key, value in given.items()}
    if job is not None and job.log is not None and name == JOB_LOGGER:
        method = _METHODS.get(min(50, max(10, level // 10 * 10)), "info")
        getattr(job.log, method)(event, **fields)
    else:
        logging.getLogger(name).log(level, "%s", event, extra={"fields": fields})
