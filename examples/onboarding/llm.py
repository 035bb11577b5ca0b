"""A stand-in for a language model: an OpenAI-compatible endpoint on loopback, so that the demo runs offline.

It writes its answers from what it was sent. How it feels about a question (fine, 429, 500, a refusal, nonsense,
silence) depends on the seed, the question and how often it was asked, and on nothing else: the same run gives the
same moods, in whatever order the questions come.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import random
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, assert_never

import anyio
from aiohttp import web
from PIL import Image

Mood = Literal["fine", "limited", "broken", "refusing", "rambling", "silent"]
Moods = Callable[[str, int], Mood]
"""The mood for a question (a digest of it) that is asked for the n-th time, counted from 0."""

RETRY_AFTER_SECONDS: Final = 1


@dataclass(slots=True)
class StandIn:
    """The running stand-in; `asked` counts the questions by their digest, `answered` the moods."""

    url: str
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    asked: Counter[str] = field(default_factory=Counter)
    answered: Counter[Mood] = field(default_factory=Counter)

    def environment(self) -> dict[str, str]:
        """The variables that make the pipeline ask this stand-in."""
        return {
            "ONBOARDING_LLM_URL": self.url,
            "ONBOARDING_LLM_KEY": self.key,
            "ONBOARDING_LLM_MODEL": "stand-in",
        }


def seeded(seed: int) -> Moods:
    """Mostly fine, every sixth time or so limited, now and then broken or refusing."""

    def mood(question: str, times: int) -> Mood:
        drawn = random.Random(f"{seed}:{question}:{times}").random()
        if drawn < 0.72:
            return "fine"
        if drawn < 0.88:
            return "limited"
        return "broken" if drawn < 0.94 else "refusing"

    return mood


def always(mood: Mood) -> Moods:
    """The same mood for every question."""
    return lambda question, times: mood


def in_turn(*moods: Mood) -> Moods:
    """For each question one mood after the other; the last one stays."""
    return lambda question, times: moods[min(times, len(moods) - 1)]


@asynccontextmanager
async def serve(moods: Moods | None = None) -> AsyncIterator[StandIn]:
    """Serve the stand-in until the block is left; `moods` are `seeded(0)` by default."""
    stand_in = StandIn(url="")
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.router.add_post("/v1/chat/completions", _handler(stand_in, moods or seeded(0)))
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        stand_in.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        yield stand_in
    finally:
        await runner.cleanup()


def _handler(stand_in: StandIn, moods: Moods) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {stand_in.key}":
            # Real providers repeat the wrong key in this message, which is why the client takes its own out of it.
            told = request.headers.get("Authorization", "none").removeprefix("Bearer ")
            return _error(401, f"Incorrect API key provided: {told}")
        body = await request.read()
        question = hashlib.sha256(body).hexdigest()[:16]
        mood = moods(question, stand_in.asked[question])
        stand_in.asked[question] += 1
        stand_in.answered[mood] += 1
        return await _respond(mood, json.loads(body)["messages"])

    return answer


async def _respond(mood: Mood, messages: list[dict[str, object]]) -> web.StreamResponse:
    match mood:
        case "fine":
            return _completion(write_answer(messages))
        case "rambling":
            return _completion(
                "Certainly! A lovely shop it is, and here is what I would say about it: nothing useful."
            )
        case "refusing":
            return _completion(None, refusal="I can't help with that.")
        case "limited":
            return _error(429, "Rate limit reached for requests", {"Retry-After": str(RETRY_AFTER_SECONDS)})
        case "broken":
            return _error(500, "The server had an error while processing your request")
        case "silent":
            await anyio.sleep_forever()
            raise AssertionError("no one wakes a sleeper for ever")
        case _:
            assert_never(mood)


def write_answer(messages: list[dict[str, object]]) -> str:
    """What the stand-in has to say: a sentence for a picture, else a JSON object made from the facts."""
    content = messages[-1]["content"]
    if isinstance(content, list):
        return _describe(content)
    facts = json.loads(str(content))
    name = facts.get("name", "This place")
    offers = [str(offer) for offer in facts.get("offers", [])]
    sentences = [facts.get("description") or f"{name} is worth the way.", *facts.get("pages", [])[:2]]
    document = {
        "headline": f"{name}: {_tagline(facts)}",
        "description": " ".join(dict.fromkeys(str(sentence) for sentence in sentences)),
        "highlights": [*offers[:3], *facts.get("news", [])[:1], *facts.get("opening_hours", [])[:1]]
        or [f"Visit {name}"],
    }
    return f"```json\n{json.dumps(document, ensure_ascii=False)}\n```"


def _tagline(facts: Mapping[str, object]) -> str:
    return "good things, close by" if facts.get("offers") else "come in and look around"


def _describe(parts: list[dict[str, object]]) -> str:
    address = next((part["image_url"] for part in parts if part.get("type") == "image_url"), None)
    data = str(address["url"]) if isinstance(address, dict) else ""
    with Image.open(io.BytesIO(base64.b64decode(data.partition(",")[2]))) as image:
        red, green, blue = image.convert("RGB").resize((1, 1)).getpixel((0, 0))  # type: ignore[misc]
        shape = "wide" if image.width > image.height else "tall" if image.width < image.height else "square"
    tone = "bright" if red + green + blue > 420 else "dark" if red + green + blue < 240 else "quiet"
    hue = "warm" if red > blue + 12 else "cool" if blue > red + 12 else "neutral"
    return f"A {shape} picture in {tone}, {hue} colours."


def _completion(content: str | None, refusal: str | None = None) -> web.Response:
    message = {"role": "assistant", "content": content, "refusal": refusal}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return web.json_response({"object": "chat.completion", "model": "stand-in", "choices": [choice]})


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=status, headers=headers)
