"""From what people wrote, and where, to `Settings` or to all mistakes.

Invariant: nothing is guessed and nothing is skipped: an unknown key, a wrong type, a value out of its bounds
and two values that contradict each other are each one problem with its dotted path, all found in one run. A
secret is never part of a problem's text. Reading files and variables is for `wakeful.config`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from wakeful.core.leaves import decode_leaf
from wakeful.core.rules import contradictions
from wakeful.core.settings import Settings

Path = tuple[str, ...]
ENVIRONMENT_PREFIX: Final = "WAKEFUL__"
ANY_NAME: Final = "NAME"  # stands for the part of a path that people choose

_SECRET_KEYS: Final = frozenset({"dsn", "listen_dsn", "url", "key", "link_key"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a value comes from: `where` is the file's path or the variable's name, empty for the others."""

    kind: Literal["default", "file", "environment", "flag"]
    where: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.where}" if self.where else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A value as it was written, and where."""

    value: object
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """`settings` are of use only where `problems` is empty; `origins` is by dotted path."""

    settings: Settings
    origins: Mapping[str, Origin]
    problems: tuple[str, ...]


def decode(given: Mapping[Path, Given]) -> Decoded:
    """Decode the given values, by path; what is not given has its default."""
    decoding = _Decoding()
    settings = decoding.section((), Settings, given)
    assert isinstance(settings, Settings), "every section has defaults"
    for dotted, what in contradictions(settings, skip=frozenset(decoding.bad)):
        decoding.note(dotted, what)
    return Decoded(
        settings=settings, origins=MappingProxyType(decoding.origins), problems=tuple(decoding.problems)
    )


def variable_of(dotted: str) -> str:
    """Give the environment variable of a setting: "lease.beat" -> WAKEFUL__LEASE__BEAT."""
    return ENVIRONMENT_PREFIX + dotted.replace(".", "__").upper()


def known_paths() -> tuple[str, ...]:
    """Give the dotted paths of all settings, in the order of their sections."""
    return tuple(".".join(path) for path in _paths((), Settings))


def is_secret(dotted: str) -> bool:
    """Tell whether a setting's value may not be shown."""
    return dotted.rpartition(".")[2] in _SECRET_KEYS


class _Decoding:
    """One run over all given values; collects the origins, the problems, and the paths that have one."""

    def __init__(self) -> None:
        self.origins: dict[str, Origin] = {}
        self.problems: list[str] = []
        self.bad: set[str] = set()

    def section(self, path: Path, section: Any, given: Mapping[Path, Given]) -> object:
        """Decode a dataclass of settings; MISSING where a value that it must have is not there."""
        given = self._without_itself(path, given)
        hints = get_type_hints(section)
        self._refuse_strangers(path, hints, given)
        parts = {
            entry.name: self._part((*path, entry.name), hints[entry.name], _below(entry.name, given))
            for entry in fields(section)
        }
        found = {name: part for name, part in parts.items() if part is not MISSING}
        lacking = [entry for entry in fields(section) if entry.name not in found and _is_required(entry)]
        for dotted in (".".join((*path, entry.name)) for entry in lacking):
            if dotted not in self.bad and ".".join(path) not in self.bad:
                self.note(dotted, "must be given")
        return MISSING if lacking else section(**found)

    def _part(self, path: Path, hint: Any, given: Mapping[Path, Given]) -> object:
        """Decode a section, a table of named sections or one value; MISSING where its default holds."""
        if is_dataclass(hint):
            return self.section(path, hint, given)
        if get_origin(hint) is Mapping:
            return self._named(path, get_args(hint)[1], given)
        return self._value(path, hint, given)

    def _named(self, path: Path, section: Any, given: Mapping[Path, Given]) -> object:
        given = self._without_itself(path, given)
        names = dict.fromkeys(below[0] for below in given)
        found = {name: self.section((*path, name), section, _below(name, given)) for name in names}
        return MappingProxyType({name: part for name, part in found.items() if part is not MISSING})

    def _value(self, path: Path, hint: Any, given: Mapping[Path, Given]) -> object:
        dotted = ".".join(path)
        entry = given.get(())
        self.origins[dotted] = Origin(kind="default") if entry is None else entry.origin
        for below, stranger in given.items():
            if below:
                self._note_given((*path, *below), f"{dotted} takes one value, not a table", stranger)
        if entry is None:
            return MISSING
        try:
            return decode_leaf(dotted, hint, entry.value, secret=is_secret(dotted))
        except ValueError as problem:
            self._note_given(path, str(problem), entry)
            return MISSING

    def _without_itself(self, path: Path, given: Mapping[Path, Given]) -> Mapping[Path, Given]:
        """Take out the entry that stands where a table should; an empty table is none."""
        entry = given.get(())
        if entry is not None and entry.value != {}:
            self._note_given(path, "is a table of settings, not one value", entry)
        return {below: value for below, value in given.items() if below}

    def _refuse_strangers(self, path: Path, hints: Mapping[str, Any], given: Mapping[Path, Given]) -> None:
        for below, entry in given.items():
            if below[0] not in hints:
                self._note_given(
                    (*path, *below), f"unknown setting; {_advice(path, below, hints, entry)}", entry
                )

    def note(self, dotted: str, what: str) -> None:
        """Note what is wrong with a known setting, and where its value comes from."""
        origin = self.origins.get(dotted)
        self.bad.add(dotted)
        self.problems.append(f"{dotted}: {what}" + (f" [{origin}]" if origin and origin.where else ""))

    def _note_given(self, path: Path, what: str, entry: Given) -> None:
        dotted = ".".join(path)
        self.bad.add(dotted)
        self.problems.append(f"{dotted}: {what} [{entry.origin}]")


def _below(name: str, given: Mapping[Path, Given]) -> dict[Path, Given]:
    return {path[1:]: entry for path, entry in given.items() if path[0] == name}


def _is_required(entry: Field[Any]) -> bool:
    return entry.default is MISSING and entry.default_factory is MISSING


def _paths(path: Path, hint: Any) -> Iterator[Path]:
    if is_dataclass(hint):
        for name, part in get_type_hints(hint).items():
            yield from _paths((*path, name), part)
    elif get_origin(hint) is Mapping:
        yield from _paths((*path, ANY_NAME), get_args(hint)[1])
    else:
        yield path


def _advice(path: Path, below: Path, hints: Mapping[str, Any], entry: Given) -> str:
    """Name the setting that was meant: a sibling, else one with that key elsewhere, else all siblings."""
    siblings = difflib.get_close_matches(below[0], hints, n=1)
    elsewhere = [known for known in known_paths() if known.rpartition(".")[2] == below[-1]]
    if siblings:
        meant = ".".join((*path, siblings[0], *below[1:]))
    elif elsewhere:
        meant = elsewhere[0]
    else:
        return "known here: " + ", ".join(hints)
    return f"did you mean {variable_of(meant) if entry.origin.kind == 'environment' else meant}?"
