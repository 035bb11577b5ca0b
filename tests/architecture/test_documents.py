"""The documents say what is there: links, files, tests, commands, targets, settings, functions and metrics."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from support.sources import TOP, functions_in, project_files, shown
from wakeful.cli.main import build_parser
from wakeful.core.decoding import known_paths
from wakeful.telemetry.events import EVENTS
from wakeful.telemetry.meters import METERS

PAGES = [path for path in project_files() if path.suffix == ".md"]
DECISIONS = sorted(path for path in PAGES if path.parent.name == "decisions")
ARCHITECTURE = TOP / "ARCHITECTURE.md"
SUFFIXES = ("py", "sql", "toml", "md", "yaml", "sh", "lock")
ROLES = {"wakeful_producer", "wakeful_worker", "wakeful_observer"}
SESSIONS = {"wakeful cli", "wakeful beat", "wakeful migrate"}  # names in pg_stat_activity
RULES = [*(f"R{number}" for number in range(1, 13)), *(f"I{number}" for number in range(1, 26))]
page = pytest.mark.parametrize("page", PAGES, ids=shown)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def code_lines(text: str) -> list[str]:
    """Commands of fenced and of indented blocks that a shell would run, without their comments."""
    blocks = re.findall(r"^```(?:sh|bash|console)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"^ {4}(\S.*)$", text, re.MULTILINE)
    return [part.strip() for line in lines for part in re.split(r"\s#|\s[|&]+\s|\s>|\s{3,}", line)]


def inline_code(text: str) -> list[str]:
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", prose)


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@cache
def names_by_file() -> dict[str, set[str]]:
    files = [path for path in project_files() if path.suffix == ".py" and path.is_relative_to(TOP / "tests")]
    return {path.name: {function.name for function in functions_in(path)} for path in files}


@page
def test_links_lead_somewhere(page: Path) -> None:
    text = text_of(page)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith(("http:", "https:", "mailto:")):
            file, _, anchor = target.partition("#")
            leads_to = (page.parent / file).resolve() if file else page
            assert leads_to.exists(), target
            assert not anchor or anchor in anchors(text_of(leads_to)), target


@page
def test_the_tests_that_are_named_are_there(page: Path) -> None:
    named = re.findall(r"\b(test_\w+\.py)::(test_\w+)", text_of(page))
    missing = [f"{file}::{name}" for file, name in named if name not in names_by_file().get(file, set())]
    assert missing == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.parent in (TOP, TOP / "docs" / "decisions")], ids=shown
)
def test_the_files_that_are_named_are_there(page: Path) -> None:
    ours = [f"/{path.relative_to(TOP).as_posix()}" for path in project_files()]
    folders = [f"{path.rpartition('/')[0]}/" for path in ours]
    named = [code for code in inline_code(text_of(page)) if re.fullmatch(r"[\w./-]*\w", code)]
    files = [code for code in named if code.rpartition(".")[2] in SUFFIXES and "/" in code]
    below = [code for code in inline_code(text_of(page)) if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/", code)]
    missing = [code for code in files if not any(path.endswith(f"/{code}") for path in ours)]
    missing += [code for code in below if not any(f"/{code}" in folder for folder in folders)]
    assert missing == []


@page
def test_the_commands_can_be_given(page: Path) -> None:
    text = text_of(page)
    spoken = [code for code in inline_code(text) if code.startswith("wakeful ") and code not in SESSIONS]
    for line in [*code_lines(text), *spoken]:
        words = shlex.split(line) if "wakeful " in line and not re.search("…|COMMAND", line) else []
        words = ["01980f3e-7a10-7cc0-b1f0-3d0c5a4f9e21" if word == "JOB_ID" else word for word in words]
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words.pop(0)
        if words[:1] == ["wakeful"] and words[1:] not in ([], ["jobs"], ["queues"], ["alerts"], ["config"]):
            build_parser().parse_args(words[1:])


@page
def test_the_targets_of_make_are_there(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of(TOP / "Makefile"), re.MULTILINE))
    text = text_of(page)
    named = {
        match[1]
        for line in [*code_lines(text), *inline_code(text)]
        for match in [re.match(r"make ([a-z-]+)", line)]
        if match is not None
    }
    assert named <= targets


@page
def test_settings_functions_and_metrics_are_called_what_they_are(page: Path) -> None:
    text = text_of(page)
    paths = set(known_paths())
    sections = "|".join({path.partition(".")[0] for path in paths if "." in path} - {"queues", "sinks"})
    settings = {code for code in inline_code(text) if re.fullmatch(rf"({sections})\.[a-z_]+", code)}
    schema = text_of(TOP / "schema.sql")
    functions = set(re.findall(r"\bwakeful\.(\w+)\(", text))
    metrics = set(re.findall(r"\bwakeful_[a-z_]+\b", text)) - ROLES
    known = {meter.name for meter in METERS}
    others = paths | {event.name for event in EVENTS}
    assert {one for one in settings if one not in others and not is_file(one)} == set()
    assert {name for name in functions if f"function wakeful.{name}(" not in schema} == set()
    assert {name for name in metrics if name not in known and name not in text_of(ARCHITECTURE)} == set()


def is_file(dotted: str) -> bool:
    """Some settings share their section's name with files and packages: `store.database`, `jobs.py`."""
    folder = TOP / "daemon" / "wakeful" / dotted.replace(".", "/")
    return dotted.endswith((".py", ".toml")) or folder.is_dir() or folder.with_suffix(".py").exists()


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_has_a_file_that_keeps_it_and_a_test_that_guards_it(rule: str) -> None:
    (row,) = re.findall(rf"^\| {rule} \|(.*)\|$", text_of(ARCHITECTURE), re.MULTILINE)
    what, keeper, guard = (cell.strip() for cell in row.split(" | "))
    assert what and keeper
    assert re.search(r"test_\w+\.py::test_\w+", guard) or "*later, with" in keeper


@pytest.mark.parametrize("decision", DECISIONS, ids=shown)
def test_a_decision_is_told_in_one_form(decision: Path) -> None:
    number = DECISIONS.index(decision) + 1
    text = text_of(decision)
    assert decision.name.startswith(f"{number:04}-")
    assert text.startswith(f"# {number}. ")
    assert re.findall(r"^(?:## )?(Status|Context|Decision|Consequences)\b", text, re.MULTILINE) == [
        "Status",
        "Context",
        "Decision",
        "Consequences",
    ]
    assert len(text.splitlines()) <= 60
