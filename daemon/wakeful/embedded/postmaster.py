"""The life of the private server: initdb once, start, wait until it is really ready, stop, leave nothing.

Two guards end the server when this process ends in any way, kill -9 included: the kernel's signal to a child whose
parent is gone (Linux), and a shell that waits at a pipe for the same event (everywhere). Ready means that a connection
was let in *and* that the pid file names our child, since a stale file says "ready" too.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from enum import Enum
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from anyio import CancelScope, to_thread

from wakeful.embedded.folder import clear_leftovers, held_folder
from wakeful.embedded.place import DATABASE, USER, Place, Server, placed
from wakeful.embedded.probe import accepts_connections
from wakeful.embedded.process import end, last_words, make_cluster, remains_are_ending, server_process
from wakeful.errors import EmbeddedUnavailable

_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
_READY_SECONDS = 60.0
_LOOK_SECONDS = 0.01


class StopMode(Enum):
    """How to stop: FAST breaks connections and shuts down cleanly; IMMEDIATE and KILL are crashes, for tests."""

    FAST = signal.SIGINT
    IMMEDIATE = signal.SIGQUIT
    KILL = signal.SIGKILL


class Postmaster:
    """One private server on one data folder. As a context manager it stops the server and tidies up at the end.

    Blocking; one thread at a time. Off the main thread the pipe is its only guard, since the kernel's goes by the
    thread that started the server.
    """

    def __init__(
        self, data: Path, *, settings: Mapping[str, str] = _NO_SETTINGS, binaries: Path | None = None
    ) -> None:
        self._data = data
        self._settings = dict(settings)
        self._binaries = binaries
        self._held = ExitStack()
        self._running = ExitStack()
        self._place: Place | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._deadline = 0.0  # of the start that is under way, monotonic

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The server's process, or None when it is not running."""
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    def start(self) -> Server:
        """Start and wait until it takes connections. Raises EmbeddedUnavailable or DataFolderInUse."""
        self.prepare()
        while True:
            self.launch()
            server = self.wait_ready()
            if server is not None:
                return server

    def prepare(self) -> None:
        """Hold the data folder, choose user and binaries, and make the cluster where there is none yet."""
        if self._place is None:
            folder = self._held.enter_context(held_folder(self._data))
            clear_leftovers(folder)
            self._place = self._held.enter_context(placed(folder, self._binaries))
        clear_leftovers(self._place.folder)
        if self._place.folder.major() is None:
            make_cluster(self._place)
        self._deadline = time.monotonic() + _READY_SECONDS

    def launch(self) -> None:
        """Start the server's process and its guards, without waiting."""
        if self._place is None or self._child is not None:
            raise RuntimeError("Postmaster: launch() comes after prepare(), once")
        self._child = self._running.enter_context(server_process(self._place, self._settings))

    def wait_ready(self) -> Server | None:
        """Wait until it takes connections; None: launch it again, since the remains of a killed server are ending."""
        if self._place is None or self._child is None:
            raise RuntimeError("Postmaster: wait_ready() comes after launch()")
        place, child = self._place, self._child
        while time.monotonic() < self._deadline and child.poll() is None:
            if place.folder.server_pid() == child.pid and accepts_connections(place.socket, USER, DATABASE):
                return place.server(child.pid)
            time.sleep(_LOOK_SECONDS)
        self.stop(StopMode.IMMEDIATE)
        if remains_are_ending(place) and time.monotonic() < self._deadline:
            return None
        raise EmbeddedUnavailable(f"PostgreSQL did not start on {place.folder.path}: {last_words(place)}")

    def stop(self, mode: StopMode = StopMode.FAST) -> None:
        """Stop the server and wait for its end. Data folder and socket folder stay held, for another `start`."""
        child, self._child = self._child, None
        try:
            if child is not None:
                end(child, mode.value)
        finally:
            self._running.close()

    def restart(self, mode: StopMode = StopMode.FAST) -> Server:
        """Stop and start again, on the same data at the same socket."""
        self.stop(mode)
        return self.start()

    def close(self) -> None:
        """Stop the server, remove the socket folder and let go of the data folder. Safe to call again."""
        try:
            self.stop()
        finally:
            self._place = None
            self._held.close()


@asynccontextmanager
async def running_server(
    data: Path, *, settings: Mapping[str, str] = _NO_SETTINGS, binaries: Path | None = None
) -> AsyncIterator[Server]:
    """Run a private server for as long as the block lasts. `settings` are PostgreSQL's own, such as fsync="off".

    Raises EmbeddedUnavailable (nothing to start, or it does not start: the message says what to do), DataFolderInUse.
    """
    postmaster = Postmaster(data, settings=settings, binaries=binaries)
    try:
        await to_thread.run_sync(postmaster.prepare)
        server = None
        while server is None:
            postmaster.launch()  # on this thread: the kernel's guard goes by the thread
            server = await to_thread.run_sync(postmaster.wait_ready)
        yield server
    finally:
        with CancelScope(shield=True):
            await to_thread.run_sync(postmaster.close)
