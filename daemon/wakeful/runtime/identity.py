"""Whether this database is the one that we belong to: asked at the start, and after each change of the server.

Invariant: nothing is claimed before the answer, nor after the server has changed until it was asked again; on another
server than the installation's nothing runs until an operator says `wakeful adopt` (I4). Before the gate opens, the
position sequence is above every position in use. A physical copy keeps its identifier and can't be told apart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from wakeful.aio.periodic import rest
from wakeful.aio.wakeup import Wakeup
from wakeful.errors import StoreUnavailable
from wakeful.runtime.gate import Gate
from wakeful.store import identity as store
from wakeful.store.database import Database
from wakeful.store.identity import Identity
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import POSITION_RAISED, SERVER_ACCEPTED, SERVER_REFUSED, SERVER_UNIDENTIFIED
from wakeful.telemetry.health import Health

REASON: Final = "identity"
NOT_ASKED: Final = "this server was not asked yet whether it is the one that this installation belongs to"
REFUSED_LOOK_SECONDS: Final = 5.0
_NEVER: Final = 86400.0


Recover = Callable[[], Awaitable[object]]


async def recover_nothing() -> None:
    """For who has nothing that a server could have forgotten."""


@dataclass(slots=True, kw_only=True)
class Guard:
    """What the check needs, and what it has said already."""

    database: Database
    telemetry: Telemetry
    gate: Gate
    health: Health
    asked_again: Wakeup
    recover: Recover = recover_nothing
    told: Identity | None = None
    changes: int = 0
    recovered: int = 0


async def run_identity(
    database: Database,
    stop: anyio.Event,
    *,
    gate: Gate,
    health: Health,
    telemetry: Telemetry | None = None,
    interval: float = REFUSED_LOOK_SECONDS,
    others: Sequence[Database] = (),
    recover: Recover = recover_nothing,
) -> None:
    """Hold `gate` open while this server is ours, until `stop` is set.

    A refused one is asked again each `interval` seconds. `others`: further databases whose connections may notice that
    the server has changed. `recover` puts right, before anything is claimed, what the new one may have forgotten.
    """
    guard = Guard(
        database=database,
        telemetry=telemetry or database.telemetry,
        gate=gate,
        health=health,
        asked_again=Wakeup(),
        recover=recover,
    )
    for one in (database, *others):
        watch_server(one, guard)
    health.set(REASON, NOT_ASKED)
    while not stop.is_set():
        try:
            await check(guard)
        except StoreUnavailable:
            await database.available(stop)
            continue
        await rest(stop, guard.asked_again, _NEVER if gate.open else interval)


def watch_server(database: Database, guard: Guard) -> None:
    """Close the gate and ask again when a connection of `database` finds another server, or another life of it."""

    def ask_again() -> None:
        guard.changes += 1
        guard.gate.close()
        guard.asked_again.ring()

    database.on_server_changed(ask_again)


async def check(guard: Guard) -> None:
    """Ask once, and open or close the gate. Raises StoreUnavailable."""
    changes = guard.changes
    found = await store.read_identity(guard.database)
    if found.is_foreign:
        guard.gate.close()
        guard.health.set(REASON, _refusal(found))
        _tell(guard, found)
        return
    raised_to = await store.raise_position(guard.database)
    if raised_to is not None:
        guard.telemetry.emit(POSITION_RAISED, position=raised_to)
    if guard.recovered != changes:
        await guard.recover()
        guard.recovered = changes
    _tell(guard, found)
    guard.health.clear(REASON)
    if guard.changes == changes:
        guard.gate.let_through()


def _refusal(found: Identity) -> str:
    return (
        f"this installation belongs to the server {found.stored}, and this one is {found.here} (a restored dump, an"
        " upgrade or a switchover): where that is meant, run `wakeful adopt`"
    )


def _tell(guard: Guard, found: Identity) -> None:
    if guard.told == found:
        return
    first, guard.told = guard.told is None, found
    if found.is_foreign:
        guard.telemetry.emit(SERVER_REFUSED, stored=found.stored, here=found.here)
    elif found.here is None:
        if first:
            guard.telemetry.emit(SERVER_UNIDENTIFIED)
    else:
        guard.telemetry.emit(SERVER_ACCEPTED, system=found.here)
