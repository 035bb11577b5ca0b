"""Reads the configuration: defaults < config.toml < environment < flags, into one `Settings`.

Invariant: either all of it is right, or `ConfigError` lists every mistake of every source in one run, and
where each one stands. An empty variable counts as not set. Secrets may stand in files of their own
(`*_FILE`), which are read again at each use, so that they can be rotated; what is shown of the configuration
never holds one. What values are allowed is in `core.decoding` and `core.rules`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from wakeful.core.alert_settings import AlertSettings
from wakeful.core.decoding import ENVIRONMENT_PREFIX, Given, Origin, decode, known_paths, variable_of
from wakeful.core.decoding import Path as SettingPath
from wakeful.core.dsn import dsn_problem
from wakeful.core.effective import Row, effective
from wakeful.core.links import Signing, keys_in
from wakeful.core.secrets import hidden_values, secrets_of
from wakeful.core.settings import DatabaseSettings, HeartbeatSettings, Settings, SinkSettings
from wakeful.errors import ConfigError

__all__ = (
    "Configuration",
    "Origin",
    "Row",
    "current_dsn",
    "current_heartbeat",
    "current_key",
    "current_listen_dsn",
    "current_signing",
    "current_url",
    "effective",
    "hidden_in",
    "load",
)

FILE_NAME: Final = "config.toml"
FILE_VARIABLE: Final = "WAKEFUL_CONFIG"
DSN_VARIABLES: Final[Mapping[str, SettingPath]] = MappingProxyType(
    {"DATABASE_URL": ("database", "dsn"), "DATABASE_URL_FILE": ("database", "dsn_file")}
)

_LARGEST_SECRET: Final = 64 * 1024
_DRIVER: Final = re.compile(r"^postgres(?:ql)?\+\w+://")  # SQLAlchemy's spelling names a Python driver
_CONTAINER_LINK: Final = re.compile(r"(tcp|udp)://")  # Kubernetes sets such variables for a service "wakeful"

_Layer = dict[SettingPath, Given]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The settings of this process;

    `origins` by dotted path; `path` is the file that was read, if there is one.
    """

    settings: Settings
    origins: Mapping[str, Origin]
    path: Path | None


def load(
    *, environ: Mapping[str, str], path: Path | None = None, flags: Mapping[str, object] | None = None
) -> Configuration:
    """Read the configuration. `flags` are keyed by dotted path, such as ``{"worker.concurrency": "20"}``.

    The file is `path`, else what WAKEFUL_CONFIG names, else `config.toml` in the working directory, if it is
    there. Raises ConfigError with all mistakes.
    """
    problems: list[str] = []
    chosen = _file_to_read(environ, path)
    from_file = {} if chosen is None else _file_layer(chosen, problems)
    layers = (
        from_file,
        _dsn_layer(environ),
        _environment_layer(environ, from_file, problems),
        _flag_layer(flags or {}),
    )
    decoded = decode(_merged(layers, problems))
    problems += decoded.problems
    problems += _unreadable(decoded.settings) or _unusable(decoded.settings)
    if problems:
        raise ConfigError(tuple(problems))
    return Configuration(settings=decoded.settings, origins=decoded.origins, path=chosen)


def current_dsn(database: DatabaseSettings) -> str:
    """Give the DSN to connect with now, read again from its file if it has one. Raises ConfigError."""
    if database.dsn is None and database.dsn_file is None:
        raise ConfigError(("database.dsn: not given; set DATABASE_URL, as in postgresql://user@host/name",))
    return _dsn("database.dsn", database.dsn, database.dsn_file)


def current_listen_dsn(database: DatabaseSettings) -> str:
    """Give the DSN that the listener connects with: its own, else the database's. Raises ConfigError."""
    if database.listen_dsn is None and database.listen_dsn_file is None:
        return current_dsn(database)
    return _dsn("database.listen_dsn", database.listen_dsn, database.listen_dsn_file)


def current_url(name: str, sink: SinkSettings) -> str:
    """Give the URL of the sink `name`, read again from its file if it has one. Raises ConfigError."""
    return _secret(f"sinks.{name}.url", sink.url, sink.url_file)


def current_key(name: str, sink: SinkSettings) -> str:
    """Give the key of the sink `name`, as `current_url` does; empty where it has none. Raises ConfigError."""
    return _secret(f"sinks.{name}.key", sink.key, sink.key_file)


def current_heartbeat(heartbeat: HeartbeatSettings) -> str:
    """Give the URL of the heartbeat, as `current_url` does. Raises ConfigError."""
    return _secret("heartbeat.url", heartbeat.url, heartbeat.url_file)


def current_signing(alerts: AlertSettings) -> Signing:
    """Give what signs and judges links; without keys where none is set. Raises ConfigError, as `current_url` does."""
    text = _secret("alerts.link_key", alerts.link_key, alerts.link_key_file)
    try:
        return Signing(keys=keys_in(text), installation=alerts.environment or "")
    except ValueError as error:
        raise ConfigError((f"alerts.link_key: {error}",)) from None


def hidden_in(settings: Settings) -> frozenset[str]:
    """Give every text that no log, page or error may hold, as of now, but for files that can't be read."""
    hidden: set[str] = set()
    for secret in secrets_of(settings):
        if secret.value is not None or secret.file is not None:
            with suppress(ConfigError):
                hidden |= hidden_values(_secret(secret.dotted, secret.value, secret.file))
    return frozenset(hidden)


