"""The registry: what a decorator declares, and each mistake raised in its own line with the function's name."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from wakeful.core.declaration import Declaration, lease_of
from wakeful.core.settings import LeaseSettings
from wakeful.errors import InvalidPayload, UnknownJobType
from wakeful.handlers.registry import Registry, merge, registry_of_any


@dataclass(frozen=True)
class Collect:
    place_id: str
    max_pages: int = 20
    token: str = ""


def declared(**options: Any) -> Declaration:
    registry = Registry()

    @registry.job("COLLECT", **options)
    def collect(job: object, payload: Collect) -> None: ...

    return registry.find("COLLECT").declaration


def mistake(**options: Any) -> str:
    with pytest.raises(
        ValueError, match=r"handler .*collect \(.*test_registry:\d+\) of job type 'COLLECT': "
    ) as caught:
        declared(**options)
    return str(caught.value).partition("'COLLECT': ")[2]


def test_a_handler_declares_the_defaults() -> None:
    assert declared() == Declaration(job_type="COLLECT")
    assert declared().deadline == 3600.0
    assert declared().max_attempts == 5


def test_a_handler_declares_what_its_decorator_says() -> None:
    assert declared(
        queue="crawl",
        priority="batch",
        deadline="10m",
        max_attempts=3,
        subject="place_id",
        secret=["token"],
        history=False,
        owner="growth",
        limit_key="api",
        steps=["fetch", "parse"],
    ) == Declaration(
        job_type="COLLECT",
        queue="crawl",
        priority="batch",
        declared_deadline=600.0,
        max_attempts=3,
        subject_path="place_id",
        secret_paths=("token",),
        history=False,
        owner="growth",
        limit_key="api",
        steps=("fetch", "parse"),
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"queue": ""}, "queue is empty"),
        ({"queue": "a\nb"}, "queue contains a control character"),
        ({"queue": "x" * 201}, "queue is 201 bytes long; at most 200 are allowed"),
        ({"queue": 5}, "queue is a int, not a string"),
        (
            {"priority": "intractive"},
            "priority is none of interactive, normal, batch, did you mean 'interactive'?",
        ),
        ({"max_attempts": 0}, "max_attempts is out of range; use 1 to 1000"),
        ({"max_attempts": True}, "max_attempts is a bool, not a whole number"),
        ({"deadline": "soon"}, "deadline: 'soon' is not a duration"),
        ({"deadline": 0}, "deadline is out of range; more than 0, at most 30 days"),
        ({"deadline": "31d"}, "deadline is out of range; more than 0, at most 30 days"),
        ({"backoff": 5}, "backoff is not a function"),
        ({"history": "no"}, "history is neither True nor False"),
        (
            {"subject": "plce_id"},
            "subject path 'plce_id': the payload has no field 'plce_id', did you mean 'place_id'?",
        ),
        ({"subject": "place_id..x"}, "subject path 'place_id..x' has an empty part"),
        ({"secret": "token"}, 'secret is a string; write a tuple: ("token",)'),
        ({"secret": ("tokn",)}, "secret path 'tokn': the payload has no field 'tokn', did you mean 'token'?"),
        ({"steps": "fetch"}, 'steps is a string; write a tuple: ("fetch",)'),
        ({"steps": ("fetch", "fetch")}, "step 'fetch' is there twice"),
        ({"steps": ("",)}, "step '' is empty"),
        ({"steps": [f"s{n}" for n in range(101)]}, "steps are 101; at most 100 are shown"),
        ({"owner": "", "limit_key": "\x00"}, "owner is empty; limit_key contains a control character"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], problem: str) -> None:
    assert mistake(**options).startswith(problem)


def test_a_job_type_has_one_handler() -> None:
    registry = Registry()

    @registry.job("COLLECT")
    def first(job: object) -> None: ...

    with pytest.raises(ValueError, match=r"second .*job type 'COLLECT' has a handler already, .*first"):

        @registry.job("COLLECT")
        def second(job: object) -> None: ...


def test_an_unknown_job_type_has_none() -> None:
    with pytest.raises(UnknownJobType, match="no handler is registered for job type 'AI_CHECK'"):
        Registry().find("AI_CHECK")


async def generator(job: object) -> AsyncIterator[int]:
    yield 1


def plain_generator(job: object) -> Iterator[int]:
    yield 1


class NotAFunction:
    def __init__(self, job: object) -> None: ...


class Untypeable:
    pass


def takes_untypeable(job: object, payload: Untypeable) -> None: ...


def takes_the_missing(job: object, payload: Missing) -> None: ...  # type: ignore[name-defined] # noqa: F821


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (generator, "this is a generator"),
        (plain_generator, "this is a generator"),
        (functools.partial(plain_generator), "this is a generator"),
        (NotAFunction, "this is a class"),
        (5, "a handler is a function"),
        (lambda: None, "a handler takes the job, and the payload if it wants it; write `async def"),
        (lambda job, payload, more: None, "a handler takes the job"),
        (lambda job, *, more: None, "a handler takes the job"),
        (takes_untypeable, "a payload is a dataclass"),
        (takes_the_missing, "the type of its payload can't be found: name 'Missing' is not defined"),
        (getattr, "its signature can't be read"),
    ],
)
def test_what_can_not_be_a_handler_is_refused(function: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=f"of job type 'COLLECT': .*{problem}"):
        Registry().job("COLLECT")(function)


async def takes_job(job: object) -> int:
    return 1


async def takes_payload(job: object, payload: Collect) -> int:
    return 1


async def takes_option(job: object, payload: Collect, retries: int = 3) -> int:
    return 1


async def takes_anything(job: object, payload) -> int:  # type: ignore[no-untyped-def] # noqa: ANN001
    return 1


@functools.wraps(takes_payload)
def wrapped(*args: Any) -> Any:
    return takes_payload(*args)


class Callable1:
    async def __call__(self, job: object, payload: Collect) -> int:
        return 1

    async def method(self, job: object, payload: Collect) -> int:
        return 1


def runs_in_thread(job: object, payload: Collect) -> int:
    return 1


@pytest.mark.parametrize(
    ("function", "runs_on_loop", "takes"),
    [
        (takes_job, True, None),
        (takes_payload, True, Collect),
        (takes_option, True, Collect),
        (takes_anything, True, dict),
        (wrapped, True, Collect),
        (Callable1(), True, Collect),
        (Callable1().method, True, Collect),
        (functools.partial(takes_payload), True, Collect),
        (runs_in_thread, False, Collect),
        (lambda job: None, False, None),
    ],
)
def test_a_handler_is_any_callable_that_takes_the_job(
    function: Any, runs_on_loop: bool, takes: type | None
) -> None:
    registry = Registry()
    registry.job("COLLECT")(function)
    handler = registry.find("COLLECT")

    assert handler.runs_on_loop is runs_on_loop
    assert handler.takes_payload is (takes is not None)
    assert takes is None or handler.payload.kind is takes


def test_a_payload_type_may_be_local_to_the_function_that_registers() -> None:
    @dataclass
    class Inner:
        name: str

    @dataclass
    class Local:
        inner: Inner

    registry = Registry()

    @registry.job("LOCAL")
    async def local(job: object, payload: Local) -> None: ...

    assert registry.find("LOCAL").bind({"inner": {"name": "a"}}) == Local(Inner("a"))


async def test_a_registered_function_can_still_be_called() -> None:
    collect = Registry().job("COLLECT")(takes_payload)

    assert await collect(None, Collect("abc")) == 1
    assert collect.job_type == "COLLECT"


def test_a_bad_payload_does_not_show_a_secret() -> None:
    registry = Registry()

    @registry.job("COLLECT", secret=("token",))
    async def collect(job: object, payload: Collect) -> None: ...

    with pytest.raises(InvalidPayload, match=r"^\$\.token: does not fit \(the value is secret\)$"):
        registry.find("COLLECT").bind({"place_id": "a", "token": 5})


@pytest.mark.case("I24")
def test_the_hash_of_a_declaration_depends_on_its_values_alone() -> None:
    assert declared(queue="a").hash == declared(queue="a").hash
    assert declared(queue="a").hash != declared(queue="b").hash
    assert declared().hash == "a4b67f7c1e8a56d2f8473b2bb28b0813604a6c8b69b5e8eac5dc16d64973d2e2"


@pytest.mark.parametrize(
    ("deadline", "lease"), [(None, 30.0), ("1m", 30.0), ("10m", 30.0), ("601s", 180.0), ("5h", 180.0)]
)
def test_a_type_that_declares_a_long_deadline_has_the_long_lease(deadline: str | None, lease: float) -> None:
    assert lease_of(declared(deadline=deadline), LeaseSettings()) == lease


@pytest.mark.parametrize(
    ("backoff", "seconds"),
    [
        (None, 20.0),
        (lambda attempt: attempt, 3.0),
        (lambda attempt: 0, 0.0),
        (lambda attempt: "2m", 120.0),
        (lambda attempt: -1, 20.0),
        (lambda attempt: float("nan"), 20.0),
        (lambda attempt: None, 20.0),
        (lambda attempt: 1 / 0, 20.0),
    ],
)
def test_a_backoff_of_the_type_counts_unless_it_is_nonsense(backoff: Any, seconds: float) -> None:
    registry = Registry()
    registry.job("COLLECT", backoff=backoff)(takes_job)

    assert registry.find("COLLECT").delay(3) == seconds


def test_declarations_are_sorted_by_job_type() -> None:
    registry = Registry()
    registry.job("B")(takes_job)
    registry.job("A")(runs_in_thread)

    assert registry.job_types() == ("A", "B")
    assert [declaration.job_type for declaration in registry.declarations()] == ["A", "B"]


async def test_the_lifespan_is_open_while_its_resources_are_used() -> None:
    registry = Registry()
    events: list[str] = []

    @registry.lifespan
    async def resources() -> AsyncIterator[str]:
        async with anyio.create_task_group():
            events.append("open")
            yield "pool"
            events.append("closed")

    registry.job("COLLECT")(takes_job)

    async with registry.open_resources() as opened:
        events.append(str(opened.of(registry.find("COLLECT"))))

    assert events == ["open", "pool", "closed"]


async def test_a_lifespan_may_be_a_context_manager_already() -> None:
    registry = Registry()

    @registry.lifespan
    @asynccontextmanager
    async def resources() -> AsyncIterator[int]:
        yield 5

    registry.job("COLLECT")(takes_job)

    async with registry.open_resources() as opened:
        assert opened.of(registry.find("COLLECT")) == 5


async def test_a_lifespan_that_fails_is_named() -> None:
    registry = Registry()

    @registry.lifespan
    async def resources() -> AsyncIterator[int]:
        raise OSError("no route to host")
        yield 5

    with pytest.raises(OSError, match="no route") as caught:
        async with registry.open_resources():
            pass
    assert (
        "while the lifespan test_a_lifespan_that_fails_is_named.<locals>.resources"
        in caught.value.__notes__[0]
    )
    assert caught.value.__notes__[0].endswith("was entered")


def test_a_registry_has_one_lifespan_and_one_hook() -> None:
    registry = Registry()

    @registry.lifespan
    async def first() -> AsyncIterator[int]:
        yield 5

    @registry.around
    async def hook(job: object, call: Callable[[], Awaitable[object]]) -> object:
        return await call()

    with pytest.raises(ValueError, match=r"second.*first.*is registered already"):

        @registry.lifespan
        async def second() -> AsyncIterator[int]:
            yield 5

    with pytest.raises(ValueError, match=r"other.*hook.*is registered already"):

        @registry.around
        async def other(job: object, call: Callable[[], Awaitable[object]]) -> object:
            return await call()


def test_a_lifespan_and_a_hook_must_look_like_one() -> None:
    with pytest.raises(TypeError, match=r"lifespan .*takes_job.*one `yield`"):
        Registry().lifespan(takes_job)  # type: ignore[type-var]
    with pytest.raises(TypeError, match=r"hook .*runs_in_thread.*`async def"):
        Registry().around(runs_in_thread)  # type: ignore[type-var]
    with pytest.raises(TypeError, match=r"hook .*takes_job.*\(job, call\)"):
        Registry().around(takes_job)


async def test_merged_registries_keep_their_own_resources_and_hooks() -> None:
    one, two = Registry(), Registry()

    @one.lifespan
    async def resources() -> AsyncIterator[str]:
        yield "of one"

    @two.around
    async def hook(job: object, call: Callable[[], Awaitable[object]]) -> object:
        return await call()

    one.job("ONE")(takes_job)
    two.job("TWO")(takes_job)
    merged = merge([one, two])

    async with merged.open_resources() as opened:
        assert opened.of(merged.find("ONE")) == "of one"
        assert opened.of(merged.find("TWO")) is None
    assert merged.find("ONE").around is None
    assert merged.find("TWO").around is hook
    assert merged.job_types() == ("ONE", "TWO")


def test_two_registries_with_one_job_type_are_not_merged() -> None:
    one, two = Registry(), Registry()
    one.job("SAME")(takes_job)
    two.job("SAME")(takes_payload)

    with pytest.raises(ValueError, match=r"takes_payload.*'SAME' has a handler already, takes_job"):
        merge([one, two])


def test_one_function_may_serve_every_type() -> None:
    registry = registry_of_any(takes_job)

    assert registry.find("WHATEVER").job_type == "WHATEVER"
    assert registry.find("WHATEVER").function is takes_job
    assert registry.job_types() == ()
