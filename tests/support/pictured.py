"""Messages that people look at as pictures: each state, in English and in Korean, with a short error and a huge one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from support.messages import body
from support.vendor_pages import (
    discord_card,
    letter_page,
    letter_text,
    pagerduty_card,
    slack_card,
    stacked,
    teams_card,
)
from wakeful.outbox.cards.adaptive import adaptive_message
from wakeful.outbox.cards.blocks import slack_message
from wakeful.outbox.cards.embeds import discord_message
from wakeful.outbox.cards.incidents import pagerduty_event
from wakeful.outbox.cards.letters import letter

KEY = "R0UT1NGKEYR0UT1NGKEY"
STATES = ("opened", "updated", "reminder", "resolved", "digest", "test")
LENGTH = 200_000
ERRORS = {
    "English": "TimeoutError: the map provider did not answer within 10 s",
    "Korean": "시간 초과: 지도 제공자가 10초 안에 응답하지 않았습니다",
}
SUBJECTS = {"English": "Blue Door Bakery, place 9", "Korean": "파란 문 빵집 9호점"}
SAMPLES = {"English": "place {}", "Korean": "{}호점"}


def messages(language: str, length: str) -> Mapping[str, str]:
    """Messages by their state; `length` is "a line", "200 KB" (of one line), or "a traceback" (of as much)."""
    return {state: message(state, language, length) for state in STATES}


def message(state: str, language: str, length: str) -> str:
    """The JSON text of one message, as the outbox would make it of a death."""
    error, subject = ERRORS[language], SUBJECTS[language]
    whole = {
        "a line": error,
        "200 KB": f"{error} " * (LENGTH // len(error.encode())),
        "a traceback": 'Traceback (most recent call last):\n  File "collect.py", line 7\n' * 3000 + error,
    }[length]
    title = f"COLLECT died: {whole.splitlines()[0]}"[:500]
    if length == "a traceback":
        title = f"COLLECT died: {subject}"
    if state == "digest":
        return body("alert.digest", **_digest(title))
    if state == "test":
        return body(
            "alert.test", title="This is a test of Wakeful's alerts: nothing has happened", kind="test"
        )
    samples = [
        {
            "job_id": f"01980f3e-0000-7cc0-b1f0-3d0c5a4f9e{n}",
            "subject": SAMPLES[language].format(n),
            "error": whole,
        }
        for n in range(21, 26)
    ]
    return body(
        f"alert.{state}",
        title=title,
        error=whole,
        subject=subject,
        samples=samples,
        severity="critical" if state == "updated" else "error",
        resolved_reason="quiet" if state == "resolved" else None,
    )


def _digest(title: str) -> dict[str, object]:
    alerts = [
        {
            "alert_id": n,
            "kind": "job_dead",
            "severity": ("critical", "error", "warning")[n % 3],
            "title": title,
            "occurrences": n * 41 + 1,
            "state": "resolved" if n % 4 == 0 else "open",
        }
        for n in range(20)
    ]
    return {
        "alert_id": None,
        "kind": "digest",
        "title": "32 more alerts in the last minute",
        "occurrences": 9321,
        "alerts": alerts,
        "more": 12,
        "error": None,
        "attempts": None,
        "subject": None,
        "job_type": None,
        "job_id": None,
        "samples": [],
        "dedupe_key": "digest:team",
        "group": "digest:team",
    }


def mailed(text: str) -> bytes:
    """A letter with the message, as bytes."""
    recipients = ["operations@example.com"]
    return letter(text, UUID(int=7), sender="Wakeful <wakeful@example.com>", recipients=recipients).as_bytes()


CHATS: Mapping[str, tuple[Callable[[str], bytes], Callable[[bytes], str]]] = {
    "teams": (adaptive_message, teams_card),
    "slack": (slack_message, slack_card),
    "discord": (discord_message, discord_card),
    "pagerduty": (lambda text: pagerduty_event(text, KEY), pagerduty_card),
    "text": (mailed, letter_text),
}
VENDORS = (*CHATS, "letter")


def pages(vendor: str, texts: Mapping[str, str]) -> Mapping[str, str]:
    """Pages of HTML with the messages as a vendor shows them: letters one by one, all others below one another."""
    if vendor == "letter":
        return {name: letter_page(mailed(text)) for name, text in texts.items()}
    post, show = CHATS[vendor]
    return {"all": stacked(vendor, {name: show(post(text)) for name, text in texts.items()})}