def _dsn(dotted: str, value: str | None, file: str | None) -> str:
    text = _DRIVER.sub("postgresql://", _secret(dotted, value, file))
    problem = dsn_problem(text)
    if problem is not None:
        raise ConfigError((f"{dotted}: {problem}" + (f" [file {file}]" if file else ""),))
    return text


def _secret(dotted: str, value: str | None, file: str | None) -> str:
    if file is None:
        return value or ""
    try:
        with Path(file).open("rb") as source:
            text = source.read(_LARGEST_SECRET + 1).decode().strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError((f"{dotted}_file: can't read {file}: {reason}",)) from None
    if not text or len(text) > _LARGEST_SECRET:
        raise ConfigError((f"{dotted}_file: {file} is {'too long' if text else 'empty'}",))
    return text


def _file_to_read(environ: Mapping[str, str], path: Path | None) -> Path | None:
    if path is not None:
        return path
    if environ.get(FILE_VARIABLE):
        return Path(environ[FILE_VARIABLE])
    return Path(FILE_NAME) if Path(FILE_NAME).is_file() else None


def _file_layer(path: Path, problems: list[str]) -> _Layer:
    try:
        document = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        problems.append(f"{path}: can't be read: {error.strerror}")
        return {}
    except UnicodeDecodeError as error:
        problems.append(f"{path}: is not UTF-8 text (byte {error.start})")
        return {}
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        problems.append(f"{path}: is not TOML: {error}")
        return {}
    except ValueError:
        problems.append(f"{path}: has a number of more digits than can be read")
        return {}
    origin = Origin(kind="file", where=str(path))
    return {place: Given(value=value, origin=origin) for place, value in _flat(document)}


def _flat(table: Mapping[str, object], above: SettingPath = ()) -> Iterator[tuple[SettingPath, object]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, (*above, key))
        else:
            yield (*above, key), value


def _dsn_layer(environ: Mapping[str, str]) -> _Layer:
    return {
        place: Given(value=environ[name], origin=Origin(kind="environment", where=name))
        for name, place in DSN_VARIABLES.items()
        if environ.get(name)
    }


def _environment_layer(environ: Mapping[str, str], from_file: _Layer, problems: list[str]) -> _Layer:
    layer: _Layer = {}
    problems += _near_misses(environ)
    for name, value in environ.items():
        if name.startswith(ENVIRONMENT_PREFIX) and value:
            place = _place_of(name, from_file)
            layer[place] = Given(value=value, origin=Origin(kind="environment", where=name))
    return layer


def _place_of(variable: str, from_file: _Layer) -> SettingPath:
    """Give the setting of a variable; a name that people chose is spelled as in the file, if it is there."""
    parts = variable.removeprefix(ENVIRONMENT_PREFIX).split("__")
    place = tuple(part.lower() for part in parts)
    if place[0] in ("queues", "sinks", "routes", "rules") and len(place) > 1:
        chosen = (known[1] for known in from_file if known[0] == place[0] and len(known) > 1)
        name = next((name for name in chosen if _plain(name) == _plain(place[1])), place[1])
        return (place[0], name, *place[2:])
    return place


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def _near_misses(environ: Mapping[str, str]) -> list[str]:
    """Find variables that mean a setting but have one underscore where two belong: they would do nothing."""
    meant = {variable_of(dotted).replace("_", ""): variable_of(dotted) for dotted in known_paths()}
    return [
        f"{name}: unknown variable; did you mean {meant[name.replace('_', '')]}? [environment {name}]"
        for name, value in environ.items()
        if name.startswith("WAKEFUL_")
        and not name.startswith(ENVIRONMENT_PREFIX)
        and name.replace("_", "") in meant
        and not _CONTAINER_LINK.match(value)
    ]


def _flag_layer(flags: Mapping[str, object]) -> _Layer:
    origin = Origin(kind="flag")
    return {tuple(dotted.split(".")): Given(value=value, origin=origin) for dotted, value in flags.items()}


def _merged(layers: tuple[_Layer, ...], problems: list[str]) -> _Layer:
    """Let each layer override those before it; a secret and the file that holds it override each other."""
    merged: _Layer = {}
    for layer in layers:
        for place, given in layer.items():
            other = _counterpart(place)
            if other in layer and place < other:
                problems.append(
                    f"{'.'.join(place)}: given together with {'.'.join(other)}; give one [{given.origin}]"
                )
            if other not in layer:
                merged.pop(other, None)
            merged[place] = given
    return merged


def _counterpart(place: SettingPath) -> SettingPath:
    *above, key = place
    return (*above, key.removesuffix("_file") if key.endswith("_file") else f"{key}_file")


def _unreadable(settings: Settings) -> list[str]:
    """Look now whether the files of secrets can be read, so that a start fails at once, with all mistakes."""
    problems: list[str] = []
    for secret in secrets_of(settings):
        if secret.file is not None:
            try:
                _secret(secret.dotted, None, secret.file)
            except ConfigError as error:
                problems += error.problems
    return problems


def _unusable(settings: Settings) -> list[str]:
    """Look now at keys that could not sign, since the first message would be too late to say so."""
    try:
        current_signing(settings.alerts)
    except ConfigError as error:
        return list(error.problems)
    return []
