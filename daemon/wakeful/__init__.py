"""Wakeful, a job daemon for PostgreSQL: the names that an author of handlers and a producer in Python import.

Everything else in the package is the daemon's own, but for `wakeful.testing`.
"""

from wakeful.errors import (
    Discard,
    Fail,
    InvalidPayload,
    JobCancelled,
    JobDeadlineExceeded,
    JobInterrupted,
    LeaseLost,
    OptionRefused,
    RateLimited,
    Retry,
    Snooze,
    UnknownJobType,
    WakefulError,
)
from wakeful.handlers.client import Enqueued, enqueue
from wakeful.handlers.context import JobContext
from wakeful.handlers.handler import JobType
from wakeful.handlers.options import EnqueueOptions
from wakeful.handlers.registry import Registry
from wakeful.handlers.steps import Step

__all__ = [
    "Discard",
    "EnqueueOptions",
    "Enqueued",
    "Fail",
    "InvalidPayload",
    "JobCancelled",
    "JobContext",
    "JobDeadlineExceeded",
    "JobInterrupted",
    "JobType",
    "LeaseLost",
    "OptionRefused",
    "RateLimited",
    "Registry",
    "Retry",
    "Snooze",
    "Step",
    "UnknownJobType",
    "WakefulError",
    "enqueue",
]
