"""The files of the bundled sites: everything under `content/`, by place and path, plus the drawings.

Invariant: what can be served is listed beforehand, so no request path ever becomes a file path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from onboarding.site.drawings import DRAWINGS

_TYPES: Final[Mapping[str, str]] = {
    "html": "text/html",
    "txt": "text/plain; charset=utf-8",
    "xml": "application/xml",
    "rss": "application/rss+xml",
    "atom": "application/atom+xml",
    "css": "text/css",
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "vcf": "text/vcard; charset=utf-8",
    "webmanifest": "application/manifest+json",
}


@dataclass(frozen=True, slots=True)
class Document:
    """What one address answers; `read` gives the bytes."""

    content_type: str
    read: Callable[[], bytes]


def documents() -> Mapping[tuple[str, str], Document]:
    """Every document, by (place, path). A page `bread.html` answers at `/bread`, `index.html` at `/`."""
    content = files("onboarding.site") / "content"
    found: dict[tuple[str, str], Document] = {}
    for folder in content.iterdir():
        if folder.is_dir():
            found[folder.name, "/style.css"] = _document(content / "style.css")
            found.update({(folder.name, _path(file.name)): _document(file) for file in _sorted(folder)})
    found.update({key: Document(kind, paint) for key, (kind, paint) in DRAWINGS.items()})
    return found


def _sorted(folder: Traversable) -> Iterator[Traversable]:
    yield from sorted(folder.iterdir(), key=lambda entry: entry.name)


def _document(file: Traversable) -> Document:
    return Document(_TYPES[file.name.rpartition(".")[2]], partial(_read, file))


def _read(file: Traversable) -> bytes:
    return file.read_bytes()


def _path(name: str) -> str:
    return "/" if name == "index.html" else f"/{name.removesuffix('.html')}"
