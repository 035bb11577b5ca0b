"""Every known failure case has a test that names it, or a reason; no test names a case that is not known."""

from __future__ import annotations

import ast

import pytest

from support.cases import Case, known_cases, marked, open_cases, shown_by

KNOWN = known_cases()


@pytest.mark.parametrize("case", KNOWN.values(), ids=KNOWN.keys())
def test_a_case_has_a_test_or_a_reason(case: Case) -> None:
    assert case.id in shown_by() or case.reason or case.id in open_cases(), (
        f"{case.id} ({case.title}) has no test: mark one, or say why in tests/cases.toml"
    )


def test_a_marker_names_a_case_that_is_known() -> None:
    unknown = {case: tests for case, tests in shown_by().items() if case not in KNOWN}
    assert unknown == {}


def test_what_is_open_has_neither_a_test_nor_a_reason() -> None:
    done = [case for case in open_cases() if case in shown_by() or case not in KNOWN or KNOWN[case].reason]
    assert done == [], "take these out of `open` in tests/cases.toml"


def test_markers_are_found_wherever_pytest_finds_them() -> None:
    source = """
pytestmark = pytest.mark.case("F01")

@pytest.mark.case("F02", "F03")
async def test_one(): ...

class TestMany:
    @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.case("F04"))])
    def test_two(self, x): ...

@pytest.fixture
def test_data(): ...
"""
    assert set(marked(ast.parse(source))) >= {
        ("test_one", "F01"), ("test_one", "F02"), ("test_one", "F03"), ("test_two", "F01"), ("test_two", "F04"),
    }  # fmt: skip
