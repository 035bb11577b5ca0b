"""Alerts by e-mail, over SMTP with TLS. Success is that the server took the letter for one recipient at least.

`smtp://` begins in the clear and goes on with STARTTLS or not at all, `smtps://` is TLS from the first byte, and
`smtp+plain://` is neither: for a relay on the same machine. A letter that was taken for some is not sent again for the
others, who would be the only ones not to get it twice. What the server says is not shown, but its code.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parseaddr
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

import aiosmtplib
import anyio

from wakeful.config import current_key, current_url
from wakeful.core.secrets import hidden_values, shown
from wakeful.core.settings import SinkSettings
from wakeful.core.sink_rules import MAIL_SCHEMES, is_address
from wakeful.errors import ConfigError
from wakeful.outbox.cards.letters import letter
from wakeful.outbox.sinks.exchange import cause
from wakeful.outbox.sinks.protocol import Answer, Failed, Sent
from wakeful.store.outbox import Delivery
from wakeful.telemetry.redaction import Redactor

PACE: Final = 0.5
FAREWELL_SECONDS: Final = 1.0
_PORTS: Final[Mapping[str, int]] = {"smtp": 587, "smtps": 465, "smtp+plain": 25}


@dataclass(frozen=True, slots=True)
class EmailSink:
    """Sends each message as a letter to all recipients."""

    name: str
    settings: SinkSettings = field(repr=False)
    redactor: Redactor = field(repr=False)
    pace: float = PACE

    @property
    def timeout(self) -> float:
        """The bound of one try, in seconds."""
        return self.settings.timeout

    async def send(self, delivery: Delivery) -> Answer:
        """Send it once."""
        try:
            url, key = current_url(self.name, self.settings), current_key(self.name, self.settings)
        except ConfigError as error:
            return Failed(reason=str(error))
        self.redactor.add(*hidden_values(url), *hidden_values(key))
        if not is_address(url, MAIL_SCHEMES):
            return Failed(reason="the url is not that of a mail server")
        sender, recipients = self.settings.sender or "", self.settings.recipients
        try:
            mail = letter(delivery.body, delivery.delivery_id, sender=sender, recipients=recipients)
        except ValueError as error:
            return Failed(reason=f"no letter can be made of it: {error}", permanent=True)
        try:
            return await self._sent(urlsplit(url), key, mail.as_bytes())
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            return _failed(error, shown(url))

    async def _sent(self, server: SplitResult, key: str, mail: bytes) -> Answer:
        recipients = [parseaddr(one)[1] for one in self.settings.recipients]
        client = aiosmtplib.SMTP(
            hostname=server.hostname,
            port=server.port or _PORTS[server.scheme],
            use_tls=server.scheme == "smtps",
            start_tls=server.scheme == "smtp",
            timeout=self.settings.timeout,
        )
        try:
            await client.connect()
            user, password = unquote(server.username or ""), key or unquote(server.password or "")
            if user:
                await client.login(user, password)
            refused, _ = await client.sendmail(parseaddr(self.settings.sender or "")[1], recipients, mail)
            with anyio.move_on_after(FAREWELL_SECONDS), suppress(aiosmtplib.SMTPException, OSError):
                await client.quit()
        finally:
            client.close()
        return Sent(f"taken for {len(recipients) - len(refused)} of {len(recipients)} recipients")


def _failed(error: Exception, where: str) -> Failed:
    """Only what the server says of the letter itself is final; a mailbox or an account may be mended."""
    code = _code(error)
    said = f"{type(error).__name__} {code}" if code else cause(error)
    final = isinstance(error, aiosmtplib.SMTPDataError) and code >= 500
    return Failed(reason=f"{where}: {said}", permanent=final)


def _code(error: Exception) -> int:
    if isinstance(error, aiosmtplib.SMTPRecipientsRefused):
        return max((one.code for one in error.recipients), default=0)
    return error.code if isinstance(error, aiosmtplib.SMTPResponseException) else 0
