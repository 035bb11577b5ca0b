"""Faults of one daemon: what is done to it or to its connections, and undone.

Invariant: when a fault's function returns, its cause is gone. How the fleet takes it is for the judge.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType

import anyio
from anyio.to_thread import run_sync

from soak.fleet import Slot
from soak.plan import Planned
from soak.stage import PATIENCE_SECONDS, Stage
from support.proxy import Mode, Proxy

LOOK_SECONDS = 0.02
Act = Callable[[Stage, Planned], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of fault: to whom (a daemon: "slot", or the server), and in words what is done."""

    of: str
    act: Act
    what: str
    beyond_lease: bool = False


def slot_of(stage: Stage, planned: Planned) -> Slot:
    """The daemon that it is for."""
    return stage.fleet.slots[planned.slot]


async def kill(stage: Stage, planned: Planned) -> None:
    """Kill it, and start another in its place after a while."""
    slot = slot_of(stage, planned)
    stage.fleet.down.add(slot.name)
    slot.send(signal.SIGKILL, why="killed")
    await anyio.sleep(planned.seconds)
    stage.fleet.down.discard(slot.name)


async def pause(stage: Stage, planned: Planned) -> None:
    """Stop it in its tracks for a while."""
    slot = slot_of(stage, planned)
    slot.pause(True)
    await anyio.sleep(planned.seconds)
    slot.pause(False)


async def pause_briefly(stage: Stage, planned: Planned) -> None:
    """Stop it for less than the lease."""
    await pause(stage, replace(planned, seconds=min(planned.seconds, 0.6 * stage.plan.timing.lease)))


async def drain(stage: Stage, planned: Planned) -> None:
    """Ask it to stop, wait for its end, and let another start."""
    slot = slot_of(stage, planned)
    stage.fleet.down.add(slot.name)
    slot.send(signal.SIGTERM, why="stopped")
    timing = stage.plan.timing
    with anyio.move_on_after(timing.grace + timing.interrupt + PATIENCE_SECONDS):
        while not slot.ended():
            await anyio.sleep(LOOK_SECONDS)
    stage.fleet.down.discard(slot.name)


async def reset(stage: Stage, planned: Planned) -> None:
    """Cut all its connections."""
    await run_sync(slot_of(stage, planned).proxy.reset)


async def half_close(stage: Stage, planned: Planned) -> None:
    """Send it the end of each stream, while what it sends still arrives."""
    await run_sync(slot_of(stage, planned).proxy.half_close)


async def refuse(stage: Stage, planned: Planned) -> None:
    """Cut all its connections and take no new ones."""
    proxy = slot_of(stage, planned).proxy
    await run_sync(proxy.set, Mode.REFUSE)
    await run_sync(proxy.reset)
    await anyio.sleep(planned.seconds)
    await run_sync(proxy.set, Mode.PASS)


async def blackhole(stage: Stage, planned: Planned) -> None:
    """Let nothing pass; afterwards everything goes on where it was."""
    proxy = slot_of(stage, planned).proxy
    await run_sync(proxy.set, Mode.BLACKHOLE)
    await anyio.sleep(planned.seconds)
    await run_sync(proxy.set, Mode.PASS)


async def lost_replies(stage: Stage, planned: Planned) -> None:
    """Let statements reach the server, and lose the replies."""
    proxy = slot_of(stage, planned).proxy
    await run_sync(proxy.set, Mode.HOLD_REPLIES)
    await anyio.sleep(planned.seconds)
    await run_sync(proxy.reset)
    await run_sync(proxy.set, Mode.PASS)


async def dead_links(stage: Stage, planned: Planned) -> None:
    """Let its open connections go dead without a word, while new ones work."""
    proxy = slot_of(stage, planned).proxy
    links = await run_sync(proxy.links)
    for link in links:
        await run_sync(_blackhole_link, proxy, link.number)
    await anyio.sleep(planned.seconds)
    await run_sync(proxy.reset)


def _blackhole_link(proxy: Proxy, number: int) -> None:
    with suppress(KeyError):  # closed meanwhile
        proxy.set(Mode.BLACKHOLE, link=number)


async def slow(stage: Stage, planned: Planned) -> None:
    """Delay each chunk by a tenth of a second, either way."""
    proxy = slot_of(stage, planned).proxy
    await run_sync(lambda: proxy.set(Mode.DELAY, seconds=0.1))
    await anyio.sleep(planned.seconds)
    await run_sync(proxy.set, Mode.PASS)


SLOT_KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "kill": Kind(of="slot", act=kill, what="kill -9 of a daemon, another in its place"),
        "pause": Kind(of="slot", act=pause, what="SIGSTOP beyond the lease, then SIGCONT", beyond_lease=True),
        "pause_briefly": Kind(
            of="slot", act=pause_briefly, what="SIGSTOP for less than the lease, then SIGCONT"
        ),
        "drain": Kind(of="slot", act=drain, what="SIGTERM, and another daemon in its place"),
        "reset": Kind(of="slot", act=reset, what="all connections of a daemon cut by TCP resets"),
        "half_close": Kind(
            of="slot", act=half_close, what="all connections of a daemon closed from one side"
        ),
        "refuse": Kind(of="slot", act=refuse, what="connections cut, and new ones refused"),
        "blackhole": Kind(
            of="slot", act=blackhole, what="network of a daemon silent beyond the lease", beyond_lease=True
        ),
        "lost_replies": Kind(of="slot", act=lost_replies, what="statements arrive, their replies are lost"),
        "dead_links": Kind(
            of="slot",
            act=dead_links,
            what="open connections dead without a word, new ones work",
            beyond_lease=True,
        ),
        "slow": Kind(of="slot", act=slow, what="100 ms more on every packet"),
    }
)
