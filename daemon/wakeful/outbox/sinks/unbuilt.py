"""A sink that could not be made, in its place: it says why at each try, and what waits for it stays.

Another instance may be able to make it, so nothing is closed, given up or charged here.
"""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.outbox.sinks.protocol import Answer, Failed
from wakeful.store.outbox import Delivery


@dataclass(frozen=True, slots=True)
class UnbuiltSink:
    """Takes nothing, and says why."""

    name: str
    reason: str
    timeout: float = 1.0
    pace: float = 0.0

    async def send(self, delivery: Delivery) -> Answer:
        """Say why it is not sent."""
        return Failed(reason=self.reason, excused=True)
