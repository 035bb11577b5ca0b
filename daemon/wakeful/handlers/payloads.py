"""The payload that a handler declares, and the step from a job's JSON object to a value of it.

Invariant: `bind` raises InvalidPayload and nothing else, with every problem and its path, and without any value at
one of the type's secret paths, also where a check of the author's own has put it into its message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_origin

from wakeful.core.secrets import values_at
from wakeful.core.text import clean
from wakeful.errors import InvalidPayload
from wakeful.handlers import records
from wakeful.handlers.converters import Compiler
from wakeful.handlers.scalars import Converter, Problems, convert_any, kind_of
from wakeful.telemetry.redaction import Redactor

_PROBLEMS_SHOWN: Final = 20
_PROBLEM_BYTES: Final = 500
_PLAIN: Final = (dict, Mapping, Any, object)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadType:
    """A declared payload: `kind` is the type, `fields` its names in JSON where no others may come."""

    kind: object
    convert: Converter
    fields: frozenset[str] | None

    def bind(self, payload: object, secret_paths: tuple[str, ...] = ()) -> object:
        """Give the payload as the declared type; raises InvalidPayload."""
        if not isinstance(payload, Mapping):
            raise InvalidPayload((f"$: expected an object, got {kind_of(payload)}",))
        problems: Problems = []
        try:
            bound = self.convert(payload, "$", problems)
        except RecursionError:
            raise InvalidPayload(("$: nested too deeply",)) from None
        if problems:
            raise InvalidPayload(_shown(problems, secret_paths, Redactor(values_at(payload, secret_paths))))
        return bound


PLAIN_PAYLOAD: Final = PayloadType(kind=dict, convert=convert_any, fields=None)


def payload_type(kind: object, names: Mapping[str, object]) -> PayloadType:
    """Compile the type of a payload parameter; raises TypeError where JSON objects can't become one."""
    origin = get_origin(kind) or kind
    if origin in _PLAIN:
        return PLAIN_PAYLOAD
    if not isinstance(origin, type) or not records.is_record(origin):
        raise TypeError(
            f"a payload is a dataclass, a TypedDict, a msgspec.Struct, a pydantic model or a dict, not {kind}"
        )
    convert = Compiler(names).compile(kind, origin.__name__)
    return PayloadType(kind=kind, convert=convert, fields=records.field_names(origin))


def _shown(problems: Problems, secret_paths: tuple[str, ...], redactor: Redactor) -> tuple[str, ...]:
    secrets = tuple(f"$.{path}" for path in secret_paths)
    told = (
        f"{path}: {'does not fit (the value is secret)' if path.startswith(secrets) else problem}"
        for path, problem in problems[:_PROBLEMS_SHOWN]
    )
    # Hidden before it is cut: half a secret would not be found.
    shown = tuple(clean(redactor.text(problem), _PROBLEM_BYTES) for problem in told)
    more = len(problems) - _PROBLEMS_SHOWN
    return (*shown, f"and {more} more") if more > 0 else shown
