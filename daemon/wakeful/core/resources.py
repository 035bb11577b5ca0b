"""Finds the files that live beside the source root in a checkout and inside the package in a wheel.

`schema.sql`, `config.toml` and `examples/` have one copy, at the top of the source tree; the build puts them into the
wheel. The package's own folder is asked first, then the checkout that it lies in. A path from here exists, or the
caller is told that the installation is broken. What the files mean is for others.
"""

from __future__ import annotations

from pathlib import Path

_CHECKOUT_MARK = "pyproject.toml"


def schema_sql() -> str:
    """Give the text of `schema.sql`: the whole schema of a fresh installation."""
    return _find("schema.sql").read_text(encoding="utf-8")


def config_toml() -> str:
    """Give the text of `config.toml`, which lists every setting at its default."""
    return _find("config.toml").read_text(encoding="utf-8")


def examples_folder() -> Path:
    """Give the folder that holds the examples' packages, such as `onboarding`: put it on `sys.path` to import them."""
    return _find("examples")


def checkout() -> Path | None:
    """Give the top folder of the source tree that this package runs from, or None where it is installed."""
    top = _package().parent.parent
    return top if (top / _CHECKOUT_MARK).is_file() and (top / "daemon" / "wakeful").is_dir() else None


def _package() -> Path:
    return Path(__file__).resolve().parent.parent


def _find(name: str) -> Path:
    inside = _package() / name
    if inside.exists():
        return inside
    top = checkout()
    if top is not None and (top / name).exists():
        return top / name
    raise FileNotFoundError(
        f"{name} is missing beside {_package()}: the installation of wakeful is broken; install it again"
    )
