"""A TCP proxy in front of a server, in a thread of its own, that breaks connections in every way that a network can.

It passes bytes on until a test says otherwise, for all links or for one. It is up before the block starts, and all its
sockets are gone when the block ends. Its loop is its own, so that it goes on while a handler blocks the test's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from anyio.from_thread import BlockingPortal, start_blocking_portal

from support.gates import Gate, Keep
from support.proxy_links import Link, Mode, Switchboard, Traffic, Upstream

__all__ = ["Keep", "Link", "Mode", "Proxy", "Upstream", "running_proxy"]


class Proxy:
    """A running proxy. Every method may be called from any thread and returns when it has happened."""

    def __init__(self, portal: BlockingPortal, switchboard: Switchboard) -> None:
        self._portal = portal
        self._switchboard = switchboard

    @property
    def port(self) -> int:
        """The port; the same while the proxy runs, also after REFUSE."""
        return self._switchboard.port

    def dsn(self, database: str, *, role: str = "postgres") -> str:
        """DSN of a database through the proxy."""
        address = f"{quote(role, safe='')}@127.0.0.1:{self.port}"
        return f"postgresql://{address}/{quote(database, safe='')}?sslmode=disable"

    def set(self, mode: Mode, *, link: int | None = None, seconds: float = 0.0) -> None:
        """Change the mode of one link, or of all, present and to come. With PASS, what was held back goes on in order.

        PASS; DELAY each chunk by `seconds`; REFUSE: the port is closed to new connections, the old ones go on;
        BLACKHOLE: nothing passes, either way; HOLD_REPLIES: the server gets everything, the client nothing.
        """
        self._portal.call(self._switchboard.set_traffic, Traffic(mode, seconds), link)

    def reset(self, *, link: int | None = None) -> None:
        """Cut one link or all with a TCP reset, both sides; replies held back are lost. New connections are taken."""
        self._portal.call(self._switchboard.reset, link)

    def half_close(self, *, link: int | None = None) -> None:
        """Send the client the end of the stream, while what it sends still reaches the server."""
        self._portal.call(self._switchboard.half_close, link)

    def switch(self, upstream: Upstream) -> None:
        """Connect new links to another server, as a failover does; `reset` cuts the old ones."""
        self._portal.call(self._switchboard.switch, upstream)

    def gate(self, statement: str, keep: Keep) -> None:
        """Stop the next link that runs a statement with this text: before its commit, or before its reply."""
        self._portal.call(self._switchboard.gate, Gate(statement, keep))

    def let_go(self) -> None:
        """Let those go on that a gate has stopped; `reset` cuts them instead, and their commit or reply is lost."""
        self._portal.call(self._switchboard.gate, None)

    @property
    def count(self) -> int:
        """How many connections there have been."""
        return self._switchboard.count

    def links(self) -> tuple[Link, ...]:
        """Describe the open links, oldest first."""
        return self._portal.call(self._switchboard.links)

    def link(self, application_name: str) -> Link:
        """Give the newest open link of the client that calls itself so. Raises LookupError."""
        found = [link for link in self.links() if link.application_name == application_name]
        if not found:
            raise LookupError(f"no link of {application_name!r} among {self.links()}")
        return found[-1]


@contextmanager
def running_proxy(upstream: Upstream, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[Proxy]:
    """Run a proxy in front of a server's unix socket, or of its host and port; on a free port, or on this one."""
    switchboard = Switchboard(upstream, host=host, port=port)
    with start_blocking_portal() as portal:
        running, _ = portal.start_task(switchboard.run)
        try:
            yield Proxy(portal, switchboard)
        finally:
            running.cancel()
