"""One attempt in a process of handlers, seen through by the daemon: its limits kept, its end awaited.

Invariant: every attempt ends, with an answer or with its process. At its deadline the process is killed at once; for
any other reason to stop the handler is told, and has a short grace. A flood of frames slows that process down, and not
the daemon. What frames mean is for `taking`.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, NoReturn

import anyio

from wakeful.errors import JobDeadlineExceeded, MemoryLimitExceeded, ProcessDied
from wakeful.handlers.context import JobContext, inside
from wakeful.handlers.isolation import answers
from wakeful.handlers.isolation.documents import document_of, stop_of
from wakeful.handlers.isolation.frames import GarbageFrame
from wakeful.handlers.isolation.process import MIB, Process
from wakeful.handlers.isolation.taking import Taking
from wakeful.telemetry.tracing.joining import current_carrier

GRACE_SECONDS: Final = 0.5
LOOK_SECONDS: Final = 0.1
CLOSED_SECONDS: Final = 1.0
GONE_SECONDS: Final = 10.0
TURN_WEIGHT: Final = 100
LINE_WEIGHT: Final = 5
BYTES_OF_WEIGHT: Final = 4096
REST_SECONDS: Final = 0.01


class Carrying:
    """One attempt in one process. `answered`: the process has said how it ended, and can be used again.

    `counts`: how the process ends is how the attempt ends, since the handler may have begun or was to stop.
    """

    __slots__ = (
        "_inside",
        "_job",
        "_looking",
        "_loop",
        "_stopping",
        "_used",
        "_weight",
        "answered",
        "counts",
        "process",
    )

    def __init__(self, process: Process, job: JobContext) -> None:
        self.answered = False
        self.counts = False
        self.process = process
        self._job = job
        self._inside = inside(job)
        self._loop = asyncio.get_running_loop()
        self._looking: asyncio.TimerHandle | None = None
        self._stopping: asyncio.TimerHandle | None = None
        self._used = 0
        self._weight = 0

    async def see_through(self) -> object:
        """Give what the handler returned, or raise what it raised, or how its process ended."""
        taking = Taking(self.process, self._job, self._inside)
        self._begin(taking)
        answer: answers.Answered | None = None
        try:
            while answer is None:
                try:
                    answer = await self._next(taking)
                except asyncio.CancelledError:
                    self._stop()
            self.answered = True
        except GarbageFrame as garbage:
            raise ProcessDied(f"the handler's process was killed: it sent {garbage}") from None
        finally:
            self._let_go()
            if not self.answered:
                await self._gone(GONE_SECONDS)
                self.process.output.close()  # what it printed last is this attempt's
        if answer.raised is not None:
            raise self._shown(answer.raised)
        return answer.value

    def _begin(self, taking: Taking) -> None:
        process = self.process
        process.attempts += 1
        process.output.claim(taking.say)
        job, seconds = document_of(self._inside.job), self._job.time_left()
        carrier = current_carrier()
        trace = {} if carrier is None else {"trace": carrier.members()}
        process.send({"do": "run", "attempt": process.attempts, "seconds": seconds, "job": job, **trace})
        self._look()

    def _let_go(self) -> None:
        if self.answered:
            self.process.output.settle()  # all of it is there: it was flushed before the answer was sent
        if self._inside.job.job_type in self.process.launch.secret_types:
            self.process.output.is_hushed = True
        for timer in (self._looking, self._stopping):
            if timer is not None:
                timer.cancel()
        if not self.answered:
            self.process.kill()

    async def _gone(self, seconds: float) -> None:
        """Wait until the process is gone, whoever cancels: the job's next attempt is never to meet it."""
        end = self._loop.time() + seconds
        while self.process.code is None and self._loop.time() < end:
            with contextlib.suppress(asyncio.CancelledError), anyio.move_on_after(end - self._loop.time()):
                await self.process.ended()

    async def _next(self, taking: Taking) -> answers.Answered | None:
        """Take one frame in; gives the answer, or None where it is another."""
        if self._weight >= TURN_WEIGHT:
            rest, self._weight = REST_SECONDS * self._weight / TURN_WEIGHT, 0
            await anyio.sleep(rest)
        before = self.process.read_bytes
        frame = await self.process.receive()
        if frame is None:
            await self._end()
        self.counts = self.counts or frame.get("attempt") == self.process.attempts
        self._weight += LINE_WEIGHT if frame["do"] == "log" else 1
        self._weight += (self.process.read_bytes - before) // BYTES_OF_WEIGHT
        return await taking.take(frame)

    async def _end(self) -> NoReturn:
        """Raise how the process ended; one that only closed its connection is killed."""
        await self._gone(CLOSED_SECONDS)
        how = self.process.how_it_ended
        if self._used:
            mib = self._used // MIB
            raise MemoryLimitExceeded(
                f"the handler's process had {mib} MiB in memory, more than {self._limit}"
            )
        raise ProcessDied(f"the handler's process ended before the handler did: {how}")

    def _stop(self) -> None:
        """The attempt is to stop: what was asked of the daemon goes on, for as long as the process does."""
        if self._stopping is not None:
            return
        self.counts = True
        reason = self._inside.port.control.reason
        seconds = 0.0 if reason is None or isinstance(reason, JobDeadlineExceeded) else GRACE_SECONDS
        if seconds:
            self.process.send(stop_of(reason))
        self._stopping = self._loop.call_later(seconds, self.process.kill)

    def _look(self) -> None:
        """Kill a process that has grown past its limit, and look again soon."""
        limit, used = self.process.launch.memory, self.process.memory_used
        if limit and used > limit:
            self._used = used
            self.process.kill()
        self._looking = self._loop.call_later(LOOK_SECONDS, self._look) if limit else None

    def _shown(self, raised: Exception) -> Exception:
        refused = isinstance(raised, answers.RaisedInProcess) and raised.entry.type == "MemoryError"
        if not refused or not self.process.launch.memory:
            return raised
        used = self.process.memory_used // MIB
        text = f"the handler's process has {used} MiB in memory and was refused more at {self._limit}"
        return MemoryLimitExceeded(text)

    @property
    def _limit(self) -> str:
        return f"its limit of {self.process.launch.memory // MIB} MiB (worker.process_memory)"
