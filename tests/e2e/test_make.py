"""Two commands from a bare machine: what make does, what it says where something is missing, and what it leaves."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from support.checkouts import BARE_SYSTEM, Shelf, copied_checkout
from support.sources import TOP

CLOSED = "http://127.0.0.1:1/simple"  # nobody listens there: as good as no network
TOO_OLD = 'sys.version_info = (3, 9, 2, "final", 0)'
FROM_AN_OUTER_MAKE = ("MAKE", "MFLAGS", "ARGS", "PYTHON", "DATABASE_URL", "DEMO_DATABASE", "PYTEST_")
EXPORTED = {"DATABASE_URL": "postgresql://elsewhere/db"}
NO_ENSUREPIP = 'sys.modules["ensurepip"] = None'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return copied_checkout(tmp_path / "a folder" / "wakeful")


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """A PATH without any Python, on a system with apt-get."""
    made = Shelf(tmp_path / "shelf")
    made.add("apt-get", "exit 1")
    return made


def make(
    *arguments: str, cwd: Path = TOP, environment: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(FROM_AN_OUTER_MAKE)}
    return subprocess.run(
        ["make", *arguments],
        cwd=cwd,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def the_line(answer: subprocess.CompletedProcess[str]) -> str:
    """The one line that setup says when it fails; what make adds is make's."""
    assert answer.returncode != 0
    lines = [line for line in answer.stderr.splitlines() if not line.startswith("make")]
    assert len(lines) == 1, answer.stderr
    return lines[0]


def test_help_lists_every_target_that_people_call() -> None:
    answer = make("help")
    for target in re.findall(r"^([a-z-]+):.* ## ", (TOP / "Makefile").read_text(), re.MULTILINE):
        assert f"make {target} " in answer.stdout


def test_without_a_python_it_says_so(shelf: Shelf, checkout: Path) -> None:
    line = the_line(shelf.run("make", "run", cwd=checkout))
    assert "Python 3.11 or newer is needed (none was found on PATH): " in line
    assert "apt-get install -y python3.11 python3.11-venv" in line


def test_with_too_old_a_python_it_names_it(shelf: Shelf, checkout: Path) -> None:
    shelf.add_python("python3", TOO_OLD)
    line = the_line(shelf.run("make", "test", cwd=checkout))
    assert "Python 3.11 or newer is needed (python3 is 3.9.2): " in line
    assert "apt-get install -y python3.11 python3.11-venv" in line


def test_without_ensurepip_it_names_debians_package(shelf: Shelf, checkout: Path) -> None:
    shelf.add_python("python3", NO_ENSUREPIP)
    line = the_line(shelf.run("make", "run", cwd=checkout))
    assert "python3 has no ensurepip" in line
    assert re.search(r"apt-get install -y python3\.\d+-venv$", line)


def test_without_a_network_it_says_so(shelf: Shelf, checkout: Path) -> None:
    """On the way there, interpreters that can't be used are passed over for an older one that can."""
    shelf.add_python("python3.13", NO_ENSUREPIP)
    shelf.add("python3.12", "echo 'python3.12: command not found' >&2; exit 127")
    shelf.add_python("python3")
    answer = shelf.run(
        "make", "run", cwd=checkout, PIP_INDEX_URL=CLOSED, PIP_RETRIES="0", PIP_CONFIG_FILE="/dev/null"
    )
    line = the_line(answer)
    assert "the package index can't be reached: check the network" in line
    assert "PIP_INDEX_URL" in line


def test_on_musl_without_postgresql_it_says_so(shelf: Shelf, checkout: Path) -> None:
    shelf.add_python("python3")
    shelf.add("ldd", "echo 'musl libc (x86_64)' >&2; exit 1")
    line = the_line(shelf.run("make", "run", cwd=checkout))
    assert "musl" in line
    assert line.endswith("apk add postgresql")


