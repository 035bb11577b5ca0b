"""What is installed is pinned, checked by hash and known, as far as that can be seen without a network."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata

import pytest

from support.sources import TOP

LOCKS = ["requirements.lock", "requirements-dev.lock"]
PAGE = (TOP / "docs" / "dependencies.md").read_text(encoding="utf-8")
PERMISSIVE = ("MIT", "Apache", "BSD", "PSF", "Python Software Foundation", "MPL", "Mozilla Public", "AFL")


def pins(lock: str) -> list[tuple[str, str, list[str]]]:
    """Name, version and hashes of each pin of a lock file."""
    text = (TOP / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    found = [(re.match(r"([a-z0-9._-]+)==(\S+)", line), line) for line in lines]
    assert all(match for match, _ in found), "a line that pins nothing"
    return [(match[1], match[2], re.findall(r"--hash=(\S+)", line)) for match, line in found if match]


def licence_of(name: str) -> str:
    """What a package says of its licence, in any of the three places where it may."""
    said = [one for key in ("License-Expression", "License") for one in metadata(name).get_all(key) or []]
    classifiers = [one for one in metadata(name).get_all("Classifier") or [] if one.startswith("License")]
    return " ".join([*(one[:80] for one in said), *classifiers])


@pytest.mark.parametrize("lock", LOCKS)
def test_every_version_is_pinned_once_and_every_file_by_its_hash(lock: str) -> None:
    found = pins(lock)

    assert len(found) > 20
    assert len({name for name, _, _ in found}) == len(found)
    for name, version, hashes in found:
        assert hashes, name
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes), name
        assert re.fullmatch(r"[0-9][0-9a-z.]*", version), f"{name} {version}"
        if not name.startswith("opentelemetry-"):  # what the tests need of it is released as betas only
            assert not re.search(r"(a|b|rc|\.dev)\d*$", version), f"{name} {version} is no release"


def test_both_lock_files_agree() -> None:
    shipped, developed = ({name: version for name, version, _ in pins(lock)} for lock in LOCKS)

    assert {name: developed.get(name, version) for name, version in shipped.items()} == shipped


@pytest.mark.parametrize("lock", LOCKS)
def test_nothing_is_installed_from_an_address_or_without_its_version(lock: str) -> None:
    text = (TOP / lock).read_text(encoding="utf-8")

    assert not re.search(r"://|^-|^\s*(--index|--extra-index|--find-links|--trusted)", text, re.MULTILINE)


def test_each_dependency_is_listed_with_its_reason_and_licence() -> None:
    for name, _, _ in pins("requirements.lock"):
        assert re.search(rf"\b{re.escape(name)}\b", PAGE), f"{name} is not on docs/dependencies.md"
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [
        one
        for extra in ("embedded", "apprise", "demo", "otel", "uvloop")
        for one in project["optional-dependencies"][extra]
    ]
    for wanted in [*project["dependencies"], *extras]:
        name = re.split(r"[<>=\[]", wanted)[0]
        if name != "wakeful":
            assert re.search(rf"^\| {name} \| .+ \| .+ \|$", PAGE, re.MULTILINE), f"{name} has no row"


@pytest.mark.parametrize(("lock", "allowed"), [(LOCKS[0], PERMISSIVE), (LOCKS[1], (*PERMISSIVE, "LGPL"))])
def test_every_licence_is_one_that_lets_others_use_this(lock: str, allowed: tuple[str, ...]) -> None:
    """A tool of the tests alone may be under the LGPL: nothing of it is shipped."""
    for name, _, _ in pins(lock):
        try:
            said = licence_of(name)
        except PackageNotFoundError:
            continue  # for another platform, or an extra that is not installed here
        assert any(known in said for known in allowed), f"{name}: {said}"
