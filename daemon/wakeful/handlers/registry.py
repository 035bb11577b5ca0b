"""Where handlers are registered: by decorator, on an object that the author's module makes.

Invariant: every mistake that can be seen without running a handler is raised in the line of its decorator, with the
function's name. A registry holds one handler a job type, at most one lifespan and at most one hook.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from functools import partial
from typing import Any, ParamSpec, TypeVar

from wakeful.core.declaration import DEFAULT_MAX_ATTEMPTS, Declaration, Isolation
from wakeful.errors import UnknownJobType
from wakeful.handlers.declaring import declare
from wakeful.handlers.handler import Backoff, Handler, Home, JobType
from wakeful.handlers.resources import Resources, open_homes
from wakeful.handlers.signature import Shape, inspect_handler, is_async, is_async_generator, name_of

P = ParamSpec("P")
R = TypeVar("R")
AroundFunction = TypeVar("AroundFunction", bound=Callable[..., Awaitable[object]])
Checked = TypeVar("Checked")
Lifespan = TypeVar("Lifespan", bound=Callable[[], Any])


class Registry:
    """The handlers of an application, or of a part of it. `modules`: where they were found, if they were looked for."""

    __slots__ = ("_fallback", "_handlers", "_home", "_homes", "modules")

    def __init__(self) -> None:
        self.modules: tuple[str, ...] = ()
        self._handlers: dict[str, Handler] = {}
        self._home = Home()
        self._homes = [self._home]
        self._fallback: Callable[[str], Handler] | None = None

    def job(
        self,
        job_type: str,
        *,
        queue: str = "default",
        priority: str = "normal",
        deadline: float | str | timedelta | None = None,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
        backoff: Backoff | None = None,
        subject: str | None = None,
        secret: Sequence[str] = (),
        history: bool = True,
        owner: str | None = None,
        limit_key: str | None = None,
        steps: Sequence[str] = (),
        isolation: Isolation | None = None,
    ) -> Callable[[Callable[P, R]], JobType[P, R]]:
        """Register the decorated function as the handler of `job_type`; raises ValueError for a mistake.

        `deadline` is the longest time of one attempt, in seconds or as "10m" (1 h where none is given); `backoff`
        gives the seconds to wait after failed attempt number n; `subject` and `secret` are paths into the payload
        ("place_id", "auth.token"); ``history=False`` keeps no row of a job that ended well; `steps` are shown from
        the start; ``isolation="process"`` runs it in a process apart, which imports this module itself.
        """
        # The names of the place that decorates: a payload type may be local to a function.
        names = sys._getframe(1).f_locals

        def register(function: Callable[P, R]) -> JobType[P, R]:
            shape = _named(job_type, function, partial(inspect_handler, function, names))
            make = partial(
                declare,
                shape.payload.fields,
                job_type=job_type,
                queue=queue,
                priority=priority,
                deadline=deadline,
                max_attempts=max_attempts,
                backoff=backoff,
                subject=subject,
                secret=secret,
                history=history,
                owner=owner,
                limit_key=limit_key,
                steps=steps,
                isolation=isolation,
            )
            declaration = _named(job_type, function, make)
            return JobType(self._add(declaration, function, shape=shape, backoff=backoff), function)

        return register

    def lifespan(self, function: Lifespan) -> Lifespan:
        """Register an async generator function: what it yields is `job.resources` of every job of this registry.

        It is entered before the first claim and left after the last handler.
        """
        if not (is_async_generator(function) or hasattr(function, "__wrapped__")):
            raise TypeError(
                f"lifespan {name_of(function)}: write `async def …() -> AsyncIterator[…]` with one `yield`"
            )
        if self._home.lifespan is not None:
            raise ValueError(
                f"lifespan {name_of(function)}: {name_of(self._home.lifespan)} is registered already"
            )
        self._home.lifespan = function
        return function

    def around(self, function: AroundFunction) -> AroundFunction:
        """Register the hook round each attempt: ``async def hook(job, call): return await call()``."""
        if not is_async(function) or len(inspect.signature(function).parameters) != 2:
            raise TypeError(
                f"hook {name_of(function)}: write `async def …(job, call)` that returns `await call()`"
            )
        if self._home.around is not None:
            raise ValueError(f"hook {name_of(function)}: {name_of(self._home.around)} is registered already")
        self._home.around = function
        return function

    def find(self, job_type: str) -> Handler:
        """Give the handler of a job type; raises UnknownJobType."""
        handler = self._handlers.get(job_type)
        if handler is not None:
            return handler
        if self._fallback is None:
            raise UnknownJobType(job_type)
        return self._fallback(job_type)

    def job_types(self) -> tuple[str, ...]:
        """Give the job types that have a handler, sorted."""
        return tuple(sorted(self._handlers))

    def handlers(self) -> tuple[Handler, ...]:
        """Give all handlers, sorted by job type."""
        return tuple(self._handlers[job_type] for job_type in self.job_types())

    def declarations(self) -> tuple[Declaration, ...]:
        """Give what the handlers declare, sorted by job type: what an instance publishes."""
        return tuple(self._handlers[job_type].declaration for job_type in self.job_types())

    def open_resources(self) -> AbstractAsyncContextManager[Resources]:
        """Enter the lifespans; leave them in the task that entered them.

        One of a registry whose types are all isolated is entered in their processes only.
        """
        return open_homes(tuple(one for one in self._homes if not self._is_elsewhere(one)))

    def open_isolated_resources(self) -> AbstractAsyncContextManager[Resources]:
        """The same in a process of handlers: the lifespans of registries that have such types."""
        return open_homes(tuple(one for one in self._homes if any(self._isolation_in(one))))

    def _is_elsewhere(self, home: Home) -> bool:
        isolated = self._isolation_in(home)
        return bool(isolated) and all(isolated)

    def _isolation_in(self, home: Home) -> list[bool]:
        return [one.is_isolated for one in self._handlers.values() if one.home is home]

    def _add(
        self,
        declaration: Declaration,
        function: Callable[..., object],
        *,
        shape: Shape,
        backoff: Backoff | None,
    ) -> Handler:
        handler = Handler(
            declaration=declaration,
            function=function,
            runs_on_loop=shape.runs_on_loop,
            takes_payload=shape.takes_payload,
            payload=shape.payload,
            backoff=backoff,
            home=self._home,
        )
        self._take(handler)
        return handler

    def _take(self, handler: Handler) -> None:
        other = self._handlers.get(handler.job_type)
        if other is not None:
            raise ValueError(
                f"handler {name_of(handler.function)}: job type {handler.job_type!r} has a handler already, "
                f"{name_of(other.function)}"
            )
        self._handlers[handler.job_type] = handler


def merge(registries: Iterable[Registry]) -> Registry:
    """Give one registry of all handlers; each keeps its own lifespan and hook. Raises ValueError for a double type."""
    merged = Registry()
    for registry in registries:
        for handler in registry._handlers.values():
            merged._take(handler)
        merged._homes.append(registry._home)
    return merged


def registry_of_any(function: Callable[..., object]) -> Registry:
    """Give a registry in which every job type has `function` as its handler: for tests."""
    registry = Registry()
    shape = inspect_handler(function, {})
    registry._fallback = lambda job_type: Handler(
        declaration=Declaration(job_type=job_type),
        function=function,
        runs_on_loop=shape.runs_on_loop,
        takes_payload=shape.takes_payload,
        payload=shape.payload,
        backoff=None,
        home=registry._home,
    )
    return registry


def _named(job_type: object, function: object, check: Callable[[], Checked]) -> Checked:
    try:
        return check()
    except (TypeError, ValueError) as error:
        raise type(error)(f"handler {name_of(function)} of job type {job_type!r}: {error}") from error
