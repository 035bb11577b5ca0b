"""Call a handler, and make a value of whatever it does: it returns, or it raises.

Invariant: nothing that a handler, its hook or its thread raises leaves `invoke`: not SystemExit, not a CancelledError
of its own, not an exception that can't be printed. What the answer means for the job is for the runtime to decide.

It is left to the caller that each attempt has context variables of its own (F93), and that a handler which cancels
the task it runs in hurts nobody else; a thread gets a copy of the context in which `invoke` is awaited.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from types import CoroutineType
from typing import Any, Final, NamedTuple, Protocol

from wakeful.core.text import only_member
from wakeful.errors import Directive, JobCancelled, JobDeadlineExceeded, JobInterrupted, LeaseLost
from wakeful.handlers.context import JobContext
from wakeful.handlers.forks import FORKS, end_if_copy
from wakeful.handlers.handler import Handler
from wakeful.handlers.threads import ThreadPool

_MEANT: Final = (Directive, JobCancelled, JobDeadlineExceeded, JobInterrupted, LeaseLost)
_NEVER_AWAITED: Final = frozenset({dict, list, tuple, str, int, float, bool})


class Returned(NamedTuple):
    """The handler, or its hook, gave `value`: anything at all; `plain.encode_result` says whether it can be stored."""

    value: object


class Raised(NamedTuple):
    """The handler, or its hook, raised. A CancelledError is the runtime's where the attempt's control has a reason."""

    exception: BaseException


Answer = Returned | Raised
RETURNED_NOTHING: Final = Returned(None)  # what most handlers answer, made once


class Elsewhere(Protocol):
    """Where handlers with isolation run: hook, payload and lifespan are those of the process over there."""

    async def run(self, job: JobContext) -> object:
        """Give what the handler returned; raises what it raised, and how its process ended."""
        ...


async def invoke(
    handler: Handler,
    job: JobContext,
    payload: object,
    threads: ThreadPool,
    *,
    elsewhere: Elsewhere | None = None,
) -> Answer:
    """Call a handler with its bound payload, on the loop or in a thread, inside its registry's hook. Never raises.

    One with isolation is called `elsewhere`, but where that is None: there this process is the one for it.
    """
    born = FORKS.generation
    try:
        if elsewhere is not None and handler.is_isolated:
            value = await elsewhere.run(job)
        elif handler.around is None:  # without a coroutine of its own: it costs as much as the handler's
            made = _begin(handler, job, payload, threads)
            value = await made if _is_awaitable(made) else made
        else:
            value = await handler.around(job, _Once(partial(_call, handler, job, payload, threads)))
        answer: Answer = RETURNED_NOTHING if value is None else Returned(_value(value))
    except BaseException as error:  # noqa: BLE001 -- R8: sys.exit() in a handler is a failed attempt, no more
        answer = Raised(_meant(error))
    end_if_copy(born, answer.exception if isinstance(answer, Raised) else None)
    return answer


class _Once:
    """The call that a hook is given: a second one would run the handler twice in one attempt."""

    __slots__ = ("_call", "_called")

    def __init__(self, call: Callable[[], Awaitable[object]]) -> None:
        self._call = call
        self._called = False

    async def __call__(self) -> object:
        if self._called:
            raise RuntimeError("the hook round the attempt has called its handler twice")
        self._called = True
        return await self._call()


async def _call(handler: Handler, job: JobContext, payload: object, threads: ThreadPool) -> object:
    made = _begin(handler, job, payload, threads)
    return await made if _is_awaitable(made) else made


def _begin(handler: Handler, job: JobContext, payload: object, threads: ThreadPool) -> Any:
    """Call the function, or give what calls it in a thread; what comes back may be awaited, or be the value."""
    if not handler.runs_on_loop:
        return _call_in_thread(handler, job, payload, threads)
    return handler.function(job, payload) if handler.takes_payload else handler.function(job)


def _is_awaitable(made: object) -> bool:
    return type(made) is CoroutineType or inspect.isawaitable(made)


async def _call_in_thread(handler: Handler, job: JobContext, payload: object, threads: ThreadPool) -> object:
    arguments = (job, payload) if handler.takes_payload else (job,)
    ended = await threads.run(partial(handler.function, *arguments), label=job.label)
    if ended.raised is not None:
        raise ended.raised
    return ended.value


def _value(value: object) -> object:
    if value is None or type(value) in _NEVER_AWAITED:
        return value
    if inspect.iscoroutine(value):
        value.close()
    if inspect.isawaitable(value):
        raise TypeError(
            "the handler returned a coroutine that nobody awaits: make it an `async def`, or await it"
        )
    return value


def _meant(error: BaseException) -> BaseException:
    """A task group in the handler wraps what was raised in it: `raise Snooze(60)` means the same there."""
    member = only_member(error)
    return member if isinstance(member, _MEANT) else error
