"""The built page: it holds what is known, and nothing that a stranger wrote is ever more than text."""

from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from selectolax.lexbor import LexborHTMLParser

from onboarding.artefacts import Run, run_folder, write_bytes
from onboarding.build import Content, build_site, is_web_address
from onboarding.colours import accent, contrast_to_white
from onboarding.copywriting import Text, text_from_facts
from onboarding.facts import Facts, News, Offer
from onboarding.pictures import Seen, measure
from onboarding.site import drawings

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"' onload='alert(3)' {{7*7}} &amp; ]]>"
)
FULL = Facts(
    name="Shop & Sons",
    description="We sell tea.",
    phone="+31 (0)20 555",
    email="a@b.test",
    address="1 Road",
    price_range="€€",
    theme_colour="#2d6a4f",
    language="nl",
    opening_hours=("Mo 9-5", "Tu 9-5"),
    links=("https://x.example/", "javascript:alert(1)"),
    offers=(Offer("Tea", "€3"), Offer("Free")),
    news=(News("News", "http://x.test/n", "2025-01-06"), News("Bad", "javascript:alert(1)")),
)


def pictures_in(run: Run, **painted: bytes) -> list[Seen]:
    for name, content in painted.items():
        write_bytes(run.pictures / name, content)
    return [measure(Seen(url=f"u/{name}", alt=f"alt of {name}", file=name), run) for name in painted]


def build(
    folder: Path, facts: Facts, *, text: Text | None = None, pictures: list[Seen] | None = None
) -> LexborHTMLParser:
    run = run_folder(folder, "shop", "r1")
    content = Content(
        facts=facts,
        text=text or text_from_facts(facts),
        pictures=pictures or [],
        public_url="https://sites.example/shop/",
    )
    build_site(run, content, lambda percent, message: None)
    return LexborHTMLParser((run.site / "index.html").read_text(encoding="utf-8"))


def attributes(page: LexborHTMLParser, name: str) -> list[str]:
    return [node.attributes.get(name) or "" for node in page.css(f"[{name}]")]


def test_the_page_holds_what_is_known(tmp_path: Path) -> None:
    page = build(tmp_path, FULL)
    shown = page.body.text(separator=" ") if page.body else ""

    for part in ("Shop & Sons", "We sell tea.", "1 Road", "Tu 9-5", "€€", "Tea", "€3", "News", "2025-01-06"):
        assert part in shown
    assert attributes(page, "lang") == ["nl"]
    assert {"tel:+31020555", "mailto:a@b.test", "https://x.example/", "http://x.test/n"} <= set(
        attributes(page, "href")
    )


def test_what_is_not_known_leaves_no_empty_section(tmp_path: Path) -> None:
    headings = {
        name: build(tmp_path, facts).css("h2")
        for name, facts in {"few": Facts(name="x"), "full": FULL}.items()
    }

    assert [heading.text() for heading in headings["few"]] == []
    assert [heading.text() for heading in headings["full"]] == ["What there is", "News", "Come by"]


def test_the_pages_own_structured_data_can_be_read(tmp_path: Path) -> None:
    page = build(tmp_path, FULL)
    (block,) = page.css("script")
    place = json.loads(block.text())

    assert block.attributes["type"] == "application/ld+json"
    assert (place["name"], place["openingHours"]) == ("Shop & Sons", ["Mo 9-5", "Tu 9-5"])
    assert place["sameAs"] == ["https://x.example/"]


def assert_harmless(page: LexborHTMLParser) -> None:
    """Nothing on the page runs, and everything it loads is its own."""
    assert [script.attributes.get("type") for script in page.css("script")] == ["application/ld+json"]
    json.loads(page.css("script")[0].text())
    names = {name for node in page.css("*") for name in node.attributes}
    assert not {name for name in names if name.startswith("on")}
    assert "style" not in names
    schemes = {reference.partition(":")[0] for reference in attributes(page, "href") if ":" in reference}
    assert schemes <= {"http", "https", "mailto", "tel"}
    loaded = attributes(page, "src") + [
        link.attributes["href"] or "" for link in page.css("link[rel=stylesheet]")
    ]
    assert all(":" not in reference and not reference.startswith("//") for reference in loaded)
    assert not page.css("iframe, object, embed, base, form, meta[http-equiv=refresh]")


