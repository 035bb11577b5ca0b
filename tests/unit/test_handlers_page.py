"""docs/handlers.md: its code runs, and it names every option and every attribute that there is."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import wakeful
from support.sources import TOP
from wakeful import JobContext, Registry

PAGE = (TOP / "docs" / "handlers.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`(\w+)", PAGE))


def test_the_code_of_the_page_runs() -> None:
    names: dict[str, Any] = {"__name__": "myapp.jobs"}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(compile(block, "docs/handlers.md", "exec", dont_inherit=True), names)

    assert names["registry"].job_types() == ("COLLECT", "PUBLISH", "RESIZE", "TRANSCODE")
    assert names["registry"].find("COLLECT").bind({"place_id": "abc"}) == names["Collect"]("abc", 20)


@pytest.mark.parametrize("option", [*inspect.signature(Registry.job).parameters][2:])
def test_the_page_names_every_option(option: str) -> None:
    assert option in NAMED


@pytest.mark.parametrize("name", [name for name in dir(JobContext) if not name.startswith("_")])
def test_the_page_names_every_attribute_of_the_context(name: str) -> None:
    assert name in NAMED | {"close", "label"}  # the runtime's


@pytest.mark.parametrize("name", sorted(wakeful.__all__))
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(wakeful, name).__module__.startswith("wakeful.")
