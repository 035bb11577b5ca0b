"""What tells one bug from another: class and own function, and neither ids, nor lines, nor where it is installed."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from typing import Any

import pytest

from wakeful.core.fingerprint import LONGEST_FINGERPRINT, fingerprint
from wakeful.core.text import describe_exception

APP = "/srv/shop"
INSTALLED = "/opt/venv/lib/python3.12/site-packages"
STDLIB = sysconfig.get_path("stdlib")


def function(
    module: str, root: str = APP, *, name: str = "fetch", body: str = "then()", lines: int = 0
) -> Callable[..., Any]:
    """A function of a module that stands in a folder, which calls what it is given."""
    file = f"{root}/{module.replace('.', '/')}.py"
    source = "\n" * lines + f"def {name}(then):\n    {body}\n"
    names: dict[str, Any] = {"__name__": module, "__file__": file}
    exec(compile(source, file, "exec"), names)
    made: Callable[..., Any] = names[name]
    return made


def raised(*calls: Callable[..., Any], error: Exception | None = None) -> Exception:
    """What comes out when each calls the next, and the last one's callee raises."""
    (first, *others) = calls

    def then() -> None:
        if others:
            nested(*others)
        else:
            raise error or ValueError("no price for place 4711")

    def nested(call: Callable[..., Any], *inner: Callable[..., Any]) -> None:
        call(lambda: nested(*inner) if inner else _raise(error))

    try:
        first(then)
    except Exception as caught:  # noqa: BLE001 -- it is what is looked at
        return caught
    raise AssertionError("nothing was raised")


def _raise(error: Exception | None) -> None:
    raise error or ValueError("no price for place 4711")


@pytest.fixture(autouse=True)
def tests_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of this file are none of the application that is looked at."""
    monkeypatch.setattr("wakeful.core.fingerprint._STANDARD", (f"{STDLIB}/", __file__))


def test_it_names_the_class_and_the_innermost_own_function() -> None:
    error = raised(
        function("shop.jobs", name="collect"), function("shop.places"), function("json.decoder", STDLIB)
    )

    assert fingerprint("ValueError", error) == "ValueError@shop.places:fetch"
    assert describe_exception(error).fingerprint == "ValueError@shop.places:fetch"


def test_code_of_a_library_below_it_is_not_own() -> None:
    error = raised(function("shop.places"), function("httpx._client", INSTALLED, name="send"))
    assert fingerprint("ReadTimeout", error) == "ReadTimeout@shop.places:fetch"


def test_compiled_code_that_names_a_source_which_is_not_there_is_where_its_module_is() -> None:
    names: dict[str, Any] = {"__name__": "fast.parse", "__file__": f"{INSTALLED}/fast/parse.so"}
    exec(compile("def run(then):\n    then()\n", "fast/parse.pyx", "exec"), names)

    assert (
        fingerprint("ValueError", raised(function("shop.places"), names["run"]))
        == "ValueError@shop.places:fetch"
    )


def test_an_application_that_is_installed_itself_is_known_by_its_package() -> None:
    own = function("shop.jobs", INSTALLED, name="collect"), function("shop.places", INSTALLED)
    error = raised(*own, function("httpx._client", INSTALLED))

    assert fingerprint("ReadTimeout", error) == "ReadTimeout@shop.places:fetch"


def test_neither_a_message_nor_a_line_splits_a_bug() -> None:
    marks = {
        fingerprint("ValueError", raised(function("shop.places", lines=n), error=ValueError(f"place {n}")))
        for n in range(5)
    }
    assert marks == {"ValueError@shop.places:fetch"}


def test_two_functions_and_two_classes_are_different_bugs() -> None:
    marks = {
        fingerprint(kind, raised(function("shop.places", name=name)))
        for kind in ("ValueError", "KeyError")
        for name in ("fetch", "store")
    }
    assert len(marks) == 4


@pytest.mark.parametrize(
    ("module", "name", "shown"),
    [
        ("shop.step_17", "fetch", "shop.step_*:fetch"),
        ("shop.x01980f3e7a107cc0b1f03d0c5a4f9e21", "fetch", "shop.x*:fetch"),
        ("shop.places", "fetch_9f86d081884c7d65", "shop.places:fetch_*"),
        ("shop places\n\x00", "fetch", "shop?places?:fetch"),
        ("가게.장소", "찾기", "가게.장소:찾기"),
    ],
)
def test_numbers_and_ids_in_names_are_left_out(module: str, name: str, shown: str) -> None:
    made = function("m", name=name)
    made.__globals__["__name__"] = module
    assert fingerprint("ValueError", raised(made)) == f"ValueError@{shown}"


@pytest.mark.parametrize(
    ("kind", "shown"), [("Http404", "Http404"), ("Place8731", "Place*"), ("E" * 500, None)]
)
def test_a_class_keeps_a_short_number_and_no_id(kind: str, shown: str | None) -> None:
    mark = fingerprint(kind, raised(function("shop.places")))
    assert mark is not None
    assert len(mark) <= LONGEST_FINGERPRINT
    assert shown is None or mark == f"{shown}@shop.places:fetch"


@pytest.mark.parametrize("body", ["[then() for _ in 'a']", "list(then() for _ in 'a')"])
def test_a_comprehension_is_its_function_in_every_version_of_python(body: str) -> None:
    assert (
        fingerprint("ValueError", raised(function("shop.places", body=body)))
        == "ValueError@shop.places:fetch"
    )


def test_without_a_traceback_or_with_one_that_raises_there_is_none() -> None:
    def deaf(_self: object) -> object:
        raise RuntimeError("no")

    broken: type[Exception] = type("Deaf", (Exception,), {"__traceback__": property(deaf)})
    assert fingerprint("ValueError", ValueError("never raised")) is None
    assert fingerprint("Deaf", broken()) is None
    assert describe_exception(ValueError("never raised")).fingerprint is None


def test_a_deep_recursion_is_one_function() -> None:
    made = function("shop.places", body="fetch(then)")
    assert fingerprint("RecursionError", raised(made)) == "RecursionError@shop.places:fetch"


def test_a_group_of_one_is_named_by_what_is_in_it() -> None:
    member = raised(function("shop.places"))
    entry = describe_exception(ExceptionGroup("unhandled errors in a task group", [member]))
    assert entry.fingerprint == "ValueError@shop.places:fetch"