def test_markup_from_strangers_is_only_ever_text(tmp_path: Path) -> None:
    facts = Facts(
        name=HOSTILE,
        description=HOSTILE,
        phone=HOSTILE,
        email='a@b.test"onclick="alert(1)',
        address=HOSTILE,
        price_range=HOSTILE,
        theme_colour="red;}body{background:url(//evil.example)",
        language='en" onload="alert(1)',
        opening_hours=(HOSTILE,),
        links=("javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "//evil.example", HOSTILE),
        offers=(Offer(HOSTILE, HOSTILE),),
        news=(News(HOSTILE, "javascript:alert(1)", HOSTILE),),
    )
    run = run_folder(tmp_path, "shop", "r1")
    (seen,) = pictures_in(run, photo=drawings.crumb())
    text = Text(headline=HOSTILE, description=HOSTILE, highlights=(HOSTILE,), source="provider")
    page = build(
        tmp_path, facts, text=text, pictures=[Seen(url="u", alt=HOSTILE, file=seen.file, facts=seen.facts)]
    )

    assert_harmless(page)
    assert [heading.text() for heading in page.css("h1")] == [HOSTILE], "the braces are no template, either"
    style = (run.site / "style.css").read_text()
    assert "evil" not in style
    assert "red" not in style.partition("}")[0]
    ElementTree.parse(run.site / "icon.svg")
    ElementTree.parse(run.site / "sitemap.xml")


ugly = st.text(max_size=20) | st.just(HOSTILE)


@settings(max_examples=50, deadline=None)
@given(
    facts=st.builds(
        Facts,
        name=ugly,
        phone=ugly,
        email=ugly,
        theme_colour=ugly,
        language=ugly,
        links=st.lists(ugly, max_size=2).map(tuple),
        offers=st.lists(st.builds(Offer, ugly, ugly), max_size=2).map(tuple),
        news=st.lists(st.builds(News, ugly, ugly, ugly), max_size=2).map(tuple),
    )
)
def test_no_text_at_all_makes_the_page_run_anything(tmp_path_factory: object, facts: Facts) -> None:
    folder = tmp_path_factory.mktemp("built")  # type: ignore[attr-defined]

    assert_harmless(build(folder, facts))


def test_pictures_are_turned_reduced_and_stripped(tmp_path: Path) -> None:
    run = run_folder(tmp_path, "shop", "r1")
    page = build(tmp_path, FULL, pictures=pictures_in(run, bike=drawings.gravel_bike(), torn=drawings.torn()))

    assert [path.name for path in sorted((run.site / "pictures").iterdir())] == ["01-wide.jpg", "01.jpg"]
    with Image.open(run.site / "pictures" / "01.jpg") as narrow:
        assert narrow.size == (640, 427)
        assert dict(narrow.getexif()) == {}
    (hero,) = page.css(".hero img")
    assert (hero.attributes["width"], hero.attributes["height"]) == ("960", "640")
    assert hero.attributes["alt"] == "alt of bike"


def test_metadata_of_a_photograph_is_not_published(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif.get_ifd(0x8825)[2] = (52.0, 22.0, 0.0)
    exif[0x010E] = "secret description"
    output = io.BytesIO()
    Image.new("RGB", (64, 64)).save(output, "JPEG", exif=exif, comment=b"secret comment")
    run = run_folder(tmp_path, "shop", "r1")

    build(tmp_path, FULL, pictures=pictures_in(run, photo=output.getvalue()))

    for path in (run.site / "pictures").iterdir():
        assert b"secret" not in path.read_bytes()


def test_building_twice_gives_the_same_site(tmp_path: Path) -> None:
    run = run_folder(tmp_path, "shop", "r1")
    pictures = pictures_in(run, a=drawings.crumb(), b=drawings.loaves())

    def contents() -> dict[str, bytes]:
        build(tmp_path, FULL, pictures=pictures)
        files = (path for path in run.site.rglob("*") if path.is_file())
        return {str(path.relative_to(run.site)): path.read_bytes() for path in files}

    assert contents() == contents()


def test_only_the_web_is_a_web_address() -> None:
    assert is_web_address("https://x.example/a")
    for text in ("", "x", "//x.example", "javascript:alert(1)", "http://", "http://[", "mailto:a@b.test"):
        assert not is_web_address(text)


def test_the_accent_is_the_places_own_and_readable() -> None:
    assert accent("#2d6a4f", []) == "#2d6a4f"
    assert accent("", ["#ffffff", "#808080", "#c0392b"]) == "#c0392b"
    assert accent("", []) == "#3a5a78"


@given(st.from_regex(r"#[0-9a-f]{6}", fullmatch=True))
def test_white_text_is_readable_on_any_accent(colour: str) -> None:
    assert contrast_to_white(accent(colour, [])) >= 4.5
