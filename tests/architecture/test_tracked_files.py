"""What no file of the project may hold: addresses of package indexes, paths of one machine, credentials."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.secrets import credentials_in
from support.sources import TOP, project_files, shown

# written in halves, since this file is looked at, too
PUBLIC_INDEXES = (
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "registry.npm" + "js.org",
    "deb.debian" + ".org",
    "docker" + ".io/",
)
MACHINE_PATHS = ("/wo" + "rk/", "/ro" + "ot/.")
LOCKS = [path for path in project_files() if path.suffix == ".lock"]


@cache
def texts() -> dict[Path, str]:
    found = {}
    for path in project_files():
        content = path.read_bytes()
        if b"\0" not in content:
            found[path] = content.decode(errors="replace")
    return found


def this_machines_indexes() -> set[str]:
    """The hosts that pip is set up with here, whatever they are: they are nobody else's business."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    settings = " ".join(
        [listing, *(value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_")))]
    )
    hosts = {urlsplit(address).hostname for address in re.findall(r"https?://[^\s'\"]+", settings)}
    return {host for host in hosts if host is not None}


def test_no_file_names_a_package_index() -> None:
    hosts = {*PUBLIC_INDEXES, *this_machines_indexes()}
    assert [
        f"{shown(path)}: {host}" for path, text in texts().items() for host in hosts if host in text
    ] == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert [
        f"{shown(path)}: {part}" for path, text in texts().items() for part in MACHINE_PATHS if part in text
    ] == []


def test_no_file_holds_credentials() -> None:
    found = [
        f"{shown(path)}: {what}" for path, text in texts().items() for what in credentials_in(path.name, text)
    ]
    assert found == []


@pytest.mark.parametrize("path", LOCKS, ids=shown)
def test_a_lock_file_pins_by_hash_and_holds_no_address(path: Path) -> None:
    entries = re.split(r"\n(?=[a-z0-9])", path.read_text())
    assert len(entries) > 20
    assert [entry.partition(" ")[0] for entry in entries if not re.match(r"[\w.-]+==\S+", entry)] == []
    assert [entry.partition(" ")[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in path.read_text()


def test_the_two_lock_files_agree() -> None:
    runtime, development = (
        dict(re.findall(r"^([\w.-]+)==(\S+)", (TOP / name).read_text(), re.MULTILINE))
        for name in ("requirements.lock", "requirements-dev.lock")
    )
    assert {name: development.get(name) for name in runtime} == runtime