def test_on_musl_with_postgresql_all_but_the_embedded_one_is_installed(shelf: Shelf, checkout: Path) -> None:
    shelf.add_python("python3")
    shelf.add("ldd", "echo 'musl libc (x86_64)' >&2; exit 1")
    shelf.add("initdb", "exit 0")
    line = the_line(shelf.run("make", "run", cwd=checkout, PIP_INDEX_URL=CLOSED, PIP_RETRIES="0"))
    assert "package index" in line
    whole = (checkout / "requirements.lock").read_text()
    chosen = (checkout / ".venv" / "requirements.lock").read_text()
    names = re.findall(r"^[\w.-]+==", chosen, re.MULTILINE)
    assert names == [
        name for name in re.findall(r"^[\w.-]+==", whole, re.MULTILINE) if "embedded" not in name
    ]
    assert chosen.count("--hash") < whole.count("--hash")


def demo_options(*arguments: str, environment: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """What `make run` hands to the demo: each argument of the command, printed by a stand-in for the interpreter."""
    stand_in = "printf '%s\\n'"
    answer = make("-o", "setup-run", "run", f"PYTHON_IN_VENV={stand_in}", *arguments, environment=environment)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()[2:]


def test_the_demo_has_its_own_server_unless_told_otherwise() -> None:
    assert demo_options() == ["demo"]
    assert demo_options("ARGS=--once --json") == ["demo", "--once", "--json"]


def test_an_exported_database_is_not_given_to_the_demo() -> None:
    assert demo_options(environment=EXPORTED) == ["demo"]


def test_a_database_on_the_command_is_given_to_the_demo_as_it_is() -> None:
    address = "postgresql://it's:p$x$$(id)`id`\"@h/a b"
    assert demo_options(f"DATABASE_URL={address}", environment=EXPORTED) == ["demo", "--database", address]


def test_make_test_forgets_an_exported_database() -> None:
    command = make("--dry-run", "test", environment=EXPORTED).stdout.splitlines()[-1]
    assert command.startswith("unset DATABASE_URL DATABASE_URL_FILE; exec ")


def test_clean_removes_the_data_but_not_under_a_running_demo(checkout: Path) -> None:
    data = checkout / ".wakeful" / "demo"
    data.mkdir(parents=True)
    (data / "owner").write_text(f"{os.getpid()}\n")
    refused = make("clean", cwd=checkout)
    assert refused.returncode != 0
    assert f".wakeful/demo is in use by process {os.getpid()}" in refused.stderr
    (data / "owner").unlink()
    (checkout / "daemon" / "__pycache__").mkdir()
    (checkout / "reports" / "bench").mkdir(parents=True)
    assert make("clean", cwd=checkout).returncode == 0
    assert not data.parent.exists()
    assert not (checkout / "daemon" / "__pycache__").exists()
    assert not (checkout / "reports").exists()
    assert (checkout / "schema.sql").exists()


@pytest.mark.timeout(300)
def test_set_up_once_in_a_folder_with_a_space(checkout: Path, tmp_path: Path) -> None:
    """The real thing, from the real index: only what is on a bare system's PATH is used."""
    shelf = Shelf(tmp_path / "shelf", BARE_SYSTEM.split())
    shelf.add_python("python3")
    settings = {
        name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTPS_"))
    }
    first = shelf.run("make", "setup-run", cwd=checkout, **settings)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.count("setup: setting up .venv") == 1
    again = shelf.run("make", "setup-run", cwd=checkout, **settings)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    (checkout / "pyproject.toml").write_text((checkout / "pyproject.toml").read_text() + "\n")
    changed = shelf.run("make", "setup-run", cwd=checkout, **settings)
    assert "setting up" in changed.stdout
    program = "import importlib.metadata as m, wakeful; print(m.version('wakeful'), wakeful.__file__)"
    python = str(checkout / ".venv" / "bin" / "python")
    installed = shelf.run(python, "-c", program, cwd=tmp_path)
    assert installed.stdout.strip() == f"0.1.0 {checkout}/daemon/wakeful/__init__.py", installed.stderr
