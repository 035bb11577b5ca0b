"""A claimed job as this process holds it: what the claim handed over, and the token that lets it write.

Values only. The row itself lives in `wakeful.ready`; (lane_id, pos) finds it and `claim` proves the ownership.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from wakeful.core import jsontext


class Job(NamedTuple):
    """One claim of one job. `deadline` is in seconds from the handler's start; `attempts` counts this one.

    A tuple, since one is made for every claim: a frozen dataclass of this size costs five times as much.
    """

    lane_id: int
    pos: int
    claim: int
    job_id: UUID
    job_type: str
    queue: str
    priority: str
    subject: str | None
    payload_text: str
    attempts: int
    max_attempts: int
    run_no: int
    lost: int
    deadline: float
    tags: tuple[str, ...]
    meta_text: str

    def fields(self) -> dict[str, object]:
        """What every line of the attempt carries."""
        return {
            "job_id": str(self.job_id),
            "job_type": self.job_type,
            "queue": self.queue,
            "run_no": self.run_no,
            "attempt": self.attempts,
        }

    @property
    def payload(self) -> object:
        """The payload as Python values, numbers exact; decoded anew at each call, so call it once."""
        return jsontext.loads(self.payload_text)
