"""The output folder: what each run of the pipeline made for a place, and where the place's site is published.

    OUTPUT/<place>/runs/<run>/    facts.json, vision.json, copy.json, pictures/, site/
    OUTPUT/<place>/public/        releases/<run>/, current -> releases/<run>     (`publish` owns this one)

Invariant: a file or folder is there whole or not at all, also after a power cut, so that a stage that finds the
artefact of an earlier attempt can trust it. Jobs carry (place, run) in their payload, never the data: payloads stay
small.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SAFE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class MissingArtefact(Exception):
    """An earlier stage's artefact is not there: the output folder was emptied, or is not shared between hosts."""


@dataclass(frozen=True, slots=True)
class Run:
    """The folder of one run for one place."""

    folder: Path

    @property
    def facts(self) -> Path:
        return self.folder / "facts.json"

    @property
    def vision(self) -> Path:
        return self.folder / "vision.json"

    @property
    def text(self) -> Path:
        return self.folder / "copy.json"

    @property
    def pictures(self) -> Path:
        return self.folder / "pictures"

    @property
    def site(self) -> Path:
        return self.folder / "site"


def run_folder(output: Path, place_id: str, run: str) -> Run:
    """Where `run` keeps its artefacts; made if it is not there. Place and run may be any text at all."""
    folder = output / folder_name(place_id) / "runs" / folder_name(run)
    folder.mkdir(parents=True, exist_ok=True)
    return Run(folder)


def public_folder(output: Path, place_id: str) -> Path:
    """Where the place's site is published."""
    return output / folder_name(place_id) / "public"


def prune_runs(output: Path, place_id: str, *, keep: int, run: str) -> None:
    """Remove the artefacts of runs before `run`, but for the newest; later runs are left alone, they may be at work."""
    folder = output / folder_name(place_id) / "runs"
    earlier = sorted((path for path in folder.iterdir() if path.name <= folder_name(run)), reverse=True)
    for path in earlier[keep:]:
        shutil.rmtree(path, ignore_errors=True)


def folder_name(text: str) -> str:
    """A folder name for any text: itself where that is harmless, else what is left of it and a digest.

    `../../etc` must not leave the output folder, and `Foo` must not meet `foo` on a disk that ignores case.
    """
    if _SAFE.fullmatch(text):
        return text
    readable = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{readable or 'place'}-{digest}"


def write_json(path: Path, document: object) -> None:
    """Write `document` so that a reader sees the old file or the whole new one."""
    write_bytes(path, json.dumps(document, ensure_ascii=False, indent=1).encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Like `write_json`, for bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    passing = passing_name(path)
    try:
        with passing.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        passing.replace(path)
    finally:
        passing.unlink(missing_ok=True)
    sync_folder(path.parent)


def read_json(path: Path) -> dict[str, object]:
    """Read an object back. Raises MissingArtefact, with what to look at."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MissingArtefact(
            f"{path} is missing: was the output folder emptied, or is it not shared by all hosts (ONBOARDING_OUTPUT)?"
        ) from None
    if not isinstance(document, dict):
        raise MissingArtefact(f"{path} holds no JSON object: it was not written by this pipeline")
    return document


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give an empty folder to fill, which takes the place of `path` at the end; on an error all stays as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    passing = passing_name(path)
    passing.mkdir()
    try:
        yield passing
        sync_tree(passing)
        shutil.rmtree(path, ignore_errors=True)
        passing.rename(path)
        sync_folder(path.parent)
    finally:
        shutil.rmtree(passing, ignore_errors=True)


def passing_name(path: Path) -> Path:
    """A name beside `path` for what is not whole yet; one left over by a crash begins with `.passing-`."""
    return path.with_name(f".passing-{path.name}-{secrets.token_hex(4)}")


def sync_tree(folder: Path) -> None:
    """Bring a folder's files and names to the disk."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            with path.open("rb") as file:
                os.fsync(file.fileno())
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Bring a folder's own names to the disk: a rename is only safe after this."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
