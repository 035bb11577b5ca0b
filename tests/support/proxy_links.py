"""The links of the proxy: what passes between one client and the server, and what is held, delayed or cut.

All of it runs on the proxy's own event loop. A chunk that was read is passed on in order or kept; only a reset loses
what was kept. Both sockets of a link end together.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import TypeAlias

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream, TaskGroup, TaskStatus

from support.gates import Conversation, Gate, Keep
from support.startup import application_name

Upstream: TypeAlias = Path | tuple[str, int]  # a unix socket, or host and port
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
_LINGER_NOT = struct.pack("ii", 1, 0)  # close at once, with a reset
_HEAD_BYTES = 16_384


class Mode(Enum):
    """What happens to bytes. REFUSE: the port is closed to new connections, the old ones go on."""

    PASS = auto()
    DELAY = auto()
    REFUSE = auto()
    BLACKHOLE = auto()
    HOLD_REPLIES = auto()


@dataclass(frozen=True, slots=True)
class Traffic:
    """A mode, with the seconds that DELAY holds each chunk."""

    mode: Mode
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One client's connection, as seen at one moment.

    `held`: bytes of the server's replies that wait in the proxy. `gated`: what a gate keeps back of it.
    """

    number: int
    application_name: str
    held: int
    gated: Keep | None = None


@dataclass(slots=True, eq=False)
class Wire:
    """One link's moving parts."""

    number: int
    client: SocketStream
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    server: SocketStream | None = None
    traffic: Traffic | None = None
    head: bytes = b""
    held: int = 0
    half_closed: bool = False
    said: Conversation = field(default_factory=Conversation)
    gated: Keep | None = None
    let_go: anyio.Event = field(default_factory=anyio.Event)

    def seen(self) -> Link:
        """Describe it."""
        name = application_name(self.head) or ""
        return Link(number=self.number, application_name=name, held=self.held, gated=self.gated)

    def cut(self) -> None:
        """End both sides with a reset."""
        for stream in (self.client, self.server):
            if stream is not None:
                raw = stream.extra(SocketAttribute.raw_socket)
                with suppress(OSError):  # that side has ended by itself
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.scope.cancel()


class Switchboard:
    """All links of one proxy."""

    def __init__(self, upstream: Upstream, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.host = host
        self.port = port
        self.count = 0
        self._upstream = upstream
        self._traffic = Traffic(Mode.PASS)
        self._changed = anyio.Event()
        self._wires: dict[int, Wire] = {}
        self._gate: Gate | None = None
        self._group: TaskGroup | None = None
        self._listener: Listener[SocketStream] | None = None

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Serve until cancelled."""
        async with anyio.create_task_group() as self._group:
            try:
                await self._open_port()
                task_status.started()
                await anyio.sleep_forever()
            finally:
                await self._close_port()

    async def set_traffic(self, traffic: Traffic, number: int | None) -> None:
        """Change what happens from now on; REFUSE is for all links or none."""
        if number is None:
            self._traffic = traffic
            await (self._close_port() if traffic.mode is Mode.REFUSE else self._open_port())
            for wire in self._wires.values():
                wire.traffic = None
        else:
            self._wires[number].traffic = traffic
        self._changed.set()
        self._changed = anyio.Event()

    async def reset(self, number: int | None) -> None:
        """Cut links and wait until they are gone."""
        for wire in self._chosen(number):
            wire.cut()
            await wire.ended.wait()

    async def half_close(self, number: int | None) -> None:
        """Send clients the end of the stream, and nothing after it."""
        for wire in self._chosen(number):
            wire.half_closed = True
            await wire.client.send_eof()

    async def switch(self, upstream: Upstream) -> None:
        """Connect new links to this server."""
        self._upstream = upstream

    async def gate(self, gate: Gate | None) -> None:
        """Stop the next link that runs a statement, or (None) let go of those that a gate has stopped."""
        self._gate = gate
        if gate is None:
            for wire in self._wires.values():
                wire.let_go.set()

    async def links(self) -> tuple[Link, ...]:
        """Describe the open links, oldest first."""
        return tuple(wire.seen() for wire in self._wires.values())

    def _chosen(self, number: int | None) -> list[Wire]:
        return list(self._wires.values()) if number is None else [self._wires[number]]

    async def _open_port(self) -> None:
        if self._listener is None and self._group is not None:
            opened = await anyio.create_tcp_listener(local_host=self.host, local_port=self.port)
            listener = opened.listeners[0]
            self.port = listener.extra(SocketAttribute.local_port)
            self._group.start_soon(self._accept, listener, self._group)
            self._listener = listener

    async def _close_port(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.aclose()

    async def _accept(self, listener: Listener[SocketStream], group: TaskGroup) -> None:
        with suppress(anyio.ClosedResourceError):
            await listener.serve(self._serve, group)

    async def _serve(self, client: SocketStream) -> None:
        self.count += 1
        wire = Wire(self.count, client)
        self._wires[wire.number] = wire
        try:
            async with client:
                with wire.scope:
                    await self._connect(wire)
        finally:
            del self._wires[wire.number]
            wire.ended.set()

    async def _connect(self, wire: Wire) -> None:
        await self._passage(wire, Mode.BLACKHOLE)
        try:
            wire.server = await _connected(self._upstream)
        except OSError:
            wire.cut()
            return
        async with wire.server, anyio.create_task_group() as group:
            group.start_soon(self._send_requests, wire, wire.server)
            group.start_soon(self._send_replies, wire, wire.server)

    async def _send_requests(self, wire: Wire, server: SocketStream) -> None:
        try:
            async for chunk in wire.client:
                if len(wire.head) < _HEAD_BYTES:
                    wire.head += chunk
                await self._passage(wire, Mode.BLACKHOLE)
                await self._send_request(wire, server, chunk)
            await server.send_eof()
        except _GONE:
            wire.cut()

    async def _send_request(self, wire: Wire, server: SocketStream, chunk: bytes) -> None:
        gate = self._gate
        heard = wire.said.hear(chunk, gate)
        if gate is not None and heard.runs:
            self._gate = None  # one link, once
            wire.gated = gate.keep
        if wire.gated is not Keep.COMMIT or heard.cut is None:
            await server.send(chunk)
            return
        if before := chunk[: heard.cut]:
            await server.send(before)
        await wire.let_go.wait()
        wire.gated, wire.let_go = None, anyio.Event()
        await server.send(chunk[heard.cut :])

    async def _send_replies(self, wire: Wire, server: SocketStream) -> None:
        try:
            async for chunk in server:
                wire.held = len(chunk)
                await self._passage(wire, Mode.BLACKHOLE, Mode.HOLD_REPLIES)
                if wire.gated is Keep.REPLY:
                    await wire.let_go.wait()
                    wire.gated, wire.let_go = None, anyio.Event()
                wire.held = 0
                if not wire.half_closed:
                    await wire.client.send(chunk)
            await self._passage(wire, Mode.BLACKHOLE, Mode.HOLD_REPLIES)
            if not wire.half_closed:
                await wire.client.send_eof()
        except _GONE:
            wire.cut()

    async def _passage(self, wire: Wire, *stopping: Mode) -> None:
        while (traffic := wire.traffic or self._traffic).mode in stopping:
            await self._changed.wait()
        if traffic.mode is Mode.DELAY:
            await anyio.sleep(traffic.seconds)


async def _connected(upstream: Upstream) -> SocketStream:
    if isinstance(upstream, Path):
        return await anyio.connect_unix(upstream)
    return await anyio.connect_tcp(*upstream)
