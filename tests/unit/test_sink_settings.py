"""What the sections of sinks may hold: each mistake is told with its setting, and no secret is part of it."""

from __future__ import annotations

import pytest

from wakeful.config import effective, hidden_in, load
from wakeful.core.secrets import hidden_values, shown
from wakeful.errors import ConfigError

MAIL = {
    "kind": "email",
    "url": "smtp://u@mail.example.com",
    "sender": "a@b.example",
    "recipients": "c@d.example",
}
HOOK = "https://hooks.example.com/services/geheim"


def variables(**settings: str) -> dict[str, str]:
    return {f"WAKEFUL__SINKS__TEAM__{name.upper()}": value for name, value in settings.items()}


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "log"},
        {"kind": "webhook", "url": HOOK, "key": f"whsec_{'Z2Vo' * 8} {'Z2Vo' * 8}", "addresses": "public"},
        {"kind": "teams", "url": HOOK},
        {"kind": "slack", "url": HOOK},
        {"kind": "discord", "url": HOOK},
        {"kind": "pagerduty", "key": "geheim"},
        {"kind": "pagerduty", "key": "geheim", "url": "https://events.eu.pagerduty.com/v2/enqueue"},
        {"kind": "apprise", "url": "ntfy://topic json://host"},
        MAIL,
        MAIL | {"url": "smtps://mail.example.com:465", "key": "geheim", "sender": "Wakeful <a@b.example>"},
        MAIL | {"url": "smtp+plain://localhost:25"},
    ],
)
def test_a_sink_that_has_what_it_needs(settings: dict[str, str]) -> None:
    assert load(environ=variables(**settings)).settings.sinks["team"].kind == settings["kind"]


@pytest.mark.parametrize(
    ("settings", "where", "what"),
    [
        ({"kind": "teams"}, "url", "needs its url"),
        ({"kind": "slack", "url": "ftp://geheim"}, "url", "https://"),
        ({"kind": "log", "url": HOOK}, "url", "has no url"),
        ({"kind": "pagerduty"}, "key", "needs the key"),
        ({"kind": "discord", "url": HOOK, "key": "geheim"}, "key", "has no key"),
        ({"kind": "webhook", "url": HOOK, "key": "whsec_geheim!"}, "key", "can sign nothing"),
        ({"kind": "webhook", "url": HOOK, "key": f"whsec_{'Z2Vo' * 8} Z2Vo"}, "key", "can sign nothing"),
        ({"kind": "teams", "url": HOOK, "recipients": "a@b"}, "recipients", "sends no letters"),
        (MAIL | {"url": HOOK}, "url", "must be a mail server"),
        (MAIL | {"sender": ""}, "sender", "needs a sender"),
        (MAIL | {"recipients": ""}, "recipients", "needs recipients"),
        (MAIL | {"recipients": "nobody"}, "recipients", "not an address"),
        (MAIL | {"sender": "a@b\nBcc: c@d"}, "recipients", "not an address"),
        (MAIL | {"recipients": "mañana@b.example"}, "recipients", "not an address"),
        (MAIL | {"addresses": "public"}, "addresses", "leave it out"),
        ({"kind": "pagerduty", "key": "geheim", "url": "geheim"}, "url", "https://"),
    ],
)
def test_a_sink_that_can_not_work_is_a_mistake(settings: dict[str, str], where: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(environ=variables(**settings))

    (problem,) = caught.value.problems
    assert problem.startswith(f"sinks.team.{where}: ")
    assert what in problem
    assert "geheim" not in problem


@pytest.mark.case("F79")
def test_keys_and_urls_are_hidden_and_not_shown() -> None:
    signing = "whsec_Z2VoZWltZ2VoZWltZ2VoZWlt whsec_YW5kZXJlc2dlaGVpbW5pc3Vu"
    environ = variables(kind="webhook", url=HOOK, key=signing) | {
        "WAKEFUL__HEARTBEAT__URL": "https://hc.example.com/ping/geheim-geheim"
    }
    found = load(environ=environ)

    hidden = hidden_in(found.settings)
    assert {"Z2VoZWltZ2VoZWltZ2VoZWlt", "whsec_YW5kZXJlc2dlaGVpbW5pc3Vu", "/ping/geheim-geheim"} <= hidden
    assert "" not in hidden
    texts = [row.value for row in effective(found.settings, found.origins)] + [repr(found.settings)]
    assert [text for text in texts if "geheim" in text or "Z2Vo" in text or "YW5k" in text] == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://a.example/workflows/x/invoke?api-version=1&sp=%2Ft&sig=AbCdEf%2F1234567890abcdefghij", 2),
        ("https://discord.com/api/webhooks/1234567890/AbCdEf-1234567890abcdefghijklmnop", 1),
    ],
)
def test_the_key_in_an_address_is_hidden_by_itself_and_short_words_are_not(url: str, words: int) -> None:
    alone = {one for one in hidden_values(url) if "://" not in one and one.count("/") < 2}
    assert {one for one in alone if one.startswith("AbCdEf")} >= {
        url.rpartition("=" if "sig" in url else "/")[2]
    }
    assert len([one for one in alone if one.startswith("AbCdEf")]) == words
    assert alone & {"invoke", "workflows", "webhooks", "1", "1234567890"} == set()


def test_of_a_key_nothing_is_shown() -> None:
    assert shown("R0UT1NGKEY") == "***"
    assert "R0UT1NGKEY" in hidden_values("R0UT1NGKEY")


@pytest.mark.parametrize(
    "url",
    [
        "pbul://geheimgeheim",
        "pover://user@geheimgeheim",
        "tgram://geheimgeheim:abc/1",
        "slack://geheimgeheim/b/c mailto://a:b@c",
    ],
)
def test_the_host_of_an_apprise_url_may_be_its_key_and_is_not_shown(url: str) -> None:
    assert "geheim" not in shown(url)
    assert shown(url) != shown(url + "x")


@pytest.mark.parametrize(
    ("url", "host"),
    [
        (HOOK, "https://hooks.example.com/***"),
        ("smtp://u:pw@mail.example.com", "smtp://mail.example.com/***"),
    ],
)
def test_the_host_of_an_address_is_shown(url: str, host: str) -> None:
    assert shown(url).startswith(host)


def test_the_address_of_the_heartbeat_is_one_of_the_web() -> None:
    with pytest.raises(ConfigError, match=r"^heartbeat\.url: must be an address"):
        load(environ={"WAKEFUL__HEARTBEAT__URL": "geheim.example.com"})
