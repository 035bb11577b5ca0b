"""The provider: each way in which it fails, what may be waited for, and that the key is in none of the messages."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web
from yarl import URL

from onboarding import llm
from onboarding.copywriting import question, read_answer
from onboarding.facts import Facts, Offer
from onboarding.provider import (
    MOST_WAITS,
    USUAL_PAUSE_SECONDS,
    Provider,
    ProviderFailed,
    ProviderLimited,
    open_provider,
    picture_message,
    text_message,
)
from onboarding.settings import ProviderSettings, Secret
from onboarding.site import drawings

KEY = "sk-never-shown-0123456789"
HELLO = [text_message("user", '{"name": "Shop"}')]


@asynccontextmanager
async def provider_at(url: str, **changes: object) -> AsyncIterator[Provider]:
    settings = replace(ProviderSettings(url=URL(url), key=Secret(KEY)), **changes)  # type: ignore[arg-type]
    async with open_provider(settings) as provider:
        assert provider is not None
        yield provider


@asynccontextmanager
async def stand_in(moods: llm.Moods) -> AsyncIterator[tuple[Provider, llm.StandIn]]:
    async with (
        llm.serve(moods) as served,
        provider_at(served.url, key=Secret(served.key), timeout=1.0) as provider,
    ):
        yield provider, served


@asynccontextmanager
async def odd_server(status: int, body: str, **headers: str) -> AsyncIterator[str]:
    """A server that answers every question alike."""

    async def answer(request: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, text=body, headers=named)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def failure(provider: Provider) -> str:
    with pytest.raises(ProviderFailed) as caught:
        await provider.ask(HELLO)
    return str(caught.value)


async def test_an_answer_is_the_text_of_the_completion() -> None:
    facts = Facts(name="Shop", description="It sells things.", offers=(Offer("Tea", "3"),))
    async with stand_in(llm.always("fine")) as (provider, served):
        text = read_answer(await provider.ask(question(facts, [])))

        assert text.headline == "Shop: good things, close by"
        assert text.highlights == ("Tea 3",)
        assert served.answered["fine"] == 1


async def test_a_picture_goes_along_as_a_data_url() -> None:
    message = picture_message("What is this?", content=drawings.crumb(), content_type="image/jpeg")
    async with stand_in(llm.always("fine")) as (provider, _):
        assert await provider.ask([message]) == "A square picture in bright, warm colours."


async def test_without_a_configuration_there_is_no_provider() -> None:
    async with open_provider(None) as provider:
        assert provider is None


async def test_a_429_carries_the_pause() -> None:
    async with stand_in(llm.always("limited")) as (provider, _):
        with pytest.raises(ProviderLimited) as caught:
            await provider.ask(HELLO)

    assert caught.value.retry_after == llm.RETRY_AFTER_SECONDS


async def test_a_429_without_a_pause_gets_the_usual_one() -> None:
    async with odd_server(429, "{}") as url, provider_at(url) as provider:
        with pytest.raises(ProviderLimited) as caught:
            await provider.ask(HELLO)

    assert caught.value.retry_after == USUAL_PAUSE_SECONDS


def test_waiting_ends_after_some_times_or_when_the_pause_is_too_long() -> None:
    limit = ProviderLimited(30.0)

    assert limit.worth_waiting(waits=0, patience=30.0)
    assert not limit.worth_waiting(waits=0, patience=29.0)
    assert limit.worth_waiting(waits=MOST_WAITS - 1, patience=30.0)
    assert not limit.worth_waiting(waits=MOST_WAITS, patience=30.0)


async def test_an_empty_account_is_not_waited_for() -> None:
    body = json.dumps({"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}})
    async with odd_server(429, body) as url, provider_at(url) as provider:
        assert await failure(provider) == "the provider answers 429: You exceeded your current quota"


async def test_trouble_of_the_provider_is_named() -> None:
    for mood, reason in (
        ("broken", "the provider answers 500: The server had an error while processing your request"),
        ("refusing", "the provider refuses to answer"),
        ("silent", "the provider gave no answer in 1 s"),
    ):
        async with stand_in(llm.always(mood)) as (provider, _):  # type: ignore[arg-type]
            assert await failure(provider) == reason


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, "", "the provider's answer is no chat completion"),
        (200, "[" * 100_000, "the provider's answer is no chat completion"),
        (200, '{"choices": []}', "the provider's answer is no chat completion"),
        (200, '{"choices": [{"message": {"content": " "}}]}', "the provider's answer is empty"),
        (200, '{"choices": [{"message": {"content": ["x"]}}]}', "the provider's answer is empty"),
        (
            200,
            '{"choices": [{"finish_reason": "content_filter", "message": {"content": "x"}}]}',
            "the provider refuses to answer",
        ),
        (404, "<html>not found</html>", "the provider answers 404"),
        (503, '{"error": "overloaded"}', "the provider answers 503"),
    ],
)
async def test_nonsense_is_named(status: int, body: str, reason: str) -> None:
    async with odd_server(status, body) as url, provider_at(url) as provider:
        assert await failure(provider) == reason


async def test_a_redirect_does_not_take_the_key_elsewhere() -> None:
    async with odd_server(307, "", Location="http://other.invalid/") as url, provider_at(url) as provider:
        assert await failure(provider) == "the provider answers 307"


async def test_a_provider_that_is_not_there_is_named_without_the_key() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        async with provider_at(f"http://127.0.0.1:{closed.getsockname()[1]}/v1") as provider:
            reason = await failure(provider)

    assert reason.startswith("the provider can't be reached: ")
    assert KEY not in reason


async def test_a_provider_that_repeats_the_key_does_not_get_it_into_our_messages() -> None:
    async with llm.serve(llm.always("fine")) as served, provider_at(served.url) as provider:
        assert await failure(provider) == "the provider answers 401: Incorrect API key provided: ***"
    answer = json.dumps({"choices": [{"message": {"content": f"your key is {KEY}"}}]})
    async with odd_server(200, answer) as url, provider_at(url) as provider:
        assert await provider.ask(HELLO) == "your key is ***"


async def test_the_moods_depend_on_the_question_and_nothing_else() -> None:
    async def moods_of(names: list[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {name: [] for name in names}
        async with stand_in(llm.seeded(7)) as (provider, _):
            for name in names * 8:
                try:
                    await provider.ask(question(Facts(name=name), []))
                    found[name].append("fine")
                except (ProviderLimited, ProviderFailed) as trouble:
                    found[name].append(str(trouble))
        return found

    names = ["a", "b", "c", "d"]
    first, second = await moods_of(names), await moods_of(names[::-1])

    assert first == second
    assert {mood for moods in first.values() for mood in moods} > {"fine"}
