"""What this instance says of the job types that it serves, as the database keeps it.

Invariant: the published hash depends on the declaration and on the lease that the settings give it, so that equal
instances publish equal hashes (I24).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from wakeful.core.declaration import Declaration, lease_of
from wakeful.core.settings import LeaseSettings


def published(declarations: Sequence[Declaration], lease: LeaseSettings) -> list[Mapping[str, object]]:
    """Declarations as publish_declarations takes them: {job_type, hash, declaration}; times in seconds."""
    return [
        {
            "job_type": one.job_type,
            "hash": hash_of(one, lease),
            "declaration": {
                "queue": one.queue,
                "priority": one.priority,
                "max_attempts": one.max_attempts,
                "deadline": one.deadline,
                "lease": lease_of(one, lease),
                "subject_path": one.subject_path,
                "secret_paths": list(one.secret_paths),
                "limit_key": one.limit_key,
                "owner": one.owner,
                "history": one.history,
                "steps": list(one.steps),
            },
        }
        for one in declarations
    ]


def hash_of(declaration: Declaration, lease: LeaseSettings) -> str:
    """Hash of a declaration together with its lease."""
    text = f"{declaration.hash}:{lease_of(declaration, lease):g}"
    return hashlib.sha256(text.encode()).hexdigest()
