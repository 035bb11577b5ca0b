"""A network of its own for a daemon: two namespaces and a cable between them, which a test pulls and plugs in.

On the server's side a relay passes what comes on to the server's unix socket, so that both ends of a connection are
sockets of two hosts: with the cable out each keeps its half, and nothing tells either. Needs root and `ip`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import pytest

_CLONE_NEWNET = 0x40000000
_SERVER, _DAEMON, _PORT = "192.0.2.1", "192.0.2.2", 5432
T = TypeVar("T")


class Network:
    """The cable, and what is at its ends."""

    def __init__(self, name: str) -> None:
        self._server_side, self._daemon_side = f"{name}-s", f"{name}-d"

    @property
    def around(self) -> tuple[str, ...]:
        """The command that runs another on the daemon's side."""
        return ("ip", "netns", "exec", self._daemon_side)

    def dsn(self, database: str) -> str:
        """The database, as it is reached from there."""
        return f"postgresql://postgres@{_SERVER}:{_PORT}/{quote(database)}?sslmode=disable"

    def pull(self) -> None:
        """Pull the cable out, on the server's side."""
        _ip("-n", self._server_side, "link", "set", "cable", "down")

    def plug(self) -> None:
        """Plug it in again."""
        _ip("-n", self._server_side, "link", "set", "cable", "up")

    def _lay(self) -> None:
        for side in (self._server_side, self._daemon_side):
            _ip("netns", "add", side)
            _ip("-n", side, "link", "set", "lo", "up")
        _ip("-n", self._server_side, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns",
            self._daemon_side)  # fmt: skip
        for side, address in ((self._server_side, _SERVER), (self._daemon_side, _DAEMON)):
            _ip("-n", side, "address", "add", f"{address}/30", "dev", "cable")
            _ip("-n", side, "link", "set", "cable", "up")

    def _take_away(self) -> None:
        for side in (self._server_side, self._daemon_side):
            subprocess.run(["ip", "netns", "delete", side], capture_output=True, check=False)

    def _listen(self) -> socket.socket:
        return _inside(self._server_side, lambda: socket.create_server((_SERVER, _PORT), backlog=64))


@contextmanager
def running_network(upstream: Path) -> Iterator[Network]:
    """Give a network with a relay to a unix socket. Skips where it can't be had."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs network namespaces: run as root, with iproute2 installed")
    _remove_leftovers()
    network = Network(f"wakeful-{os.getpid()}")
    try:
        try:
            network._lay()
        except subprocess.CalledProcessError as refused:
            pytest.skip(f"needs network namespaces: {refused.stderr.strip()}")
        with network._listen() as listening:
            relay = threading.Thread(target=_accept, args=(listening, upstream, []))
            relay.start()
            try:
                yield network
            finally:
                _shut(listening)
                relay.join()
    finally:
        network._take_away()


def _remove_leftovers() -> None:
    """Remove the namespaces of sessions that were killed, and so could not."""
    for left in Path("/run/netns").glob("wakeful-*-[sd]"):
        if not Path(f"/proc/{left.name.split('-')[1]}").exists():
            subprocess.run(["ip", "netns", "delete", left.name], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True)


def _inside(namespace: str, call: Callable[[], T]) -> T:
    """Call in a thread that is in the namespace: a socket stays in the one in which it was made."""
    given: list[T] = []

    def run() -> None:
        with Path(f"/run/netns/{namespace}").open() as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET) == 0:
                given.append(call())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return given[0]


def _accept(listening: socket.socket, upstream: Path, opened: list[socket.socket]) -> None:
    links = []
    with suppress(OSError):
        while True:
            near, _ = listening.accept()
            link = threading.Thread(target=_serve, args=(near, upstream, opened))
            link.start()
            links.append(link)
    for end in opened:
        _shut(end)
    for link in links:
        link.join()


def _serve(near: socket.socket, upstream: Path, opened: list[socket.socket]) -> None:
    with near, socket.socket(socket.AF_UNIX) as far:
        far.connect(str(upstream))
        opened.extend((near, far))
        back = threading.Thread(target=_pass_on, args=(far, near))
        back.start()
        _pass_on(near, far)
        back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        _shut(end)


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
