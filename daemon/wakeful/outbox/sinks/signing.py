"""Signatures of webhooks as Standard Webhooks wants them, with several secrets while one is being changed for another.

Signed is `id.timestamp.body` with HMAC-SHA256; the header holds one `v1,…` for each secret. Only this is implemented:
sending needs no more.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence

from wakeful.core.secrets import SIGNING_PREFIX
from wakeful.core.sink_rules import SHORTEST_SIGNING_BYTES
from wakeful.errors import ConfigError


def signed_headers(
    secrets: Sequence[bytes], *, message_id: str, seconds: int, body: bytes
) -> Mapping[str, str]:
    """Give the headers of a message that was made at `seconds` of the epoch."""
    signed = b".".join((message_id.encode(), str(seconds).encode(), body))
    signatures = (
        base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode() for secret in secrets
    )
    return {
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def secrets_in(key: str) -> tuple[bytes, ...]:
    """Give the secrets of a key: one or more of `whsec_…`, with blanks between. Raises ConfigError, and shows none."""
    return tuple(_decoded(one) for one in key.split())


def _decoded(text: str) -> bytes:
    try:
        secret = base64.b64decode(text.removeprefix(SIGNING_PREFIX), validate=True)
    except ValueError:
        raise ConfigError(("a signing secret of its key is not in base64",)) from None
    if len(secret) < SHORTEST_SIGNING_BYTES:
        raise ConfigError((f"a signing secret of its key has less than {SHORTEST_SIGNING_BYTES} bytes",))
    return secret
