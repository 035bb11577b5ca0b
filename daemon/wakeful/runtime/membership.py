"""This process as a member of the fleet: its registration, and what the beat's findings mean for the jobs it holds.

Invariant: a deposed instance never claims or finishes as itself again: every job that it ran is told so and stops, and
the process registers as a new instance (I5). A finding that is older than what the loop knows by now changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import anyio

from wakeful.aio.wakeup import Wakeup, ring_when_set
from wakeful.errors import LeaseLost, StoreUnavailable
from wakeful.runtime.attempts import Attempts, request_cancel
from wakeful.runtime.beat import Pulse
from wakeful.runtime.crew import Crew
from wakeful.runtime.holdings import Holding, Holdings
from wakeful.runtime.lease import Lease, Owner, new_incarnation, suspended_clock
from wakeful.store import instances
from wakeful.store.database import Database
from wakeful.store.instances import Registration
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import INSTANCE_DEPOSED, INSTANCE_REGISTERED


@dataclass(slots=True, kw_only=True)
class Membership:
    """What registering and losing a registration touch."""

    database: Database
    registration: Registration
    declarations: Sequence[Mapping[str, object]]
    lease: Lease
    holdings: Holdings
    attempts: Attempts
    crew: Crew
    telemetry: Telemetry
    on_registered: Callable[[], None] = lambda: None
    bell: Wakeup = field(default_factory=Wakeup)

    def receive(self, pulse: Pulse) -> None:
        """Take in what a beat found; called on the event loop."""
        if pulse.deposed is not None:
            self._deposed(pulse.deposed)
        for holding in pulse.lost:
            self._lost(holding, "another claim holds the job, or none")
        for holding, reason in pulse.cancelled:
            request_cancel(self.attempts, self.telemetry, holding, reason=reason)

    async def register(self) -> Owner:
        """Publish what our handlers declare, and make a row for this process. Raises StoreUnavailable."""
        incarnation, sent = new_incarnation(), suspended_clock()
        instance_id = await instances.register(self.database, self.registration, incarnation=incarnation)
        owner = Owner(instance_id, incarnation)
        await instances.publish(self.database, self.declarations)
        self.lease.registered(owner, sent=sent)
        self.telemetry.emit(
            INSTANCE_REGISTERED,
            instance_id=instance_id,
            name=self.registration.name,
            incarnation=incarnation,
        )
        self.on_registered()
        return owner

    def _deposed(self, owner: Owner) -> None:
        if not self.lease.deposed(owner):
            return
        held = self.holdings.snapshot()
        self.telemetry.emit(
            INSTANCE_DEPOSED,
            instance_id=owner.instance_id,
            reason="another instance took this one for dead",
            jobs=len(held),
        )
        for holding in held:
            self._lost(holding, "this instance was taken for dead")
        self.bell.ring()

    def _lost(self, holding: Holding, reason: str) -> None:
        """A running job is told to stop; what waits is let go by the worker that takes it up."""
        if holding.stage == "running":
            self.attempts.cancel(holding, LeaseLost(reason))
        elif holding.stage == "waiting":
            holding.lost = True


async def run_membership(membership: Membership, stop: anyio.Event) -> None:
    """Register again whenever this instance was deposed, until `stop` is set."""
    async with anyio.create_task_group() as group:
        group.start_soon(ring_when_set, membership.bell, stop)
        while not stop.is_set():
            await membership.bell.wait()
            await _register_again(membership, stop)
        group.cancel_scope.cancel()


async def _register_again(membership: Membership, stop: anyio.Event) -> None:
    while membership.lease.owner is None and not stop.is_set():
        try:
            await membership.register()
        except StoreUnavailable:
            await membership.database.available(stop)
