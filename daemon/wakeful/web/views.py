"""What the pages behind links say: an alert, a job, the question before something is changed, and what came of it.

Invariant: plain words, with every text of others as a text of `markup`; times in UTC; no value of a payload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from wakeful.core.text import clean
from wakeful.store.link_pages import PageRow
from wakeful.web.markup import Html, command, facts, form, listed, overline, page, paragraph, verbatim

_LOOKS: Final[Mapping[str, str]] = {
    "resolved": "good",
    "DONE": "good",
    "DEAD": "error",
    "CANCELLED": "warning",
}
_ONE: Final = 1
_ERROR_BYTES: Final = 600


def alert_page(row: PageRow, environment: str) -> web.Response:
    """Show an alert."""
    title, state = row["title"], row["state"]
    parts = [
        facts(_times(row)),
        verbatim(clean(row["error"], _ERROR_BYTES)),
        facts(_alert_facts(row)),
        listed("Latest", (_occurrence(one) for one in _entries(row["latest"]))),
        listed("Who was told", (_telling(one) for one in _entries(row["told"]))),
        *_what_next(row),
    ]
    look = _LOOKS.get(state, row["severity"])
    return page(title, parts, over=overline(_named(row["severity"].upper(), state, environment), look))


def job_page(row: PageRow, environment: str) -> web.Response:
    """Show a job."""
    status = row["status"]
    parts = [
        facts(_job_facts(row)),
        verbatim(clean(row["error"], _ERROR_BYTES)),
        listed("Steps", (_step(one) for one in _entries(row["steps"]))),
        command("More about it:", f"wakeful jobs show {row['job_id']}"),
    ]
    title = row["job_type"] if row["subject"] is None else f"{row['job_type']}: {row['subject']}"
    return page(title, parts, over=overline(_named(status, environment), _LOOKS.get(status, "info")))


def ask_to_acknowledge(row: PageRow, environment: str) -> web.Response:
    """Ask whether to take an alert on."""
    if row["state"] != "open":
        return _stands(row, environment)
    parts = [
        paragraph(
            "Acknowledging says that you look after it: nobody is reminded of it, and it goes to nobody else."
            " People are told when it is over."
        ),
        facts(_times(row)),
        verbatim(clean(row["error"], _ERROR_BYTES)),
        form("Your name, for the others (may be left out)", "Acknowledge"),
    ]
    return page(row["title"], parts, over=overline(_named("Acknowledge", environment), row["severity"]))


def ask_to_mute(row: PageRow, environment: str) -> web.Response:
    """Ask whether to mute what is like an alert."""
    parts = [
        paragraph(f"For an hour nobody is told of {_like(row)}. It is counted all the same."),
        *_muted_already(row),
        form("Your name, for the others (may be left out)", "Mute for an hour"),
    ]
    return page(row["title"], parts, over=overline(_named("Mute", environment), row["severity"]))


def acknowledged(row: PageRow, alert_id: int, environment: str) -> web.Response:
    """Say what became of it."""
    if not row["is_new"]:
        return _stands({**row, "title": f"Alert {alert_id}", "alert_id": alert_id}, environment)
    parts = [
        facts([("Alert", alert_id), ("By", row["acknowledged_by"]), ("At", moment(row["acknowledged_at"]))]),
        paragraph("Nobody is reminded of it any more. People are told when it is over."),
        command(
            "This is not taken back. So that what happens next is told anew, end the alert:",
            f"wakeful alerts resolve {alert_id}",
        ),
    ]
    return page("Acknowledged", parts, over=overline(_named("Done", environment), "good"))


def muted(row: PageRow, environment: str) -> web.Response:
    """Say what is muted now, until when, and how that is taken back."""
    until = moment(row["until"])
    said = "Muted" if row["is_new"] else "It was muted already"
    parts = [
        paragraph(f"Until {until} nobody is told of {_like(row)}. It is counted all the same."),
        facts([("By", row["muted_by"]), ("Mute", row["mute_id"])]),
        command("To take it back:", f"wakeful alerts unmute {row['mute_id']}"),
    ]
    return page(f"{said}, until {until}", parts, over=overline(_named("Done", environment), "good"))


def moment(value: object) -> str:
    """Give a time, or a text of ISO 8601, as people write it in UTC; nothing for none."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if isinstance(value, datetime) else ""


