"""The alarm: rung for what is nearer than what is waited for, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from wakeful.aio.alarm import Alarm
from wakeful.aio.wakeup import Wakeup
from wakeful.runtime.bells import Bells


async def woken_by(alarm: Alarm, act: Callable[[], None], *, seconds: float) -> bool:
    """Whether a wait of so many seconds ends because of this."""
    stop, ended = anyio.Event(), anyio.Event()

    async def wait() -> None:
        await alarm.rest(stop, seconds)
        ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        act()
        await anyio.wait_all_tasks_blocked()
        woken = ended.is_set()
        stop.set()
    return woken


@pytest.mark.parametrize(("due", "woken"), [(5.0, True), (3599.0, True), (3601.0, False)])
async def test_only_what_is_nearer_wakes(*, due: float, woken: bool) -> None:
    alarm = Alarm()

    assert await woken_by(alarm, lambda: alarm.due_in(due), seconds=3600) is woken


async def test_a_ring_wakes_whatever_is_waited_for() -> None:
    alarm = Alarm()

    assert await woken_by(alarm, alarm.ring, seconds=0.5)


async def test_what_comes_up_while_the_waiter_looks_is_looked_at_again() -> None:
    alarm = Alarm()
    alarm.due_in(3600)

    with anyio.fail_after(5):
        await alarm.rest(anyio.Event(), 3600)


@pytest.mark.parametrize(("lane_id", "woken"), [(7, False), (None, True)])
async def test_a_notification_that_names_a_lane_is_about_jobs_that_are_due(
    *, lane_id: int | None, woken: bool
) -> None:
    bells = Bells(claimer=Wakeup(), promoter=Alarm(), dispatcher=Wakeup())

    assert await woken_by(bells.promoter, lambda: bells.on_notify(lane_id), seconds=3600) is woken
    assert await bells.claimer.wait(0)
