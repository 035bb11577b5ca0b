"""Handlers that do to the process, its event loop and its interpreter what libraries do that believe they own them.

Each deed is one job `harm.deed` with its name. After those of SURVIVED the daemon goes on as if nothing had been; those
of DEADLY end its process, and then the leases bring the jobs back.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from support.probes import note
from wakeful import JobContext, Registry

registry = Registry()

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@registry.job("harm.deed", deadline="1s", max_attempts=10)
async def deed(job: JobContext) -> None:
    name = str(job.payload["deed"])
    note(job, "START", deed=name)
    await (SURVIVED | DEADLY)[name]()
    note(job, "END", deed=name)


@registry.job("harm.thread_deed")
def thread_deed(job: JobContext) -> None:
    """Cancel every task of a loop, from the thread of a plain handler."""
    for task in asyncio.all_tasks(_loops[-1]):
        _loops[-1].call_soon_threadsafe(task.cancel)


_loops: list[asyncio.AbstractEventLoop] = []


def _cancel_all() -> None:
    for task in asyncio.all_tasks(asyncio.get_running_loop()):
        task.cancel()


async def cancels_all() -> None:
    _loops.append(asyncio.get_running_loop())
    _cancel_all()
    await asyncio.sleep(0.1)


async def cancels_all_but_itself_and_waits() -> None:
    """As `asyncio.run` does at its end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.wait(others, timeout=0.1)


async def gathers_all() -> None:
    """Its deadline cancels what it waits for, which is everything."""
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)


async def waits_for_one_with_a_limit() -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.shield(asyncio.wait_for(task, 0.001))
        except (TimeoutError, asyncio.CancelledError):
            return


async def cancels_from_a_thread_of_its_own() -> None:
    loop = asyncio.get_running_loop()
    threading.Thread(target=loop.call_soon_threadsafe, args=(_cancel_all,), daemon=True).start()
    await asyncio.sleep(0.1)


async def leaves_something_that_cancels_all() -> None:
    async def again() -> None:
        for _ in range(50):
            _cancel_all_others()
            await asyncio.sleep(0.01)

    _kept.append(asyncio.get_running_loop().create_task(again()))


def _cancel_all_others() -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


_kept: list[object] = []


async def replaces_the_task_factory_and_cancels_all() -> None:
    asyncio.get_running_loop().set_task_factory(None)
    await asyncio.sleep(0.1)
    await cancels_all()


async def closes_the_loop() -> None:
    asyncio.get_running_loop().close()


async def takes_the_loop_away() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asyncio.set_event_loop(None)
        asyncio.set_event_loop_policy(None)


async def takes_errors_and_executor() -> None:
    loop, executor = asyncio.get_running_loop(), ThreadPoolExecutor(1)
    loop.set_exception_handler(lambda _loop, _context: sys.exit(9))
    loop.set_default_executor(executor)
    executor.shutdown()
    loop.set_debug(True)


async def takes_the_signals() -> None:
    for signum in STOP_SIGNALS:
        signal.signal(signum, signal.SIG_IGN)
        asyncio.get_running_loop().remove_signal_handler(signum)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


async def takes_the_surroundings() -> None:
    os.environ.clear()
    os.chdir("/")
    os.umask(0o777)
    gc.disable()
    sys.setrecursionlimit(150)
    sys.setswitchinterval(1.0)
    socket.setdefaulttimeout(0.000001)
    threading.excepthook = lambda _raised: os._exit(3)
    sys.excepthook = lambda *_raised: os._exit(3)


async def takes_the_log() -> None:
    logging.disable(logging.CRITICAL)
    logging.getLogger().handlers.clear()
    sys.stdout.close()
    sys.stdout = sys.stderr = None
    os.close(1)


async def kills_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def leaves_without_a_word() -> None:
    os._exit(0)


async def aborts() -> None:
    os.abort()


async def reads_at_nought() -> None:
    ctypes.string_at(0)


async def closes_all_descriptors() -> None:
    """Of the loop, of the connections, of everything; then it wants to sleep."""
    os.closerange(3, 4096)
    await asyncio.sleep(0.1)


async def asks_itself_to_stop() -> None:
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGTERM)


async def never_turns_again() -> None:
    while True:
        pass


Deed = Callable[[], Awaitable[None]]


def _named(*deeds: Deed) -> dict[str, Deed]:
    return {deed.__name__: deed for deed in deeds}


SURVIVED: Final = _named(
    cancels_all,
    cancels_all_but_itself_and_waits,
    waits_for_one_with_a_limit,
    cancels_from_a_thread_of_its_own,
    leaves_something_that_cancels_all,
    replaces_the_task_factory_and_cancels_all,
    closes_the_loop,
    takes_the_loop_away,
    takes_errors_and_executor,
    takes_the_signals,
    takes_the_surroundings,
    gathers_all,
    takes_the_log,
)
DEADLY: Final = _named(
    kills_itself,
    leaves_without_a_word,
    aborts,
    reads_at_nought,
    closes_all_descriptors,
    asks_itself_to_stop,
    never_turns_again,
)
