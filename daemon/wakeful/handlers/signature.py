"""What a handler's function looks like: does it run on the loop or in a thread, and which payload does it take?

Invariant: a function that can't be a handler is refused here, when it is registered, with its name and what to write
instead. Nothing here calls it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wakeful.handlers.payloads import PLAIN_PAYLOAD, PayloadType, payload_type

_EXPECTED = "write `async def {name}(job: JobContext, payload: YourPayload)` or leave the payload out"
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a handler is called: `runs_on_loop` for an async function; `payload` is None where it takes none."""

    runs_on_loop: bool
    takes_payload: bool
    payload: PayloadType


def name_of(function: object) -> str:
    """Name a function with its module and line, for a message: "collect (myapp.jobs:12)"."""
    inner: Any = inspect.unwrap(function) if inspect.isfunction(function) else function
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    code = getattr(inner, "__code__", None)
    module = getattr(inner, "__module__", "?")
    return f"{name} ({module}:{code.co_firstlineno})" if code is not None else f"{name} ({module})"


def inspect_handler(function: Any, names: Mapping[str, object]) -> Shape:
    """Give the shape of a handler; raises TypeError. `names`: the local names of the place where it is defined."""
    if not callable(function) or inspect.isclass(function):
        raise TypeError(
            "a handler is a function; this is a class" if callable(function) else "a handler is a function"
        )
    _refuse_generator(function)
    parameter = _payload_parameter(function)
    if parameter is None:
        return Shape(runs_on_loop=is_async(function), takes_payload=False, payload=PLAIN_PAYLOAD)
    kind = _annotation(function, parameter, names)
    payload = PLAIN_PAYLOAD if kind is inspect.Parameter.empty else payload_type(kind, names)
    return Shape(runs_on_loop=is_async(function), takes_payload=True, payload=payload)


def is_async(function: Callable[..., object]) -> bool:
    """Say whether calling a function gives a coroutine: an async function, or a plain wrapper round one."""
    return any(inspect.iscoroutinefunction(layer) for layer in _layers(function))


def is_async_generator(function: Callable[..., object]) -> bool:
    """Say whether a function is an async generator function, such as a lifespan is written as."""
    return any(inspect.isasyncgenfunction(layer) for layer in _layers(function))


def _layers(function: Callable[..., object]) -> tuple[object, ...]:
    bare = function.func if isinstance(function, functools.partial) else function
    called = vars(type(bare)).get("__call__")  # of an object that can be called like a function
    return (inspect.unwrap(bare), bare, called)


def _refuse_generator(function: Callable[..., object]) -> None:
    if any(inspect.isgeneratorfunction(layer) for layer in _layers(function)) or is_async_generator(function):
        raise TypeError("a handler returns its result; this is a generator (it has a `yield`)")


def _payload_parameter(function: Callable[..., object]) -> inspect.Parameter | None:
    expected = _EXPECTED.format(name=getattr(function, "__name__", "handler"))
    try:
        parameters = tuple(inspect.signature(function).parameters.values())
    except (ValueError, NameError) as error:  # Python 3.14 reads annotations only now
        raise TypeError(f"its signature can't be read: {error}; {expected}") from error
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    required = [parameter for parameter in parameters if _is_required(parameter)]
    if not positional or any(parameter not in positional[:2] for parameter in required):
        raise TypeError(f"a handler takes the job, and the payload if it wants it; {expected}")
    return (
        positional[1] if len(positional) > 1 and (len(positional) == 2 or positional[1] in required) else None
    )


def _is_required(parameter: inspect.Parameter) -> bool:
    is_variable = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and not is_variable


def _annotation(
    function: Callable[..., object], parameter: inspect.Parameter, names: Mapping[str, object]
) -> object:
    annotation: object = parameter.annotation
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(
            annotation, _globals_of(function), dict(names)
        )  # as typing.get_type_hints does, for one name
    except NameError as error:
        raise TypeError(
            f"the type of its payload can't be found: {error}; define it at the top of the module, "
            "and import it outside of `if TYPE_CHECKING`"
        ) from error


def _globals_of(function: Callable[..., object]) -> dict[str, Any]:
    for layer in _layers(function):
        scope: dict[str, Any] | None = getattr(layer, "__globals__", None)
        if scope is not None:
            return scope
    return {}
