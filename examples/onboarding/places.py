"""The places that the demo onboards, and how any other site becomes one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onboarding.artefacts import folder_name
from onboarding.crawl.urls import parse_site


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place to onboard; `about` tells a person what is to be seen on its site."""

    place_id: str
    name: str
    url: str
    about: str

    @property
    def payload(self) -> dict[str, object]:
        """The payload of its COLLECT job."""
        return {"place_id": self.place_id, "url": self.url}

    @property
    def dedupe_key(self) -> str:
        """One COLLECT of a place at a time is enough."""
        return f"collect:{self.place_id}"


PLACES: Final[tuple[Place, ...]] = (
    Place(
        place_id="corner-bakery",
        name="The Corner Bakery",
        url="http://corner-bakery.test/",
        about="a site in good order: every channel gives something",
    ),
    Place(
        place_id="spoke-and-chain",
        name="Spoke & Chain",
        url="http://spoke-and-chain.test/",
        about="microdata, an Atom feed, a turned photograph and an animation",
    ),
    Place(
        place_id="lantern-books",
        name="Lantern Books",
        url="http://lantern-books.test/",
        about="markup in its texts, broken pictures, neither robots.txt nor feed",
    ),
    Place(
        place_id="crooked-teapot",
        name="The Crooked Teapot",
        url="http://crooked-teapot.test/",
        about="a channel for each kind of failure, and DONE all the same",
    ),
)

UNHANDLED_TYPE: Final = "AI_CHECK"
"""A job type that no handler serves: enqueued to show that it fails loudly."""


def place_for(url: str) -> Place:
    """A place for any site, named after its host. Raises ValueError with a reason when `url` is no site's address."""
    site = parse_site(url)
    host = (site.host or "").removeprefix("www.")
    return Place(
        place_id=folder_name(host.replace(".", "-")), name=host, url=str(site), about="a site of your choice"
    )
