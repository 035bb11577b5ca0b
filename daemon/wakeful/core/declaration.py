"""What a handler declares about its job type: the values that the database needs for an enqueue in plain SQL.

Invariant: `hash` depends on the declared values alone, so that two instances of one version publish the same one and
no declaration is rewritten in turns (I24). Checking the values is for the registry.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final, Literal

from wakeful.core.settings import LeaseSettings

DEFAULT_DEADLINE_SECONDS: Final = 3600.0
DEFAULT_MAX_ATTEMPTS: Final = 5

Isolation = Literal["process"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One job type as its handler declares it. `declared_deadline` is in seconds, None where the type names none.

    `isolation` is between a daemon and its handlers: no enqueue depends on it, and it is not published.
    """

    job_type: str
    queue: str = "default"
    priority: str = "normal"
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    declared_deadline: float | None = None
    subject_path: str | None = None
    secret_paths: tuple[str, ...] = ()
    limit_key: str | None = None
    owner: str | None = None
    history: bool = True
    steps: tuple[str, ...] = ()
    isolation: Isolation | None = None

    @property
    def deadline(self) -> float:
        """The longest time that one attempt may run, in seconds: what the type says, else one hour."""
        return DEFAULT_DEADLINE_SECONDS if self.declared_deadline is None else self.declared_deadline

    @property
    def document(self) -> str:
        """The declaration as canonical JSON text: sorted keys, no spaces."""
        return json.dumps(
            {
                "job_type": self.job_type,
                "queue": self.queue,
                "priority": self.priority,
                "max_attempts": self.max_attempts,
                "deadline": self.declared_deadline,
                "subject_path": self.subject_path,
                "secret_paths": list(self.secret_paths),
                "limit_key": self.limit_key,
                "owner": self.owner,
                "history": self.history,
                "steps": list(self.steps),
            },
            sort_keys=True,
            separators=(",", ":"),
        )

    @property
    def hash(self) -> str:
        """SHA-256 of `document`, in hexadecimal."""
        return hashlib.sha256(self.document.encode()).hexdigest()


def lease_of(declaration: Declaration, lease: LeaseSettings) -> float:
    """Give the lease of a type's jobs in seconds: the long one where the type itself declares a long deadline."""
    declared = declaration.declared_deadline
    return lease.long if declared is not None and declared > lease.long_deadline else lease.default
