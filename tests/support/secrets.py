"""What a credential looks like: for the tests that search tracked files, the wheel and the image for them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAMES = re.compile(
    r"(^|/)(\.env(\.(?!example)\w+)?|\.netrc|\.pgpass|\.pypirc|id_(rsa|ed25519|ecdsa)|.*\.(pem|key|p12|pfx))$"
)
_TEXTS = {
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "a cloud access key": re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a token of a code host": re.compile(r"\bgh[pousr]_[A-Za-z0-9]{36}\b|\bglpat-[\w-]{20}\b"),
    "a chat token or webhook": re.compile(r"\bxox[abprs]-\d{6,}|hooks\.slack\.com/services/T[A-Z0-9]{8}"),
    "an API key": re.compile(r"\bsk-(ant-|proj-)?[A-Za-z0-9_-]{32,}\b"),
}


def credentials_in(name: str, text: str) -> Iterator[str]:
    """Give what in this file looks like a credential, by its name or by its text."""
    if _NAMES.search(name):
        yield "a file for credentials"
    for what, pattern in _TEXTS.items():
        if pattern.search(text):
            yield what
