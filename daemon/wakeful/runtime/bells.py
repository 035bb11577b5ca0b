"""Who wakes whom in one process: bells that are rung where something has changed for somebody else.

Invariant: a bell is a hint, as a notification is: whoever is woken looks for itself, and would have looked later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wakeful.aio.alarm import Alarm
from wakeful.aio.wakeup import Wakeup
from wakeful.runtime.finding import Hints
from wakeful.store.upkeep import Rescued


@dataclass(frozen=True, slots=True, kw_only=True)
class Bells:
    """Who wakes whom: claimer (work, room), promoter (a nearer due time), dispatcher (a death, an alert)."""

    claimer: Wakeup
    promoter: Alarm
    dispatcher: Wakeup
    hints: Hints = field(default_factory=Hints)

    def on_notify(self, lane_id: int | None) -> None:
        """A notification is a hint: look at the lane that it names, or at everything."""
        self.hints.hear(lane_id)
        self.claimer.ring()
        if lane_id is None:  # one that names a lane is about jobs that are due
            self.promoter.ring()

    def on_ready(self) -> None:
        """Jobs have become claimable, in whatever lanes."""
        self.hints.hear(None)
        self.claimer.ring()

    def on_rescued(self, rescued: Sequence[Rescued]) -> None:
        """Jobs were taken back from an owner: those that may run again are to be claimed, deaths to be told."""
        if rescued:
            self.on_ready()
        if any(one.status == "DEAD" for one in rescued):
            self.dispatcher.ring()

    def on_unserved(self) -> None:
        """Jobs that nobody serves have failed: there may be alerts to send, and retries to wait for."""
        self.dispatcher.ring()
        self.promoter.ring()
