"""PUBLISH's work: put a built site into place, whole or not at all, and keep the releases before it.

    public/releases/<run>/     a release, complete once it has its name
    public/current             a symbolic link to the one that is shown; a web server's root

Invariant: `current` always leads to a complete release, whatever dies when; it never goes back to an older run (run
ids are UUIDv7, so their order is that of time); two processes that publish one place take turns by a lock that dies
with its holder.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onboarding.artefacts import folder_name, passing_name, sync_folder, sync_tree

_PASSING: Final = ".passing-"


class PublishBusy(Exception):
    """Another process is publishing this place right now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What became of it: `current` is the link; `superseded_by` names the newer run that stays in place, if any."""

    current: Path
    release: Path
    removed: tuple[str, ...]
    superseded_by: str | None = None


def publish(site: Path, public: Path, *, run: str, keep: int) -> Published:
    """Publish the site in the folder `site` as the release of `run`; again is harmless.

    Raises PublishBusy, or OSError when the disk does not let it.
    """
    releases = public / "releases"
    releases.mkdir(parents=True, exist_ok=True)
    with _turn(public):
        _sweep(public)
        release = releases / folder_name(run)
        shown = shown_release(public)
        if shown is not None and shown > release.name:
            return Published(current=public / "current", release=release, removed=(), superseded_by=shown)
        if not release.exists():
            _copy_whole(site, release)
        _switch(public, release.name)
        return Published(
            current=public / "current", release=release, removed=_prune(releases, keep, release.name)
        )


def shown_release(public: Path) -> str | None:
    """The name of the release that is shown; None before the first."""
    try:
        return (public / "current").readlink().name
    except FileNotFoundError:
        return None


@contextmanager
def _turn(public: Path) -> Iterator[None]:
    with (public / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PublishBusy(f"{public} is being published by another process") from None
        yield


def _sweep(public: Path) -> None:
    """Remove what a crash left half done; nobody else can be at it while we hold the turn."""
    for path in (*public.glob(f"{_PASSING}*"), *(public / "releases").glob(f"{_PASSING}*")):
        if path.is_symlink() or path.is_file():
            path.unlink()
        else:
            shutil.rmtree(path)


def _copy_whole(site: Path, release: Path) -> None:
    passing = passing_name(release)
    shutil.copytree(site, passing)
    sync_tree(passing)
    passing.rename(release)
    sync_folder(release.parent)


def _switch(public: Path, name: str) -> None:
    """A link can't be changed, only replaced: `rename` does that in one step."""
    passing = passing_name(public / "current")
    passing.symlink_to(Path("releases") / name)
    passing.replace(public / "current")
    sync_folder(public)


def _prune(releases: Path, keep: int, shown: str) -> tuple[str, ...]:
    old = sorted((path.name for path in releases.iterdir() if path.name != shown), reverse=True)[keep - 1 :]
    for name in old:
        shutil.rmtree(releases / name)
    return tuple(sorted(old))
