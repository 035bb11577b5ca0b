"""The road to an OpenAI-compatible endpoint: one question, one answer, one time limit.

Invariant: the key goes into one header of one host and nowhere else, not into an error, even when the provider
repeats it; whatever goes wrong comes out as ProviderLimited (worth waiting for) or ProviderFailed (go on without).
No retries here: waiting is the queue's trade.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

import aiohttp

from onboarding.facts import clean
from onboarding.retry_after import parse_retry_after
from onboarding.settings import ProviderSettings

Message = Mapping[str, object]

MOST_BYTES: Final = 1024 * 1024
USUAL_PAUSE_SECONDS: Final = 20.0
MOST_WAITS: Final = 4


class ProviderLimited(Exception):
    """Too many requests on this key; `retry_after` in seconds, as the provider says or by default."""

    def __init__(self, retry_after: float | None) -> None:
        self.retry_after = USUAL_PAUSE_SECONDS if retry_after is None else retry_after
        super().__init__(f"the provider answers 429, Retry-After {self.retry_after:g} s")

    def worth_waiting(self, *, waits: int, patience: float) -> bool:
        """Whether to wait once more after `waits` times; `patience` is the longest single wait, in seconds."""
        return waits < MOST_WAITS and self.retry_after <= patience


class ProviderFailed(Exception):
    """There is no answer, or none that can be used; the text says why and holds no secret."""


class Provider:
    """A configured endpoint and the connections to it."""

    def __init__(self, session: aiohttp.ClientSession, settings: ProviderSettings) -> None:
        self._session = session
        self.settings = settings

    async def ask(self, messages: Sequence[Message]) -> str:
        """The text of the answer. Raises ProviderLimited or ProviderFailed."""
        question = {"model": self.settings.model, "messages": list(messages)}
        try:
            status, headers, body = await self._post(question)
        except TimeoutError:
            raise ProviderFailed(f"the provider gave no answer in {self.settings.timeout:g} s") from None
        except aiohttp.ClientError as error:
            raise ProviderFailed(self._safe(f"the provider can't be reached: {error}")) from None
        document = _object(body)
        if status != 200:
            raise self._refusal(status, document, headers.get("Retry-After"))
        return self._safe(_answer(document))

    async def _post(self, question: Mapping[str, object]) -> tuple[int, Mapping[str, str], bytes]:
        key = self.settings.key
        headers = {"Authorization": f"Bearer {key.reveal()}"} if key else {}
        url = self.settings.url / "chat/completions"
        # A redirect would take the key to a host that nobody configured.
        async with self._session.post(url, json=question, headers=headers, allow_redirects=False) as response:
            return response.status, response.headers, await response.content.read(MOST_BYTES)

    def _refusal(self, status: int, document: Mapping[str, object], retry_after: str | None) -> Exception:
        error = document.get("error")
        details = error if isinstance(error, dict) else {}
        # Some providers say 429 for an empty account, too: no wait helps there.
        if status == 429 and details.get("code") != "insufficient_quota":
            return ProviderLimited(parse_retry_after(retry_after, datetime.now(UTC)))
        message = clean(details.get("message"), 200)
        return ProviderFailed(self._safe(f"the provider answers {status}: {message}".rstrip(": ")))

    def _safe(self, text: str) -> str:
        return self.settings.key.redact(text)


@asynccontextmanager
async def open_provider(settings: ProviderSettings | None) -> AsyncIterator[Provider | None]:
    """The provider for the life of the process; None when none is configured."""
    if settings is None:
        yield None
        return
    timeout = aiohttp.ClientTimeout(total=settings.timeout)
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield Provider(session, settings)


def text_message(role: str, text: str) -> Message:
    return {"role": role, "content": text}


def picture_message(text: str, *, content: bytes, content_type: str) -> Message:
    """A question about a picture, which goes along as a data URL."""
    address = f"data:{content_type};base64,{base64.b64encode(content).decode('ascii')}"
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": address}}]
    return {"role": "user", "content": parts}


def _object(body: bytes) -> Mapping[str, object]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _answer(document: Mapping[str, object]) -> str:
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ProviderFailed("the provider's answer is no chat completion")
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        raise ProviderFailed("the provider refuses to answer")
    content = message.get("content")
    if not isinstance(content, str) or not content.strip():
        raise ProviderFailed("the provider's answer is empty")
    return content
