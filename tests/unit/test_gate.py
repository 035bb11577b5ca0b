"""The gate of a process: what runs only while it is open ends when it closes, and begins anew."""

from __future__ import annotations

import anyio
import pytest

from support.eventually import eventually, looked
from wakeful.runtime.gate import Gate


class Looping:
    """A loop that says when it begins and when it is cancelled, and ends at the stop."""

    def __init__(self, stop: anyio.Event) -> None:
        self.said: list[str] = []
        self._stop = stop

    async def run(self) -> None:
        self.said.append("begun")
        try:
            await self._stop.wait()
        except anyio.get_cancelled_exc_class():
            self.said.append("cancelled")
            raise
        self.said.append("ended")


@pytest.mark.case("I4")
async def test_a_loop_runs_while_it_is_open_and_begins_anew_when_it_opens_again() -> None:
    stop, gate = anyio.Event(), Gate()
    looping = Looping(stop)
    async with anyio.create_task_group() as group:
        group.start_soon(gate.while_open, stop, looping.run)
        await anyio.wait_all_tasks_blocked()
        assert looping.said == []
        for turn in ("first", "second"):
            gate.let_through()
            await eventually(looked(lambda: looping.said[-1:]), until=lambda last: last == ["begun"])
            gate.close()
            await eventually(looked(lambda: looping.said[-1:]), until=lambda last: last == ["cancelled"])
            assert looping.said.count("cancelled") == {"first": 1, "second": 2}[turn]
        gate.let_through()
        await eventually(looked(lambda: looping.said[-1:]), until=lambda last: last == ["begun"])
        stop.set()

    assert looping.said == ["begun", "cancelled"] * 2 + ["begun", "ended"]


async def test_a_stop_while_it_is_closed_begins_nothing() -> None:
    stop, gate = anyio.Event(), Gate()
    looping = Looping(stop)
    async with anyio.create_task_group() as group:
        group.start_soon(gate.while_open, stop, looping.run)
        await anyio.wait_all_tasks_blocked()
        stop.set()

    assert looping.said == []
