"""What the container's files say, read as their tools read them: Dockerfile, .dockerignore, compose.yaml."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from wakeful.core.durations import parse_duration


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a Dockerfile, its lines joined."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """The arguments: of an exec form its list, else the words of a shell."""
        if self.text.startswith("["):
            return list(json.loads(self.text))
        return shlex.split(self.text, comments=False)

    @property
    def is_exec_form(self) -> bool:
        """Whether no shell stands between."""
        return self.text.startswith("[")

    @property
    def flags(self) -> dict[str, str]:
        """The `--name=value` before the arguments."""
        flags = takewhile(lambda word: word.startswith("--"), self.text.split())
        return dict(flag.removeprefix("--").split("=", 1) for flag in flags)

    @property
    def arguments(self) -> list[str]:
        """The words after the flags."""
        return [word for word in self.words if not word.startswith("--")]


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """What stands before the first FROM, and each stage with its FROM first."""

    before: tuple[Instruction, ...]
    stages: tuple[tuple[Instruction, ...], ...]

    @property
    def final(self) -> tuple[Instruction, ...]:
        """The stage that the image is."""
        return self.stages[-1]

    @property
    def every(self) -> list[Instruction]:
        """All instructions, in order."""
        return [*self.before, *(one for stage in self.stages for one in stage)]


def named(instructions: Iterable[Instruction], name: str) -> list[Instruction]:
    """Give the instructions of one name."""
    return [one for one in instructions if one.name == name]


def pairs(instructions: Iterable[Instruction], name: str) -> dict[str, str]:
    """Give the `key=value` of ENV, LABEL or ARG instructions; an ARG without a value has ``""``."""
    words = (word for one in named(instructions, name) for word in one.words)
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def read_dockerfile(text: str) -> Dockerfile:
    """Read a Dockerfile."""
    before: list[Instruction] = []
    stages: list[list[Instruction]] = []
    for instruction in _instructions(text):
        if instruction.name == "FROM":
            stages.append([])
        (stages[-1] if stages else before).append(instruction)
    return Dockerfile(tuple(before), tuple(map(tuple, stages)))


def _instructions(text: str) -> Iterator[Instruction]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    for line in joined.splitlines():
        name, _, rest = line.strip().partition(" ")
        yield Instruction(name.upper(), rest.strip())


def is_sent(path: str, ignore: str) -> bool:
    """Say whether this file of the folder goes to the builder, by the text of .dockerignore: the last hit decides."""
    sent = True
    for line in ignore.splitlines():
        pattern = line.strip()
        if pattern and not pattern.startswith("#"):
            is_exception = pattern.startswith("!")
            if _hits(pattern.removeprefix("!").strip("/"), path):
                sent = is_exception
    return sent


def _hits(pattern: str, path: str) -> bool:
    """A pattern hits a file, or a folder that the file is in."""
    parts = path.split("/")
    return any(_matches(pattern.split("/"), parts[:depth]) for depth in range(1, len(parts) + 1))


def _matches(pattern: list[str], parts: list[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(pattern[1:], parts[start:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(pattern[1:], parts[1:])


def files_sent(folder: Path, ignore: str) -> list[str]:
    """Give the paths of the files that go to the builder from this folder."""
    paths = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in paths if is_sent(path, ignore))


def read_compose(text: str) -> dict[str, Any]:
    """Read a compose file, its anchors resolved and its `${…}` as they stand."""
    document = yaml.safe_load(text)
    assert isinstance(document, dict)
    return document


def seconds(duration: str) -> float:
    """Give a duration of a compose file or a Dockerfile in seconds."""
    return parse_duration(duration)


def variables(text: str) -> list[tuple[str, str]]:
    """Give each `${NAME…}` of a compose file: its name, and what follows the name (``:?…`` refuses to go on)."""
    return re.findall(r"\$\{(\w+)([^}]*)\}", text)
