"""Signed links: good for what they were made for, for a while, and for nothing else; and which links a message has."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.config import current_signing, effective, hidden_in, load
from wakeful.core.alert_settings import AlertSettings
from wakeful.core.links import Purpose, Signing, keys_in, missing_for_links
from wakeful.core.settings import HttpSettings, Settings
from wakeful.errors import ConfigError
from wakeful.outbox.cards.plain import plain_message
from wakeful.outbox.links import links_of, links_of_digest
from wakeful.store.alerts import Looked

KEY, OTHER = "k" * 32, "o" * 40
NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
LATER = int(NOW.timestamp()) + 3600
PUBLIC = "https://wakeful.example.com/ops"
SETTINGS = AlertSettings(public_url=PUBLIC + "/", link_key=KEY, environment="production")
LOOKED = Looked(
    alert_id=7,
    dedupe_key="job_dead:COLLECT:PlaceGone",
    kind="job_dead",
    job_type="COLLECT",
    fingerprint=None,
    title="COLLECT died",
    severity="error",
    subject=None,
    job_id=UUID("01980f3e-7a10-7cc0-b1f0-3d0c5a4f9e21"),
    occurrences=1,
    first_seen=NOW,
    last_seen=NOW,
    lasting=False,
    state="open",
    opened_at=NOW,
    resolved_at=None,
    resolved_reason=None,
    queue=None,
    job_owner=None,
    muted_until=None,
    now=NOW,
)
PURPOSES: tuple[Purpose, ...] = ("alert", "job", "mute", "acknowledge")
purposes, ids = st.sampled_from(PURPOSES), st.text("0123456789abcdef-", min_size=1, max_size=36)


def signing(*keys: str, installation: str = "production") -> Signing:
    return Signing(keys=tuple(key.encode() for key in keys), installation=installation)


@given(purposes, ids, st.integers(1, 10**11))
def test_a_token_is_good_for_its_purpose_and_id_until_its_time(
    purpose: Purpose, of: str, expires: int
) -> None:
    ours = signing(KEY)
    token = ours.token(purpose, of, expires=expires)

    assert token == ours.token(purpose, of, expires=expires)
    assert ours.judge(token, purpose, of, now=expires - 0.001) == "good"
    assert ours.judge(token, purpose, of, now=expires) == "expired"


@given(st.data(), purposes, ids)
def test_with_any_bit_changed_it_is_forged(data: st.DataObject, purpose: Purpose, of: str) -> None:
    ours = signing(KEY)
    token = ours.token(purpose, of, expires=LATER)
    at = data.draw(st.integers(0, len(token) - 1))
    bit = data.draw(st.integers(0, 7))
    changed = token[:at] + chr(ord(token[at]) ^ (1 << bit)) + token[at + 1 :]

    assert ours.judge(changed, purpose, of, now=NOW.timestamp()) == "forged"


@pytest.mark.parametrize("last", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=")
def test_the_last_character_has_no_spare_bits(last: str) -> None:
    """32 bytes are 43 characters with two bits to spare: four texts that a decoder would take for the same."""
    token = signing(KEY).token("mute", "7", expires=LATER)
    verdict = signing(KEY).judge(token[:-1] + last, "mute", "7", now=0)

    assert (verdict == "good") == (last == token[-1])


@given(
    st.text() | st.from_regex(r"[0-9]{1,14}\.[A-Za-z0-9_-]{0,60}", fullmatch=True) | st.just("1." + "é" * 43)
)
def test_whatever_else_is_given_is_forged_and_raises_nothing(text: str) -> None:
    assert signing(KEY, OTHER).judge(text, "mute", "7", now=0) == "forged"


def test_a_token_of_another_purpose_id_installation_or_key_is_forged() -> None:
    token = signing(KEY).token("alert", "7", expires=LATER)
    tries: list[tuple[Signing, Purpose, str]] = [
        (signing(KEY), "mute", "7"),
        (signing(KEY), "job", "7"),
        (signing(KEY), "alert", "8"),
        (signing(KEY), "alert", "07"),
        (signing(KEY, installation="staging"), "alert", "7"),
        (signing(OTHER), "alert", "7"),
        (signing(), "alert", "7"),
    ]

    assert {one.judge(token, purpose, of, now=0) for one, purpose, of in tries} == {"forged"}


@given(
    st.lists(st.text(max_size=4), min_size=3, max_size=3),
    st.lists(st.text(max_size=4), min_size=3, max_size=3),
)
def test_no_two_things_have_one_token(first: list[str], second: list[str]) -> None:
    tokens = {
        signing(KEY, installation=parts[0]).token(parts[1], parts[2], expires=LATER)  # type: ignore[arg-type]
        for parts in (first, second)
    }

    assert len(tokens) == (1 if first == second else 2)


def test_while_a_key_is_changed_the_first_signs_and_all_are_good() -> None:
    before, during, after = signing(OTHER), signing(KEY, OTHER), signing(KEY)
    old, new = before.token("mute", "7", expires=LATER), during.token("mute", "7", expires=LATER)

    assert new == after.token("mute", "7", expires=LATER) != old
    assert during.judge(new, "mute", "7", now=0) == "good"
    assert [one.judge(old, "mute", "7", now=0) for one in (before, during, after)] == [
        "good",
        "good",
        "forged",
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [("short", "32 characters"), (f"{KEY} short", "32 characters"), (" ", "blank"), (f"{KEY} " * 6, "5")],
)
def test_a_key_that_can_not_be_used_is_told_at_the_start_and_not_shown(
    text: str, what: str, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_text(text if text.strip() else "short")
    for environ in ({"WAKEFUL__ALERTS__LINK_KEY": text}, {"WAKEFUL__ALERTS__LINK_KEY_FILE": str(file)}):
        with pytest.raises(ConfigError) as refused:
            load(environ=environ)
        (problem,) = refused.value.problems
        assert problem.startswith("alerts.link_key: ")
        assert what in problem or text == " "
        assert KEY not in problem and "short" not in problem
    with pytest.raises(ValueError, match=what):
        keys_in(text)


def test_keys_are_hidden_each_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n{OTHER}\n")
    settings = load(environ={"WAKEFUL__ALERTS__LINK_KEY_FILE": str(file)}).settings

    assert {KEY, OTHER} <= hidden_in(settings)
    assert current_signing(settings.alerts).keys == (KEY.encode(), OTHER.encode())
    file.write_text(OTHER)
    assert current_signing(settings.alerts).keys == (OTHER.encode(),)
    inline = load(environ={"WAKEFUL__ALERTS__LINK_KEY": KEY})
    shown = "".join(row.value for row in effective(inline.settings, inline.origins))
    assert KEY not in shown + repr(inline.settings) + repr(current_signing(inline.settings.alerts))


@pytest.mark.parametrize(
    "url",
    [
        *("https://a.example/?x=1", "https://a.example/#x", "https://user@a.example", "ftp://a.example"),
        *("https://a.example?", "https://a.example/#", "https://a.example:99999", "https://a b.example"),
        *("https://a.example/a b", " https://a.example", "https://a.example/\n", "https://a.example/<b>|x"),
    ],
)
def test_an_address_to_which_no_path_can_be_added_is_a_mistake(url: str) -> None:
    with pytest.raises(ConfigError, match=r"alerts\.public_url: "):
        load(environ={"WAKEFUL__ALERTS__PUBLIC_URL": url})


def test_what_is_missing_for_links_is_named() -> None:
    whole = Settings(alerts=SETTINGS)

    assert missing_for_links(whole) is None
    for changed, named in (
        (Settings(), "public_url"),
        (replace(whole, alerts=replace(SETTINGS, link_key=None)), "link_key"),
        (replace(whole, http=HttpSettings(enabled=False)), "http.enabled"),
    ):
        assert named in (missing_for_links(changed) or "")


def labels(message_type: str, looked: Looked = LOOKED, settings: AlertSettings = SETTINGS) -> list[str]:
    return [link["label"] for link in links_of(message_type, looked, settings)]


def test_a_message_offers_what_makes_sense_and_nothing_where_there_is_no_key() -> None:
    every = ["Open job", "Open group", "Acknowledge", "Mute an hour"]

    for kind in ("alert.opened", "alert.updated", "alert.reminder"):
        assert labels(kind) == every
    assert labels("alert.opened", replace(LOOKED, job_id=None)) == every[1:]
    assert labels("alert.updated", replace(LOOKED, state="acknowledged")) == [*every[:2], every[3]]
    assert labels("alert.resolved", replace(LOOKED, state="resolved")) == every[:2]
    assert labels("alert.test", replace(LOOKED, alert_id=0)) == ["Try a link"]
    for less in (
        replace(SETTINGS, link_key=None),
        replace(SETTINGS, public_url=None),
        replace(SETTINGS, link_key=None, link_key_file="/nowhere/at/all"),
    ):
        assert labels("alert.opened", settings=less) == []


def test_a_digest_leads_to_the_first_of_its_alerts() -> None:
    entries = [{"alert_id": n, "title": f"alert {n} " + "x" * 200} for n in range(7)]

    links = links_of_digest(entries, SETTINGS, NOW)

    assert [link["label"][:13] for link in links] == [f"Open: alert {n}" for n in range(4)]
    for n, link in enumerate(links):
        (token,) = parse_qs(urlsplit(link["url"]).query)["t"]
        assert current_signing(SETTINGS).judge(token, "alert", str(n), now=NOW.timestamp()) == "good"
    assert links_of_digest(entries, replace(SETTINGS, link_key=None), NOW) == []


def test_links_are_the_same_each_time_and_bound_to_what_they_say() -> None:
    links = links_of("alert.opened", LOOKED, SETTINGS)
    assert json.dumps(links) == json.dumps(links_of("alert.opened", LOOKED, SETTINGS))

    signs = current_signing(SETTINGS)
    paths = {
        "job": f"/ops/jobs/{LOOKED.job_id}",
        "alert": "/ops/alerts/7",
        "acknowledge": "/ops/alerts/7/acknowledge",
        "mute": "/ops/alerts/7/mute",
    }
    lifetimes = {"job": 7 * 86400, "alert": 7 * 86400, "acknowledge": 86400, "mute": 86400}
    for link, purpose in zip(links, ("job", "alert", "acknowledge", "mute"), strict=True):
        parts = urlsplit(link["url"])
        (token,) = parse_qs(parts.query)["t"]
        assert (link["purpose"], parts.path) == (purpose, paths[purpose])
        assert int(token.partition(".")[0]) == NOW.timestamp() + lifetimes[purpose]
        of = str(LOOKED.job_id) if purpose == "job" else "7"
        assert signs.judge(token, purpose, of, now=NOW.timestamp()) == "good"  # type: ignore[arg-type]


def test_a_message_that_is_cut_keeps_its_links_whole() -> None:
    links = links_of(
        "alert.opened", LOOKED, replace(SETTINGS, public_url="https://" + "w" * 420 + ".example.com")
    )
    text = json.dumps({"type": "alert.opened", "data": {"links": links, "details": [["x" * 900] * 9] * 90}})

    data = json.loads(plain_message(text))["data"]

    assert len(text) > 20_000 > len(plain_message(text))
    assert data["links"] == links


@pytest.mark.parametrize("links", [None, 7, [7], [{"url": "x" * 99_000}] * 9, ["\ud800"], {"a": ["b"]}])
def test_whatever_stands_for_links_a_message_is_cut(links: object) -> None:
    text = json.dumps({"type": "alert.opened", "data": {"links": links, "details": "x" * 30_000}})

    assert len(plain_message(text)) <= 20_000
