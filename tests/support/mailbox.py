"""A real SMTP server on loopback, whose answers a test chooses; what it takes it keeps."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import trustme
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

USER, PASSWORD = "wakeful", "passw0rd-of-mail"
TAKEN = "250 taken"


@dataclass(slots=True, kw_only=True)
class Mailbox:
    """What came: letters as bytes, whom each was for. `data` and `refused` are what the server answers."""

    letters: list[bytes] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    data: str = TAKEN
    refused: dict[str, str] = field(default_factory=dict)
    port: int = 0

    async def handle_RCPT(  # noqa: N802 -- the server calls it so
        self, _server: SMTP, _session: Any, envelope: Any, address: str, _options: list[str]
    ) -> str:
        """Take a recipient, or not."""
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return TAKEN

    async def handle_DATA(self, _server: SMTP, session: Any, envelope: Any) -> str:  # noqa: N802
        """Take the letter, or not."""
        self.letters.append(envelope.content)
        self.recipients.append(list(envelope.rcpt_tos))
        self.encrypted.append(session.ssl is not None)
        return self.data

    def parsed(self) -> list[EmailMessage]:
        """The letters, read."""
        return [message_from_bytes(one, policy=default) for one in self.letters]


@asynccontextmanager
async def running_mailbox(
    *, tls: ssl.SSLContext | None = None, implicit: bool = False
) -> AsyncIterator[Mailbox]:
    """Listen on a free port of loopback; with `tls`, ask for STARTTLS and a password, or begin with TLS."""
    mailbox, loop = Mailbox(), asyncio.get_running_loop()
    upgrades = tls is not None and not implicit

    def serve() -> SMTP:
        return SMTP(
            mailbox,
            loop=loop,
            hostname="mailbox",
            tls_context=tls if upgrades else None,
            require_starttls=upgrades,
            auth_required=upgrades,
            authenticator=_authenticated,
        )

    server = await loop.create_server(serve, "127.0.0.1", 0, ssl=tls if implicit else None)
    try:
        mailbox.port = server.sockets[0].getsockname()[1]
        yield mailbox
    finally:
        server.close()
        await server.wait_closed()


def _authenticated(_server: Any, _session: Any, _envelope: Any, _mechanism: str, given: Any) -> AuthResult:
    success = isinstance(given, LoginPassword) and (given.login, given.password) == (
        USER.encode(),
        PASSWORD.encode(),
    )
    return AuthResult(success=success, handled=success)


def certified(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's TLS with a certificate for localhost, and the file of the authority that signed it."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    trusted = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(trusted))
    return context, trusted
