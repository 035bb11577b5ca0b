"""A job and a reason to stop as JSON values, on their way into a process of handlers.

Invariant: a job's place in its queue and its token stay behind: only the daemon writes about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from wakeful.core.job import Job
from wakeful.errors import JobCancelled, JobInterrupted, LeaseLost
from wakeful.handlers.control import StopReason
from wakeful.handlers.isolation.frames import Frame, text_of


def document_of(job: Job) -> dict[str, object]:
    """Give a job as JSON values."""
    names = ("job_type", "queue", "priority", "subject", "payload_text", "attempts", "max_attempts")
    fields = {name: getattr(job, name) for name in (*names, "run_no", "lost", "deadline", "meta_text")}
    return fields | {"job_id": str(job.job_id), "tags": list(job.tags)}


def job_of(document: Mapping[str, Any]) -> Job:
    """Give the job that `document_of` was given."""
    special = {"job_id": UUID(document["job_id"]), "tags": tuple(document["tags"])}
    return Job(**{**document, **special, "lane_id": 0, "pos": 0, "claim": 0})


def stop_of(reason: StopReason | None) -> Frame:
    """Give the frame that tells a handler why it should stop."""
    return {"do": "stop", "reason": type(reason).__name__, "message": str(reason or "stopped")}


def reason_of(frame: Frame) -> StopReason:
    """Give the reason that `stop_of` was given."""
    message = text_of(frame, "message")
    match frame.get("reason"):
        case "JobCancelled":
            return JobCancelled(message)
        case "LeaseLost":
            return LeaseLost(message)
        case _:
            return JobInterrupted(message)
