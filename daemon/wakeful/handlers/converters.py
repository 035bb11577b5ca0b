"""From a type as a handler's author writes it to the converter that makes it out of JSON values.

Invariant: a type that can't be made from JSON is refused when it is compiled, at registration, never when a job runs.
Every problem of a value is noted with its path. Records (dataclasses and the like) are `handlers.records`.
"""

from __future__ import annotations

import collections.abc
import types
from collections.abc import Callable, Mapping
from enum import Enum
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    NotRequired,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from wakeful.handlers import records
from wakeful.handlers.scalars import (
    SCALARS,
    Converter,
    Problems,
    choice_converter,
    convert_any,
    enum_converter,
    refuse,
)

_ARRAYS: Final[Mapping[object, Callable[[list[object]], object]]] = types.MappingProxyType(
    {
        list: list,
        set: set,
        frozenset: frozenset,
        collections.abc.Sequence: list,
        collections.abc.Iterable: list,
        collections.abc.Collection: list,
        collections.abc.Set: frozenset,
    }
)
_OBJECTS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_WRAPPERS: Final = (Annotated, Required, NotRequired, Final)


class Compiler:
    """Compiles one payload type and the types in it; `names` are those of the place where the handler is defined."""

    __slots__ = ("_compiled", "names")

    def __init__(self, names: Mapping[str, object]) -> None:
        self.names = names
        self._compiled: dict[object, Converter] = {}

    def compile(self, kind: object, where: str) -> Converter:
        """Give the converter of a type; raises TypeError, naming `where` it stands, for one that JSON can't make."""
        scalar = _scalar(kind)
        if scalar is not None:
            return scalar
        if kind is Any or isinstance(kind, TypeVar):
            return convert_any
        if isinstance(kind, NewType):
            return self.compile(kind.__supertype__, where)
        if hasattr(kind, "__value__"):  # an alias made by the `type` statement
            return self.compile(kind.__value__, where)
        if isinstance(kind, type) and get_origin(kind) is None:
            return self._compile_class(kind, where)
        return self._compile_generic(kind, where)

    def _compile_class(self, kind: type, where: str) -> Converter:
        if kind in _ARRAYS:
            return _array_converter(convert_any, _ARRAYS[kind])
        if kind in _OBJECTS:
            return _object_converter(SCALARS[str], convert_any)
        if kind is tuple:
            return _array_converter(convert_any, tuple)
        if issubclass(kind, Enum):
            return enum_converter(kind)
        if not records.is_record(kind):
            raise TypeError(f"{where}: a {kind.__name__} can't be made from JSON")
        if kind not in self._compiled:
            # A type that contains itself finds this while it is being compiled.
            self._compiled[kind] = self._later(kind)
            self._compiled[kind] = records.record_converter(kind, self.compile, self.names)
        return self._compiled[kind]

    def _later(self, kind: type) -> Converter:
        def convert(value: object, path: str, problems: Problems) -> object:
            return self._compiled[kind](value, path, problems)

        return convert

    def _compile_generic(self, kind: object, where: str) -> Converter:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in _WRAPPERS:
            return self.compile(arguments[0], where)
        if origin is Literal:
            return choice_converter(tuple((choice, choice) for choice in arguments))
        if origin is Union or origin is types.UnionType:
            return _union_converter(tuple(self.compile(arm, where) for arm in arguments))
        if origin is tuple:
            return self._compile_tuple(arguments, where)
        if origin in _ARRAYS:
            return _array_converter(self.compile(arguments[0], where), _ARRAYS[origin])
        if origin in _OBJECTS:
            return _object_converter(self.compile(arguments[0], where), self.compile(arguments[1], where))
        if isinstance(origin, type) and records.is_record(origin):
            return self.compile(origin, where)
        raise TypeError(f"{where}: {kind} can't be made from JSON")

    def _compile_tuple(self, arguments: tuple[object, ...], where: str) -> Converter:
        if len(arguments) == 2 and arguments[1] is ...:
            return _array_converter(self.compile(arguments[0], where), tuple)
        return _fixed_converter(tuple(self.compile(member, where) for member in arguments))


def _scalar(kind: object) -> Converter | None:
    try:
        return SCALARS.get(type(None) if kind is None else kind)
    except TypeError:  # Annotated with what can't be hashed
        return None


def _array_converter(member: Converter, collect: Callable[[list[object]], object]) -> Converter:
    def convert(value: object, path: str, problems: Problems) -> object:
        if not isinstance(value, list | tuple):
            return refuse(value, path, problems, expected="an array")
        members = [member(given, f"{path}[{index}]", problems) for index, given in enumerate(value)]
        try:
            return collect(members)
        except TypeError:  # a set of what can't be in one
            problems.append((path, "expected an array of plain values"))
            return None

    return convert


def _fixed_converter(members: tuple[Converter, ...]) -> Converter:
    def convert(value: object, path: str, problems: Problems) -> object:
        if not isinstance(value, list | tuple):
            return refuse(value, path, problems, expected="an array")
        if len(value) != len(members):
            problems.append((path, f"expected an array of {len(members)}, got one of {len(value)}"))
            return None
        return tuple(
            member(given, f"{path}[{index}]", problems)
            for index, (member, given) in enumerate(zip(members, value, strict=True))
        )

    return convert


def _object_converter(key: Converter, member: Converter) -> Converter:
    def convert(value: object, path: str, problems: Problems) -> object:
        if not isinstance(value, Mapping):
            return refuse(value, path, problems, expected="an object")
        return {
            key(name, f"{path}: key {name!r}", problems): member(given, f"{path}.{name}", problems)
            for name, given in value.items()
        }

    return convert


def _union_converter(arms: tuple[Converter, ...]) -> Converter:
    def convert(value: object, path: str, problems: Problems) -> object:
        attempts: list[Problems] = []
        for arm in arms:
            found: Problems = []
            converted = arm(value, path, found)
            # The arm that gives the value back as it is fits best: "1" is a str before it is a Decimal.
            if not found and (converted is value or arm is arms[-1]):
                return converted
            attempts.append(found)
        fitting = next((arm for arm, found in zip(arms, attempts, strict=True) if not found), None)
        if fitting is not None:
            return fitting(value, path, problems)
        # The arm that came furthest has its problem deepest.
        problems.extend(max(attempts, key=lambda found: max(len(where) for where, _ in found)))
        return None

    return convert
