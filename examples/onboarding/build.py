"""BUILD's work: a small static site out of facts, pictures and text.

Invariant: every text comes from strangers, so the templates escape all of it, links lead to http, https, mailto or tel
only, and the pages run no script and load nothing from elsewhere (a content security policy says so as well). Pictures
are encoded anew, which drops whatever else their files held, such as the place where a photograph was taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from yarl import URL

from onboarding.artefacts import Run, new_folder
from onboarding.colours import accent
from onboarding.copywriting import Text
from onboarding.facts import Facts, Offer
from onboarding.pictures import Seen, best_first
from onboarding.vision import upright_copy

WIDE: Final = (1280, 960)
NARROW: Final = (640, 640)
MOST_PICTURES: Final = 9
MOST_OFFERS: Final = 24
_PHONE: Final = re.compile(r"[^0-9+]")
_MAIL: Final = re.compile(r"[^@\s<>\"',;:()]+@[^@\s<>\"',;:()]+\.[^@\s<>\"',;:()]+")

Report = Callable[[float, str], object]
"""Told how far the pictures are: percent and a line for people. May raise to stop the work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A picture of the page: file names within the site, size of the wide one in pixels."""

    wide: str
    narrow: str
    width: int
    height: int
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a place's page is made of."""

    facts: Facts
    text: Text
    pictures: list[Seen]
    public_url: str


def build_site(run: Run, content: Content, report: Report) -> list[str]:
    """Build the run's site in its folder and give its files. Building twice gives the same site."""
    with new_folder(run.site) as folder:
        shown = _write_pictures(
            run, folder, pictures=best_first(content.pictures)[:MOST_PICTURES], report=report
        )
        _write_pages(folder, content, shown)
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _write_pictures(run: Run, folder: Path, *, pictures: list[Seen], report: Report) -> list[Shown]:
    (folder / "pictures").mkdir()
    shown: list[Shown] = []
    for number, seen in enumerate(pictures, start=1):
        report(100.0 * (number - 1) / len(pictures), f"picture {number} of {len(pictures)}")
        shown.extend(_write_picture(run.pictures / seen.file, folder, number=number, caption=seen.caption))
    return shown


def _write_picture(source: Path, folder: Path, *, number: int, caption: str) -> list[Shown]:
    wide = upright_copy(source, WIDE)
    narrow = upright_copy(source, NARROW)
    if wide is None or narrow is None:
        return []
    names = f"pictures/{number:02}-wide.jpg", f"pictures/{number:02}.jpg"
    for image, name in zip((wide, narrow), names, strict=True):
        image.save(folder / name, "JPEG", quality=84, optimize=True, progressive=True)
    return [Shown(wide=names[0], narrow=names[1], width=wide.width, height=wide.height, caption=caption)]


def _write_pages(folder: Path, content: Content, shown: list[Shown]) -> None:
    environment = Environment(
        loader=PackageLoader("onboarding", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    facts = content.facts
    values = {
        "facts": facts,
        "text": content.text,
        "pictures": shown,
        "offers": facts.offers[:MOST_OFFERS],
        "links": [link for link in facts.links if is_web_address(link)],
        "news": [(entry, entry.url if is_web_address(entry.url) else "") for entry in facts.news[:6]],
        "phone": _PHONE.sub("", facts.phone),
        "mail": facts.email if _MAIL.fullmatch(facts.email) else "",
        "accent": accent(
            facts.theme_colour, (colour.hex for seen in content.pictures for colour in seen.facts.colours)
        ),
        "name": facts.name or content.text.headline,
        "public_url": content.public_url,
        "json_ld": json_ld(facts, content),
    }
    for page in ("index.html", "style.css", "icon.svg", "sitemap.xml", "robots.txt"):
        rendered = environment.get_template(f"{page}.jinja").render(values)
        (folder / page).write_text(rendered, encoding="utf-8")


def json_ld(facts: Facts, content: Content) -> dict[str, object]:
    """The place in schema.org's terms, for the page's own structured data."""
    known: dict[str, object] = {
        "name": facts.name,
        "description": content.text.description,
        "telephone": facts.phone,
        "email": facts.email,
        "address": facts.address,
        "priceRange": facts.price_range,
        "openingHours": list(facts.opening_hours),
        "makesOffer": [_offer(offer) for offer in facts.offers[:MOST_OFFERS]],
        "sameAs": [link for link in facts.links if is_web_address(link)],
    }
    place = {name: value for name, value in known.items() if value}
    return {"@context": "https://schema.org", "@type": "LocalBusiness", "url": content.public_url, **place}


def is_web_address(text: str) -> bool:
    """Whether a link may lead there: `javascript:` and its like may not."""
    try:
        return URL(text).scheme in ("http", "https") and bool(URL(text).host)
    except ValueError:
        return False


def _offer(offer: Offer) -> dict[str, object]:
    return {"@type": "Offer", "name": offer.name, "description": offer.price}
