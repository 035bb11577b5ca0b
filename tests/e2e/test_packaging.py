"""The wheel: what is in it, what is not, and that it runs the demo in a fresh environment, far from the source."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from support.checkouts import copied_checkout
from support.secrets import credentials_in
from support.sources import TOP, project_files

PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copied = copied_checkout(tmp_path_factory.mktemp("source of") / "wakeful")
    # what must never be packed, though it lies about in the source folder
    (copied / ".env").write_text("DATABASE_URL=postgresql://wakeful:correct-horse@db/wakeful\n")
    (copied / "daemon" / "wakeful" / ".env").write_text("TOKEN=correct-horse\n")
    (copied / "examples" / "onboarding" / ".env").write_text("TOKEN=correct-horse\n")
    return copied


@pytest.fixture(scope="module")
def wheel(checkout: Path) -> Path:
    subprocess.run(
        [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "wheel",
            "--directory",
            str(checkout / "dist"),
        ],
        cwd=checkout,
        capture_output=True,
        check=True,
    )
    (built,) = (checkout / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fresh") / "an environment"
    venv.create(folder, with_pip=True)
    return folder


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_is_for_every_python_and_system(wheel: Path) -> None:
    assert wheel.name == f"wakeful-{PROJECT['version']}-py3-none-any.whl"


def test_the_wheel_holds_the_package_the_schema_the_settings_and_the_example(wheel: Path) -> None:
    packed = contents(wheel)
    for name in ("schema.sql", "config.toml"):
        assert packed[f"wakeful/{name}"] == (TOP / name).read_bytes()
    ours = {
        f"wakeful/{path.relative_to(root)}"
        for root in (TOP / "daemon" / "wakeful", TOP)
        for path in project_files()
        if path.is_relative_to(TOP / ("daemon" if root != TOP else "examples/onboarding"))
    }
    assert {name for name in packed if ".dist-info/" not in name} == ours | {
        "wakeful/schema.sql",
        "wakeful/config.toml",
    }
    assert "wakeful/py.typed" in packed


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    packed = contents(wheel)
    (name,) = (name for name in packed if name.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(packed[name].decode())
    assert (metadata["Name"], metadata["License-Expression"]) == ("wakeful", "Apache-2.0")
    assert metadata["Requires-Python"] == ">=3.11"
    assert {"demo", "dev", "embedded"} <= set(metadata.get_all("Provides-Extra", []))
    assert f"{name.partition('/')[0]}/licenses/LICENSE" in packed
    scripts = packed[name.replace("METADATA", "entry_points.txt")].decode()
    assert "wakeful = wakeful.__main__:main" in scripts


def test_the_wheel_needs_no_server_and_no_imaging_library_unless_asked(wheel: Path) -> None:
    packed = contents(wheel)
    (metadata,) = (text.decode() for name, text in packed.items() if name.endswith(".dist-info/METADATA"))
    always = re.findall(r"^Requires-Dist: ([\w-]+)(?!.*extra ==).*$", metadata, re.MULTILINE)
    assert sorted(always) == ["aiohttp", "aiosmtplib", "anyio", "asyncpg", "simplejson", "structlog"]


def test_the_wheel_holds_no_credentials(wheel: Path) -> None:
    packed = {name: content.decode(errors="replace") for name, content in contents(wheel).items()}
    assert [f"{name}: {what}" for name, text in packed.items() for what in credentials_in(name, text)] == []
    assert [name for name, text in packed.items() if "correct-horse" in text] == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("what", ["the wheel", "the source folder"])
def test_without_make_it_installs_and_runs_the_demo(
    what: str, checkout: Path, wheel: Path, environment: Path, tmp_path: Path
) -> None:
    """One after the other in one environment, since the libraries that they need take most of the time."""
    programs = environment / "bin"
    source = f"{wheel if what == 'the wheel' else '.'}[demo]"
    subprocess.run(
        [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", source],
        cwd=checkout,
        check=True,
    )
    away = tmp_path / "away"
    away.mkdir()
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WAKEFUL"))
    }
    demo = subprocess.run(
        [programs / "wakeful", "demo", "--once"],
        cwd=away,
        env={**inherited, "XDG_DATA_HOME": str(tmp_path / "data")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert (tmp_path / "data" / "wakeful" / "demo" / "cluster").is_dir()
    assert list(away.iterdir()) == []
    assert not list(tmp_path.glob("data/**/owner"))
