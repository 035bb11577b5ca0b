"""Typed payloads: what becomes of a job's JSON object, and every problem of it with its path."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, ClassVar, Literal, NewType, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.errors import InvalidPayload
from wakeful.handlers.payloads import payload_type
from wakeful.handlers.plain import plain

PlaceId = NewType("PlaceId", str)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Page:
    url: str
    depth: int = 0


@dataclass(frozen=True)
class Collect:
    place_id: PlaceId
    max_pages: int = 20
    ratio: float = 0.5
    price: Decimal = Decimal(0)
    pages: list[Page] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    colour: Colour | None = None
    level: Level = Level.LOW
    mode: Literal["fast", "slow", 3] = "fast"
    when: datetime | None = None
    day: date | None = None
    at: time | None = None
    pause: timedelta = timedelta(0)
    token: UUID | None = None
    pair: tuple[int, str] | None = None
    tags: frozenset[str] = frozenset()
    numbers: tuple[int, ...] = ()
    anything: Any = None
    noted: Annotated[str, ["unhashable"]] = ""
    derived: int = field(default=7, init=False)
    shared: ClassVar[int] = 3


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


@dataclass
class Strict:
    age: int

    def __post_init__(self) -> None:
        if self.age < 0:
            raise ValueError("age is negative")


@dataclass
class Lenient:
    __unknown_fields__: ClassVar = "ignore"
    name: str


class Site(TypedDict):
    url: str
    depth: NotRequired[int]
    page: NotRequired[Page]


class Shop(msgspec.Struct):
    name: str
    opened: date
    rating: float = 0.0


class Model(pydantic.BaseModel):
    name: str
    sizes: list[int] = []


def bind(kind: object, payload: object, *, secret: tuple[str, ...] = ()) -> Any:
    return payload_type(kind, {}).bind(payload, secret)


def problems_of(kind: object, payload: object, *, secret: tuple[str, ...] = ()) -> tuple[str, ...]:
    with pytest.raises(InvalidPayload) as caught:
        bind(kind, payload, secret=secret)
    return caught.value.problems


def test_every_kind_of_field_is_made_from_json() -> None:
    bound = bind(
        Collect,
        {
            "place_id": "abc",
            "max_pages": 9007199254740993,
            "ratio": 1,
            "price": Decimal("0.12345678901234567890123"),
            "pages": [{"url": "a"}, {"url": "b", "depth": 2}],
            "labels": {"x": 1},
            "colour": "blue",
            "level": 2,
            "mode": 3,
            "when": "2026-03-01T10:00:00Z",
            "day": "2026-03-01",
            "at": "10:30",
            "pause": "5m",
            "token": "12345678-1234-5678-1234-567812345678",
            "pair": [1, "x"],
            "tags": ["a", "b", "a"],
            "numbers": [1, 2],
            "anything": {"free": [None]},
            "noted": "yes",
        },
    )

    assert bound == Collect(
        place_id=PlaceId("abc"),
        max_pages=9007199254740993,
        ratio=1.0,
        price=Decimal("0.12345678901234567890123"),
        pages=[Page("a"), Page("b", 2)],
        labels={"x": 1},
        colour=Colour.BLUE,
        level=Level.HIGH,
        mode=3,
        when=datetime(2026, 3, 1, 10, tzinfo=UTC),
        day=date(2026, 3, 1),
        at=time(10, 30),
        pause=timedelta(minutes=5),
        token=UUID("12345678-1234-5678-1234-567812345678"),
        pair=(1, "x"),
        tags=frozenset({"a", "b"}),
        numbers=(1, 2),
        anything={"free": [None]},
        noted="yes",
    )
    assert isinstance(bound.ratio, float)


def test_defaults_hold_for_what_is_left_out() -> None:
    assert bind(Collect, {"place_id": "abc"}) == Collect(place_id=PlaceId("abc"))


def test_all_problems_are_told_with_their_paths() -> None:
    assert problems_of(
        Collect,
        {
            "max_pages": "20",
            "pages": [{"url": "a"}, {"ulr": "b"}, 5],
            "labels": {"x": None},
            "colour": "green",
            "plce_id": "abc",
        },
    ) == (
        "$.max_pages: expected an integer, got a string",
        "$.pages[1].url: is missing",
        "$.pages[1].ulr: unknown field, did you mean 'url'?",
        "$.pages[2]: expected an object, got an integer",
        "$.labels.x: expected an integer, got null",
        "$.colour: expected one of 'red', 'blue'",
        "$.place_id: is missing",
        "$.plce_id: unknown field, did you mean 'place_id'?",
    )


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("max_pages", True, "expected an integer, got a boolean"),
        ("max_pages", 1.0, "expected an integer, got a number"),
        ("max_pages", Decimal("1e400"), "expected an integer, got a number"),
        ("ratio", "0.5", "expected a number, got a string"),
        ("ratio", False, "expected a number, got a boolean"),
        ("ratio", 9007199254740993, "the number does not fit a float"),
        ("ratio", Decimal("1e400"), "the number does not fit a float"),
        ("ratio", 10**400, "the number does not fit a float"),
        ("price", "abc", "expected a number, got a string"),
        ("price", "NaN", "expected a number, got a string"),
        ("price", True, "expected a number, got a boolean"),
        ("level", True, "expected one of 1, 2"),
        ("mode", "medium", "expected one of 'fast', 'slow', 3"),
        ("when", "yesterday", "expected a time in ISO 8601; the string is none"),
        ("when", 5, "expected a time in ISO 8601, got an integer"),
        ("day", "2026-02-30", "expected a date in ISO 8601; the string is none"),
        ("pause", "soon", 'expected a duration such as "30s" or a number of seconds, got a string'),
        ("token", "12", "expected a UUID; the string is none"),
        ("pair", [1], "expected an array of 2, got one of 1"),
        ("pair", {"a": 1}, "expected an array, got an object"),
        ("tags", "abc", "expected an array, got a string"),
        ("labels", [], "expected an object, got an array"),
        ("derived", 1, "unknown field"),
    ],
)
def test_a_value_of_the_wrong_kind_is_a_problem(name: str, value: object, problem: str) -> None:
    assert problems_of(Collect, {"place_id": "abc", name: value}) == (f"$.{name}: {problem}",)


@pytest.mark.parametrize("payload", [None, [], "text", 5])
def test_a_payload_that_is_no_object_is_a_problem(payload: object) -> None:
    assert problems_of(Collect, payload)[0].startswith("$: expected an object, got ")


def test_a_union_takes_the_arm_that_leaves_the_value_as_it_is() -> None:
    @dataclass
    class Either:
        value: Decimal | str | int | None

    assert [bind(Either, {"value": value}).value for value in ("1", 1, None)] == ["1", 1, None]


def test_a_union_of_records_takes_the_one_that_fits() -> None:
    @dataclass
    class Holder:
        thing: Page | Strict

    assert bind(Holder, {"thing": {"age": 3}}).thing == Strict(3)
    assert problems_of(Holder, {"thing": {"url": 5}}) == ("$.thing.url: expected a string, got an integer",)


def test_a_type_that_contains_itself_is_made() -> None:
    assert bind(Tree, {"name": "a", "children": [{"name": "b"}]}) == Tree("a", [Tree("b")])


def test_a_payload_nested_without_end_is_a_problem() -> None:
    payload: dict[str, object] = {"name": "leaf"}
    for _ in range(100_000):
        payload = {"name": "x", "children": [payload]}

    assert problems_of(Tree, payload) == ("$: nested too deeply",)


def test_the_checks_of_a_dataclass_are_problems() -> None:
    assert problems_of(Strict, {"age": -1}) == ("$: ValueError: age is negative",)


def test_a_dataclass_may_ignore_unknown_fields() -> None:
    assert bind(Lenient, {"name": "a", "more": 1}) == Lenient("a")


def test_a_typed_dict_is_checked_and_keeps_what_it_does_not_name() -> None:
    assert bind(Site, {"url": "a", "page": {"url": "b"}, "more": 1}) == {
        "url": "a",
        "page": Page("b"),
        "more": 1,
    }
    assert problems_of(Site, {"depth": "x"}) == (
        "$.url: is missing",
        "$.depth: expected an integer, got a string",
    )


def test_a_struct_is_made_by_msgspec() -> None:
    assert bind(Shop, {"name": "a", "opened": "2026-01-02", "rating": 4}) == Shop("a", date(2026, 1, 2), 4.0)
    assert problems_of(Shop, {"name": "a", "opened": 5}) == ("$.opened: Expected `date`, got `int`",)


def test_a_model_is_made_by_pydantic() -> None:
    assert bind(Model, {"name": "a", "sizes": [1]}) == Model(name="a", sizes=[1])
    assert [line.split(":")[0] for line in problems_of(Model, {"sizes": [1, "x"]})] == [
        "$.name",
        "$.sizes[1]",
    ]


@pytest.mark.parametrize("kind", [dict, dict[str, object], Any, object])
def test_a_plain_dict_takes_any_object(kind: object) -> None:
    assert bind(kind, {"a": [1]}) == {"a": [1]}


@pytest.mark.parametrize("kind", [int, list[int], bytes, "Collect", Literal["a"]])
def test_a_payload_is_a_record(kind: object) -> None:
    with pytest.raises(TypeError, match="a payload is a dataclass"):
        payload_type(kind, {})


@pytest.mark.parametrize("kind", [bytes, complex, bytes | None, dict[str, bytes]])
def test_a_field_that_json_can_not_make_is_refused_when_registered(kind: object) -> None:
    made = dataclasses.make_dataclass("Made", [("data", kind)])

    with pytest.raises(TypeError, match=r"Made\.data: .*bytes|Made\.data: .*complex"):
        payload_type(made, {})


def test_a_secret_value_is_in_no_problem() -> None:
    secret = problems_of(Shop, {"name": "a", "opened": "hunter2"}, secret=("opened",))

    assert secret == ("$.opened: does not fit (the value is secret)",)


def test_a_flood_of_problems_is_cut() -> None:
    shown = problems_of(Collect, {"place_id": "abc", **{f"x{n}": n for n in range(50)}})

    assert len(shown) == 21
    assert shown[-1] == "and 30 more"


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.floats(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from([*Collect.__dataclass_fields__, "x"]), inner)
        ),
    )
)
def test_no_json_value_gets_past_the_check_with_another_error(payload: object) -> None:
    try:
        bind(Collect, payload)
    except InvalidPayload as error:
        assert error.problems  # noqa: PT017 -- either way is right, only another error is not


@pytest.mark.parametrize(
    "value",
    [
        Collect(
            PlaceId("abc"), colour=Colour.RED, day=date(2026, 1, 2), tags=frozenset({"b", "a"}), pair=(1, "x")
        ),
        Shop("a", date(2026, 1, 2)),
        Model(name="a"),
        Tree("a", [Tree("b")]),
    ],
)
def test_a_typed_value_is_bound_again_from_its_plain_form(value: object) -> None:
    assert bind(type(value), plain(value)) == value
