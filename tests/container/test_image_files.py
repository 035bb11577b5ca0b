"""What goes to the image's builder: the files that it needs, and no credential, whatever lies about in the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.checkouts import copied_checkout
from support.container import files_sent, is_sent, named, read_dockerfile
from support.secrets import credentials_in
from support.sources import TOP, project_files

IGNORE = (TOP / ".dockerignore").read_text()
PLANTED = "correct-horse"
STRAY = [
    ".env",
    ".env.production",
    "daemon/.env",
    "daemon/wakeful/.env",
    "daemon/wakeful/.env.local",
    "examples/onboarding/.env",
    "examples/onboarding/server.pem",
    "examples/onboarding/server.key",
    "daemon/wakeful/store/id_rsa",
    "examples/.netrc",
    "daemon/wakeful/.pgpass",
    "daemon/.pypirc",
    "pip.conf",
    "compose.override.yaml",
    ".wakeful/demo/data/base/1",
    ".git/config",
    ".venv/lib/secret.py",
    "notes.txt",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copied = copied_checkout(tmp_path_factory.mktemp("container") / "wakeful")
    for name in STRAY:
        stray = copied / name
        stray.parent.mkdir(parents=True, exist_ok=True)
        stray.write_text(f"password={PLANTED}\n")
    return copied


def test_it_is_the_package_the_example_and_what_builds_them(folder: Path) -> None:
    ours = {path.relative_to(TOP).as_posix() for path in project_files()}
    alone = {"requirements.lock", "pyproject.toml", "README.md", "LICENSE", "schema.sql", "config.toml"}
    below = {path for path in ours if path.startswith(("daemon/", "examples/"))}
    assert set(files_sent(folder, IGNORE)) == alone | below


def test_nothing_is_copied_that_does_not_get_there() -> None:
    build = read_dockerfile((TOP / "Dockerfile").read_text()).stages[0]
    sources = [path for one in named(build, "COPY") for path in one.arguments[:-1]]
    assert sources
    for source in sources:
        files = [path for path in project_files() if (TOP / source) in (path, *path.parents)]
        assert any(is_sent(path.relative_to(TOP).as_posix(), IGNORE) for path in files), source


def test_no_file_that_gets_there_holds_credentials(folder: Path) -> None:
    texts = {
        name: (folder / name).read_bytes().decode(errors="replace") for name in files_sent(folder, IGNORE)
    }
    assert [f"{name}: {what}" for name, text in texts.items() for what in credentials_in(name, text)] == []
    assert [name for name, text in texts.items() if PLANTED in text] == []


@pytest.mark.parametrize("path", STRAY)
def test_a_stray_file_stays_outside(path: str) -> None:
    assert not is_sent(path, IGNORE)
