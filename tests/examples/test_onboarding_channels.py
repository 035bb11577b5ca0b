"""The parsing halves of the channels: what each form of markup gives, and that no bytes at all are a crash."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from xml.etree.ElementTree import tostring

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from onboarding.crawl import page as html
from onboarding.crawl import urls
from onboarding.crawl.channels import contact, feed, manifest, menu, pages, sitemap, social, structured
from onboarding.crawl.fetch import Reply
from onboarding.crawl.page import Page, read_page
from onboarding.crawl.trouble import ChannelTrouble
from onboarding.crawl.xmltext import parse_xml
from onboarding.facts import Facts, News, Offer, Picture

BASE = URL("http://shop.test/dir/page")


def reply(body: bytes | str, content_type: str = "text/html", charset: str | None = None) -> Reply:
    content = body.encode() if isinstance(body, str) else body
    return Reply(url=BASE, content_type=content_type, charset=charset, body=content)


def read(markup: str) -> Page:
    return read_page(reply(markup))


def bad_markup(text: str) -> pytest.RaisesExc[ChannelTrouble]:
    return pytest.raises(ChannelTrouble, match=f"^bad_markup: {text}")


def tolerate(parse: Callable[[], object]) -> None:
    """Parsing may end well or as bad markup, and in no other way."""
    with suppress(ChannelTrouble):
        parse()


# --- addresses


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must begin with http"),
        ("shop.example", "must begin with http"),
        ("ftp://shop.example/", "must begin with http"),
        ("http://", "must begin with http|can't be read"),
        ("http://[broken", "can't be read"),
        ("http://me:secret@shop.example/", "no user name or password"),
    ],
)
def test_what_is_no_address_of_a_site_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        urls.parse_site(text)


def test_references_become_addresses_or_nothing() -> None:
    def joined(reference: str) -> str | None:
        url = urls.join(BASE, reference)
        return None if url is None else str(url)

    assert joined("x#part") == "http://shop.test/dir/x"
    assert joined("//cdn.example/y") == "http://cdn.example/y"
    nothing = ("", "mailto:a@b", "javascript:alert(1)", "data:,x", "http://[", "http://u:p@h/", "x" * 3000)
    assert [joined(reference) for reference in nothing] == [None] * len(nothing)


def test_www_and_https_are_the_same_site_another_port_is_not() -> None:
    assert urls.same_site(URL("http://shop.test/"), URL("https://www.SHOP.test/x"))
    assert not urls.same_site(URL("http://shop.test/"), URL("http://shop.test:8080/"))
    assert not urls.same_site(URL("http://shop.test/"), URL("http://shop.test.evil.example/"))


# --- pages


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        ("<title>Käse</title>".encode(), None),
        ("<title>Käse</title>".encode("latin-1"), "iso-8859-1"),
        ('<meta charset="windows-1252"><title>Käse</title>'.encode("cp1252"), None),
        ("<title>Käse</title>".encode("utf-16"), "utf-8"),
        ("\ufeff<title>Käse</title>".encode(), "latin-1"),
        ("<title>Käse</title>".encode(), "no-such-charset"),
    ],
)
def test_the_encoding_is_found(body: bytes, charset: str | None) -> None:
    assert html.title(read_page(reply(body, charset=charset))) == "Käse"


def test_links_and_pictures_are_absolute_and_follow_the_base() -> None:
    page = read(
        '<base href="/shop/"><a href="a">A</a><a href="mailto:x@y.z">m</a><link rel="Alternate" type="Text/X" href="f">'
        '<img src="i.png" alt=" An  image "><img srcset="s.png 1x, l.png 2x" src="s.png">'
        '<img src="data:image/gif;base64,xx" data-src="lazy.jpg"><img>'
    )

    assert [(str(link.url), link.rel, link.type) for link in html.links(page)] == [
        ("http://shop.test/shop/a", "", ""),
        ("http://shop.test/shop/f", "alternate", "text/x"),
    ]
    assert list(html.pictures(page)) == [
        Picture("http://shop.test/shop/i.png", "An image"),
        Picture("http://shop.test/shop/l.png"),
        Picture("http://shop.test/shop/lazy.jpg"),
    ]


def test_the_pages_give_name_description_and_sections() -> None:
    home = read('<html lang="de"><title>T</title><meta name=description content="D"><h1>Name</h1>')
    about = read("<title>About</title><p>short<p>This paragraph is long enough to say something about it.")

    facts = pages.facts_of([home, about])

    assert (facts.name, facts.description, facts.language) == ("Name", "D", "de")
    assert [section.title for section in facts.sections] == ["Name", "About"]
    assert facts.sections[1].text.startswith("This paragraph")


# --- structured data


def place_of(markup: str) -> Facts:
    page = read(markup)
    nodes, _ = structured.json_nodes(list(html.scripts(page, "application/ld+json")))
    return structured.facts_of([(page, node) for node in (*nodes, *structured.microdata_nodes(page))])


def test_json_ld_gives_the_place_among_other_things() -> None:
    document = [
        {"@type": "WebSite", "name": "The site"},
        {
            "@graph": [
                {
                    "@type": "Cafe",
                    "name": {"@value": "Cafe Käse"},
                    "telephone": ["tel:+1", "+2"],
                    "email": "mailto:a@b.test",
                    "address": [{"streetAddress": "1 Road", "addressCountry": {"name": "NL"}}],
                    "openingHoursSpecification": {
                        "dayOfWeek": "https://schema.org/Monday",
                        "opens": 9,
                        "closes": "17",
                    },
                    "image": {"url": "/i.png"},
                    "makesOffer": {"price": 4.5, "priceCurrency": "EUR", "itemOffered": {"name": "Tea"}},
                    "sameAs": "https://x.example/",
                }
            ]
        },
    ]
    facts = place_of(f'<script type="application/ld+json; charset=utf-8">{json.dumps(document)}</script>')

    assert (facts.name, facts.phone, facts.email) == ("Cafe Käse", "+1", "a@b.test")
    assert (facts.address, facts.opening_hours) == ("1 Road, NL", ("Monday 9-17",))
    assert facts.pictures == (Picture("http://shop.test/i.png"),)
    assert facts.offers == (Offer("Tea", "4.5 EUR"),)
    assert facts.links == ("https://x.example/",)


def test_microdata_gives_the_same() -> None:
    facts = place_of(
        '<div itemscope itemtype="http://schema.org/Store"><b itemprop=name>Shop</b>'
        '<a itemprop=telephone href="tel:1">x</a>'
        "<p itemprop=address itemscope itemtype=http://schema.org/PostalAddress><i itemprop=streetAddress>2 Way</i></p>"
        '<time itemprop=openingHours datetime="Mo 9-5">m</time><time itemprop=openingHours datetime="Tu 9-5">t</time>'
    )

    assert (facts.name, facts.phone, facts.address) == ("Shop", "1", "2 Way")
    assert facts.opening_hours == ("Mo 9-5", "Tu 9-5")


def test_a_block_that_is_no_json_is_named_and_the_others_are_read() -> None:
    nodes, mistakes = structured.json_nodes(['{"name": "a"}', "{broken", "[" * 100_000])

    assert [node["name"] for node in nodes] == ["a"]
    assert len(mistakes) == 2
    assert all(mistake.startswith("the JSON-LD is no JSON: ") for mistake in mistakes)


known_names = st.sampled_from(
    ["@graph", "@type", "@value", "name", "address", "telephone", "openingHours", "image", "url", "offers"]
) | st.sampled_from(
    ["openingHoursSpecification", "dayOfWeek", "opens", "closes", "makesOffer", "price", "sameAs"]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(known_names, children, max_size=6),
    max_leaves=20,
)


@given(json_values)
def test_json_of_any_shape_is_no_crash(value: object) -> None:
    nodes, _ = structured.json_nodes([json.dumps(value)])

    if nodes:
        structured.facts_of([(read(""), node) for node in nodes])


# --- sharing tags, contact, vCard


def test_sharing_tags() -> None:
    facts = social.facts_of(
        read('<meta property="og:site_name" content="S"><meta name="twitter:description" content="D">'
             '<meta property="OG:image" content="/o.png">')
    )  # fmt: skip

    assert (facts.name, facts.description) == ("S", "D")
    assert facts.pictures == (Picture("http://shop.test/o.png"),)


def test_a_contact_page() -> None:
    facts = contact.page_facts(
        read(
            '<address>1 Road,<br>Town</address><a href="TEL:+31 1">x</a><a href="mailto:a@b.test?subject=Hi">m</a>'
        )
    )

    assert (facts.phone, facts.email, facts.address) == ("+31 1", "a@b.test", "1 Road, Town")


def test_a_vcard_with_folded_lines_groups_and_escapes() -> None:
    card = (
        "BEGIN:VCARD\r\nVERSION:3.0\r\nitem1.TEL;TYPE=cell:+1 2\r\nTEL:+9\r\nFN:Tea\\, Cake & Co\r\n"
        "ADR:;;1 Long R\r\n oad;Town;;;NL\r\nEMAIL:a@b.test\r\nnonsense\r\nEND:VCARD"
    )
    facts = contact.card_facts(card)

    assert (facts.name, facts.phone, facts.email) == ("Tea, Cake & Co", "+1 2", "a@b.test")
    assert facts.address == "1 Long Road, Town, NL"


def test_what_is_no_vcard_is_bad_markup() -> None:
    with bad_markup("the vCard"):
        contact.card_facts("<html>not found</html>")


# --- feeds, sitemaps, XML


def test_rss_and_atom_entries() -> None:
    rss = (
        b"<rss><channel><item><title>A &amp; B</title><link>/a</link><pubDate>Mon, 06 Jan 2025 05:00:00 GMT</pubDate>"
        b"</item><item><title>C</title><pubDate>next week</pubDate></item></channel></rss>"
    )
    atom = (
        b'<feed xmlns="http://www.w3.org/2005/Atom"><entry><title>D</title><link href="http://x.test/d"/>'
        b"<updated>2025-02-01T09:00:00Z</updated></entry></feed>"
    )

    assert feed.entries(parse_xml(rss), BASE) == (
        News("A & B", "http://shop.test/a", "2025-01-06"),
        News("C", "", "next week"),
    )
    assert feed.entries(parse_xml(atom), BASE) == (News("D", "http://x.test/d", "2025-02-01"),)


def test_a_page_in_place_of_a_feed_or_sitemap_is_bad_markup() -> None:
    with bad_markup("the feed is a <html>"):
        feed.entries(parse_xml(b"<html/>"), BASE)
    with bad_markup("the sitemap is a <html>"):
        sitemap.entries(parse_xml(b"<html/>"))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<rss>",
        b"<rss/>x",
        b"<p>&nbsp;</p>",
        b"\x00",
        b"\xff\xfe<",
        b'<?xml version="1.0" encoding="no-such"?><a/>',
        b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>',
        b'<!DOCTYPE a [<!ENTITY x "xx"><!ENTITY y "&x;&x;">]><a>&y;</a>',
        '<!DOCTYPE a [<!ENTITY x "x">]><a>&x;</a>'.encode("utf-16"),
        b"<a>" * 200 + b"</a>" * 200,
    ],
)
def test_xml_that_is_broken_or_dangerous_is_bad_markup(body: bytes) -> None:
    with bad_markup("the XML"):
        parse_xml(body)


@given(st.binary(max_size=200))
def test_no_bytes_are_a_crash_as_xml(body: bytes) -> None:
    tolerate(lambda: tostring(parse_xml(body)))


def test_a_packed_sitemap_is_unpacked_up_to_its_limit() -> None:
    packed = gzip.compress(b"<urlset/>" + b" " * 10_000)

    assert sitemap.unpack(packed, 20_000).startswith(b"<urlset/>")
    with pytest.raises(ChannelTrouble, match="too_large"):
        sitemap.unpack(packed, 500)
    with bad_markup("the sitemap is no gzip"):
        sitemap.unpack(b"\x1f\x8bnonsense", 500)


# --- menus and manifests


def test_menus_in_three_forms() -> None:
    wanted = [Offer("Tea", "3"), Offer("Cake", "")]
    documents = (
        reply("Item , Price\nTea,3\nCake\n,7\n", "text/csv"),
        reply('[{"name": "Tea", "price": 3}, {"Title": "Cake"}, 7]', "application/json"),
    )
    table = reply("<table><tr><th>a<th>1<tr><td>Tea<td>now 3<tr><td>Only<td>words<tr><td>x</table>")

    assert [list(menu.read_offers(document)) for document in documents] == [wanted, wanted]
    assert list(menu.read_offers(table)) == [Offer("Tea", "now 3")]


def test_menus_that_can_not_be_read_are_bad_markup() -> None:
    with bad_markup("the price list is no JSON"):
        list(menu.read_offers(reply("{", "application/json")))
    with bad_markup("the price list is no CSV"):
        list(menu.read_offers(reply("name,price\n" + "x" * 200_000, "text/csv")))


def test_a_manifest() -> None:
    facts = manifest.manifest_facts('{"short_name": "S", "theme_color": "#ABCDEF"}')
    odd = manifest.manifest_facts('{"name": 7, "theme_color": "red;} body{"}')

    assert (facts.name, facts.theme_colour) == ("S", "#abcdef")
    assert (odd.name, odd.theme_colour) == ("7", "")
    with bad_markup("the manifest is no JSON"):
        manifest.manifest_facts("[")
    with bad_markup("the manifest is no JSON object"):
        manifest.manifest_facts("[]")


# --- anything at all

fragments = st.sampled_from(
    ["<a href='", "http://[", "<img srcset='", "<base href='::'>", "'>", "<script type='application/ld+json'>", "{}",
     "</script>", "<div itemscope itemtype='x/y'>", "<b itemprop='name'>", "<meta property='og:a' content='", "\x00",
     "<p>", "<table><tr><td>", "<svg>", "<template>", "<!--", "\ud7ff", "mailto:", ",", " "]
)  # fmt: skip


@given(st.lists(fragments | st.text(max_size=8), max_size=25).map("".join))
def test_no_markup_is_a_crash_as_a_page(markup: str) -> None:
    page = read(markup)

    list(html.links(page)), list(html.pictures(page))
    pages.facts_of([page])
    social.facts_of(page)
    contact.page_facts(page)
    nodes, _ = structured.json_nodes(list(html.scripts(page, "application/ld+json")))
    found = [*nodes, *structured.microdata_nodes(page)]
    if found:
        structured.facts_of([(page, node) for node in found])


@given(st.binary(max_size=120), st.sampled_from(["text/csv", "application/json", "text/html"]))
def test_no_bytes_are_a_crash_as_a_menu(body: bytes, content_type: str) -> None:
    tolerate(lambda: list(menu.read_offers(reply(body, content_type))))


@given(st.text(max_size=120))
def test_no_text_is_a_crash_as_a_card_or_manifest(text: str) -> None:
    tolerate(lambda: contact.card_facts(text))
    tolerate(lambda: manifest.manifest_facts(text))
