"""What the pages say was measured is what the kept figures say."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.figures import kept
from soak.matrix import ROWS
from soak.page import BLOCK, PAGES, made
from soak.running import KINDS
from support.sources import shown


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_the_measured_parts_of_a_page_are_made_of_the_kept_figures(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert BLOCK.search(text)
    assert text == made(text, kept()), "PYTHONPATH=tests python -m soak.page writes it anew"


def test_other_figures_make_another_page() -> None:
    text = "kept by hand\n<!-- measured: run -->\nold\n<!-- end -->\nby hand, too\n"
    page = made(text, {**kept(), "jobs": 12_345_678})
    assert "12,345,678 jobs" in page
    assert "old" not in page
    assert page.startswith("kept by hand\n") and page.endswith("by hand, too\n")


def test_every_kind_of_fault_has_its_row() -> None:
    assert ROWS.keys() == KINDS.keys()
