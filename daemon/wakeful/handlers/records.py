"""Converters from a JSON object to a record: dataclass, TypedDict, msgspec.Struct, pydantic model.

Invariant: an unknown field of a dataclass is a problem unless the class says ``__unknown_fields__ = "ignore"``; a
TypedDict keeps it; msgspec and pydantic follow their own configuration. msgspec and pydantic are never imported here:
a type of theirs can only exist once its author has imported them.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from typing import Any, NotRequired, Required, get_origin, get_type_hints, is_typeddict

from wakeful.core.names import did_you_mean
from wakeful.core.text import clean
from wakeful.handlers.scalars import Converter, Problems, refuse

Compile = Callable[[object, str], Converter]

_MESSAGE_BYTES = 16 * 1024  # long enough that no secret in it is cut in half before it is hidden


def is_record(kind: type) -> bool:
    """Say whether a type is one that this module makes."""
    return dataclasses.is_dataclass(kind) or is_typeddict(kind) or is_struct(kind) or is_model(kind)


def is_struct(kind: type) -> bool:
    """Say whether a type is a msgspec.Struct."""
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and issubclass(kind, msgspec.Struct)


def is_model(kind: type) -> bool:
    """Say whether a type is a pydantic model."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


def field_names(kind: type) -> frozenset[str] | None:
    """Give the names that a record's fields have in JSON, or None where other names may come, too."""
    if is_struct(kind):
        return frozenset(kind.__struct_encode_fields__)  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(kind) and not _ignores_unknown(kind):
        return frozenset(field.name for field in dataclasses.fields(kind) if field.init)
    return None


def record_converter(kind: type, compile_type: Compile, names: Mapping[str, object]) -> Converter:
    """Give the converter of a record type; raises TypeError where a field's type can't be made from JSON."""
    if is_struct(kind):
        return _struct_converter(kind)
    if is_model(kind):
        return _model_converter(kind)
    hints = _hints(kind, names)
    if is_typeddict(kind):
        members = {name: compile_type(hint, f"{kind.__name__}.{name}") for name, hint in hints.items()}
        return _typed_dict_converter(members, _required_keys(kind, hints))
    if any(_is_init_var(hint) for hint in hints.values()):
        raise TypeError(f"{kind.__name__}: an InitVar can't be a field of a payload")
    names_of_fields = [field.name for field in dataclasses.fields(kind) if field.init]
    return _dataclass_converter(
        kind, {name: compile_type(hints[name], f"{kind.__name__}.{name}") for name in names_of_fields}
    )


def _hints(kind: type, names: Mapping[str, object]) -> dict[str, object]:
    try:
        hints: dict[str, object] = get_type_hints(kind, include_extras=True)
    except NameError:
        # Not in the class's own module: it was defined inside a function, and so was what it names.
        hints = _hints_among(kind, names)
    return hints


def _hints_among(kind: type, names: Mapping[str, object]) -> dict[str, object]:
    try:
        return get_type_hints(kind, localns=dict(names), include_extras=True)
    except NameError as error:
        raise TypeError(f"{kind.__name__}: {error}; define that type at the top of its module") from error


def _is_init_var(hint: object) -> bool:
    return hint is dataclasses.InitVar or isinstance(hint, dataclasses.InitVar)


def _ignores_unknown(kind: type) -> bool:
    return getattr(kind, "__unknown_fields__", "refuse") == "ignore"


def _dataclass_converter(kind: type, fields: Mapping[str, Converter]) -> Converter:
    known = tuple(fields)
    required = frozenset(
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )

    def convert(value: object, path: str, problems: Problems) -> object:
        if not isinstance(value, Mapping):
            return refuse(value, path, problems, expected="an object")
        before = len(problems)
        given = _fields(value, fields, path, problems)
        missing = required.difference(value)
        problems.extend((f"{path}.{name}", "is missing") for name in known if name in missing)
        if not _ignores_unknown(kind):
            problems.extend(
                (f"{path}.{name}", f"unknown field{did_you_mean(str(name), known)}")
                for name in value
                if name not in fields
            )
        return _build(kind, given, path, problems) if len(problems) == before else None

    return convert


def _build(kind: type, given: Mapping[str, object], path: str, problems: Problems) -> object:
    try:
        return kind(**given)
    except Exception as error:  # noqa: BLE001 -- a __post_init__ is the author's check of the payload
        problems.append((path, f"{type(error).__name__}: {clean(error, _MESSAGE_BYTES)}"))
        return None


def _typed_dict_converter(fields: Mapping[str, Converter], required: frozenset[str]) -> Converter:
    def convert(value: object, path: str, problems: Problems) -> object:
        if not isinstance(value, Mapping):
            return refuse(value, path, problems, expected="an object")
        problems.extend(
            (f"{path}.{name}", "is missing") for name in fields if name in required - value.keys()
        )
        return {**value, **_fields(value, fields, path, problems)}

    return convert


def _required_keys(kind: Any, hints: Mapping[str, object]) -> frozenset[str]:
    # With postponed annotations __required_keys__ has not seen Required and NotRequired.
    marked = {name: get_origin(hint) for name, hint in hints.items()}
    required = {name for name, mark in marked.items() if mark is Required}
    optional = {name for name, mark in marked.items() if mark is NotRequired}
    return frozenset((kind.__required_keys__ | required) - optional)


def _fields(
    value: Mapping[Any, object], fields: Mapping[str, Converter], path: str, problems: Problems
) -> dict[str, object]:
    return {
        name: convert(value[name], f"{path}.{name}", problems)
        for name, convert in fields.items()
        if name in value
    }


def _struct_converter(kind: type) -> Converter:
    msgspec: Any = sys.modules["msgspec"]

    def convert(value: object, path: str, problems: Problems) -> object:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            message, _, where = str(error).partition(" - at `$")
            problems.append((path + where.rstrip("`"), clean(message, _MESSAGE_BYTES)))
        except Exception as error:  # noqa: BLE001 -- a __post_init__ is the author's check of the payload
            problems.append((path, f"{type(error).__name__}: {clean(error, _MESSAGE_BYTES)}"))
        return None

    return convert


def _model_converter(kind: Any) -> Converter:
    pydantic: Any = sys.modules["pydantic"]

    def convert(value: object, path: str, problems: Problems) -> object:
        try:
            return kind.model_validate(value)
        except pydantic.ValidationError as error:
            for found in error.errors(include_url=False, include_input=False, include_context=False):
                where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in found["loc"])
                problems.append((path + where, clean(found["msg"], _MESSAGE_BYTES)))
        except Exception as error:  # noqa: BLE001 -- a validator is the author's code
            problems.append((path, f"{type(error).__name__}: {clean(error, _MESSAGE_BYTES)}"))
        return None

    return convert
