"""Finding handlers: the modules named in the configuration are imported, and their registries joined into one.

Invariant: what is wrong with a module is said with its name, and all that is wrong in one run.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Sequence

from wakeful.errors import ConfigError
from wakeful.handlers.registry import Registry, merge


def load_registry(modules: Sequence[str]) -> Registry:
    """Import the modules and join every `Registry` that they hold. Raises ConfigError, naming each that fails."""
    problems: list[str] = []
    found: list[Registry] = []
    for name in modules:
        try:
            registries = _registries_of(name)
        except Exception as error:  # noqa: BLE001 -- importing a module runs its author's code
            problems.append(f"handlers: {name} can't be imported: {_last_line(error)}{_hint(name, error)}")
            continue
        if not registries:
            problems.append(
                f"handlers: {name} holds no wakeful.Registry; write `registry = Registry()` in it"
            )
        found.extend(one for one in registries if one not in found)
    if problems:
        raise ConfigError(tuple(problems))
    merged = _merged(found)
    merged.modules = tuple(modules)
    return merged


def _registries_of(name: str) -> list[Registry]:
    module = importlib.import_module(name)
    return [value for value in vars(module).values() if isinstance(value, Registry)]


def _merged(found: Sequence[Registry]) -> Registry:
    try:
        return merge(found)
    except ValueError as error:
        raise ConfigError((f"handlers: {error}",)) from error


def _hint(name: str, error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]:
        return "; install its package here, or name the folder that holds it in PYTHONPATH (PYTHONPATH=. for this one)"
    return ""


def _last_line(error: Exception) -> str:
    return traceback.format_exception_only(error)[-1].strip()