def _stands(row: PageRow, environment: str) -> web.Response:
    """Say how an alert stands that is not open."""
    over = row["state"] == "resolved"
    parts = [
        paragraph(
            "It is over: there is nothing to acknowledge."
            if over
            else "Somebody has acknowledged it already. Nothing was changed."
        ),
        facts([("By", row["acknowledged_by"]), ("At", moment(row["acknowledged_at"]))]),
        command("More about it:", f"wakeful alerts show {row['alert_id']}"),
    ]
    return page(row["title"], parts, over=overline(_named(row["state"], environment), "good"))


def _times(row: PageRow) -> Iterator[tuple[str, object]]:
    count = row["occurrences"]
    yield "How often", "once" if count == _ONE else f"{count:,} times"
    yield "Since", moment(row["first_seen"])
    yield "Last", moment(row["last_seen"]) if count > _ONE else ""


def _alert_facts(row: PageRow) -> Iterator[tuple[str, object]]:
    yield "Kind", row["kind"]
    yield "Job type", row["job_type"]
    yield "Queue", row["queue"]
    yield "Subject", row["subject"]
    yield "Latest job", row["job_id"]
    yield "Acknowledged", _by(row["acknowledged_at"], row["acknowledged_by"])
    yield "Over", _by(row["resolved_at"], "")
    yield "Over because", row["resolved_reason"]
    yield "Muted until", _by(row["muted_until"], row["muted_by"])


def _job_facts(row: PageRow) -> Iterator[tuple[str, object]]:
    yield "Job", row["job_id"]
    yield "Queue", row["queue"]
    yield "Priority", row["priority"]
    yield "Attempts", f"{row['attempts']} of {row['max_attempts']}"
    for label, name in (("Handed back", "handed_back"), ("Snoozed", "snoozed"), ("Owner lost", "lost")):
        yield label, f"{row[name]} times" if row[name] else ""
    yield "Enqueued", moment(row["created_at"])
    yield "Runs after", moment(row["run_after"]) if row["status"] == "PENDING" else ""
    yield "Started", moment(row["started_at"])
    yield "Ended", moment(row["finished_at"])
    yield "Degraded", "it finished with less than it could" if row["is_degraded"] else ""


def _what_next(row: PageRow) -> Iterator[Html]:
    number = row["alert_id"]
    yield command("More about it:", f"wakeful alerts show {number}")
    if row["state"] == "open":
        yield command("To take it on:", f"wakeful alerts ack {number}")
    if row["mute_id"] is not None:
        yield command("To take the mute back:", f"wakeful alerts unmute {row['mute_id']}")


def _muted_already(row: PageRow) -> Iterator[Html]:
    if row["mute_id"] is not None:
        yield paragraph(f"It is muted already, until {_by(row['muted_until'], row['muted_by'])}.")


def _like(row: PageRow) -> str:
    """Say what a mute of this alert fits: the same as `wakeful.mute_alert()` goes by."""
    about = [f"alerts of kind {row['kind']}"]
    if row["job_type"] is not None:
        about.append(f"about job type {row['job_type']}")
    elif row["queue"]:
        about.append(f"about queue {row['queue']}")
    if row["subject"] is not None:
        about.append(f"and {row['subject']} alone")
    return " ".join(about)


def _occurrence(one: Mapping[str, Any]) -> tuple[str, str]:
    about = (moment(one["at"]), one["subject"], one["job_id"])
    return one["title"], " · ".join(str(part) for part in about if part)


def _telling(one: Mapping[str, Any]) -> tuple[str, str]:
    return (
        f"{one['sink']}: {str(one['message']).removeprefix('alert.')}",
        f"{one['state']} · {moment(one['at'])}",
    )


def _step(one: Mapping[str, Any]) -> tuple[str, str]:
    percent = one["percent"]
    done = f"{one['status']} · {percent} %" if percent is not None else str(one["status"])
    return str(one["name"]), done


def _by(at: datetime | None, who: str | None) -> str:
    return f"{moment(at)} by {who}" if at and who else moment(at)


def _named(*words: str) -> Iterable[str]:
    return [word for word in words if word]


def _entries(found: object) -> list[Mapping[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
