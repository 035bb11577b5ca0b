"""The threads that plain handlers run in: bounded, reused, and never waited for when the process ends.

Invariant: a thread carries one job at a time, in a copy of that attempt's context variables (F93). A job that can't be
stopped keeps its thread; the place is given to another, up to a bound, and it counts as stuck until it ends (F35, F42).
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Final, Generic, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from wakeful.handlers.bridge import Bridge
from wakeful.handlers.forks import FORKS, end_if_copy

T = TypeVar("T")

_IDLE_NAME: Final = "wakeful-handler"


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """How a call in a thread ended: its value, or what it raised."""

    value: T | None = None
    raised: BaseException | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class _Run:
    """One call in a thread. `replaced`: its place was given away, so that its end frees none."""

    label: str
    call: Callable[[], object]
    context: contextvars.Context
    finished: asyncio.Future[None]
    ended: Ended[object] | None = None
    stuck: bool = False
    replaced: bool = False


class ThreadPool:
    """At most `limit` calls at once, and as many threads; made by `open_threads`, used on that loop only."""

    __slots__ = (
        "_carried",
        "_closed",
        "_done",
        "_free",
        "_idle",
        "_limit",
        "_loop",
        "_runs",
        "_stuck_limit",
        "_threads",
        "_told",
        "_waiting",
        "bridge",
    )

    def __init__(self, bridge: Bridge, *, limit: int, stuck_limit: int) -> None:
        self.bridge = bridge
        self._limit = limit
        self._stuck_limit = stuck_limit
        self._loop = asyncio.get_running_loop()
        self._free = anyio.Semaphore(limit, fast_acquire=True)
        self._idle: list[SimpleQueue[_Run | None]] = []
        self._runs: dict[_Run, None] = {}
        self._carried: set[str] = set()
        self._waiting: set[str] = set()
        self._threads = 0
        self._closed = False
        # What threads have ended and the loop has not looked at; one call wakes it for all of them.
        self._done: deque[tuple[_Run, SimpleQueue[_Run | None]]] = deque()
        self._told = False

    async def run(self, call: Callable[[], T], *, label: str) -> Ended[T]:
        """Run `call` in a thread and give how it ended. Cancelled, it gives the thread up and leaves it running."""
        self._waiting.add(label)
        try:
            await self._free.acquire()
        finally:
            self._waiting.discard(label)
        run = _Run(
            label=label,
            call=call,
            context=contextvars.copy_context(),
            finished=self._loop.create_future(),
        )
        try:
            self._hand_over(run)
            self._carried.add(label)
            await run.finished
        finally:
            self._carried.discard(label)
            if run.ended is None or run in self._runs:
                self._give_up(run)
        ended: Ended[T] | None = run.ended  # type: ignore[assignment]
        assert ended is not None
        return ended

    def carries(self, label: str) -> bool:
        """Whether the call of this label is in a thread: it waits for none, and its answer is not yet taken."""
        return label in self._carried

    def waits(self, label: str) -> bool:
        """Whether the call of this label waits for a free thread: nothing of it has run."""
        return label in self._waiting

    def give_up(self, label: str) -> bool:
        """Count the call of this label as stuck; True where its place was given away, False past the bound or gone."""
        return any(self._give_up(run) for run in self._runs if run.label == label)

    @property
    def stuck(self) -> tuple[str, ...]:
        """The labels of the calls that were given up and have not ended."""
        return tuple(run.label for run in self._runs if run.stuck)

    @property
    def running(self) -> tuple[str, ...]:
        """The labels of all calls that have not ended, the stuck ones too."""
        return tuple(run.label for run in self._runs)

    @property
    def threads(self) -> int:
        """How many threads there are: running, stuck and idle."""
        return self._threads

    def close(self) -> None:
        """Let the idle threads end; the others end after their call. Waits for none of them."""
        self._closed = True
        while self._idle:
            self._idle.pop().put(None)

    def _hand_over(self, run: _Run) -> None:
        if self._idle:
            inbox = self._idle.pop()
        else:
            inbox = SimpleQueue()
            threading.Thread(target=_serve, args=(inbox, self._tell), name=_IDLE_NAME, daemon=True).start()
            self._threads += 1
        self._runs[run] = None
        inbox.put(run)

    def _give_up(self, run: _Run) -> bool:
        if run not in self._runs:  # its thread could not be started
            self._free.release()
        elif not run.stuck:
            run.replaced = len(self.stuck) < self._stuck_limit
            run.stuck = True
            if run.replaced:
                self._free.release()
        return run.replaced

    def _tell(self, run: _Run, inbox: SimpleQueue[_Run | None]) -> None:
        """For the threads: say that a call has ended. Whoever comes while the loop is being woken rides along."""
        self._done.append((run, inbox))
        if not self._told:
            self._told = True
            self._loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        self._told = False  # before the look: who comes after it wakes the loop again
        while self._done:
            self._ended(*self._done.popleft())

    def _ended(self, run: _Run, inbox: SimpleQueue[_Run | None]) -> None:
        del self._runs[run]
        if not run.replaced:
            self._free.release()
        if self._closed or len(self._idle) >= self._limit:
            self._threads -= 1
            inbox.put(None)
        else:
            self._idle.append(inbox)
        if not run.finished.done():
            run.finished.set_result(None)


@asynccontextmanager
async def open_threads(*, limit: int, stuck_limit: int) -> AsyncIterator[ThreadPool]:
    """Give the pool of one process. Leaving it waits for what threads write at that moment, never for a thread."""
    async with BlockingPortal() as portal:
        pool = ThreadPool(Bridge(portal), limit=limit, stuck_limit=stuck_limit)
        try:
            yield pool
        finally:
            pool.close()


def _serve(inbox: SimpleQueue[_Run | None], tell: Callable[[_Run, SimpleQueue[_Run | None]], object]) -> None:
    while _serve_one(inbox, tell):
        pass


def _serve_one(
    inbox: SimpleQueue[_Run | None], tell: Callable[[_Run, SimpleQueue[_Run | None]], object]
) -> bool:
    run = inbox.get()
    if run is None:
        return False
    thread = threading.current_thread()
    thread.name = f"{_IDLE_NAME} {run.label}"  # what a stack dump shows
    run.ended = run.context.run(_answer, run.call)
    thread.name = _IDLE_NAME
    try:
        tell(run, inbox)
    except (
        RuntimeError
    ):  # the loop is closed: the process is about to end, and nobody waits for this any more
        return False
    return True


def _answer(call: Callable[[], object]) -> Ended[object]:
    born = FORKS.generation
    try:
        ended: Ended[object] = Ended(value=call())
    except BaseException as error:  # noqa: BLE001 -- sys.exit() in a handler may not end its thread, let alone the daemon
        ended = Ended(raised=error)
    end_if_copy(born, ended.raised)
    return ended
