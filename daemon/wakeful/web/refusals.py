"""Answers to links that lead nowhere: not ours, too old, about what is gone, or at a moment when nobody can be asked.

Invariant: an answer to what is not ours says nothing of what there is.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from wakeful.web.markup import command, overline, page, paragraph

RETRY_SECONDS: Final = 5

_LIST: Final = ("To see what is open:", "wakeful alerts list")


def forged() -> web.Response:
    """Answer to a link that was not made here, or was changed."""
    parts = [
        paragraph(
            "It was changed on its way, or was made by another installation or with a key that is no longer in force."
            " Copy it again from the message, whole."
        ),
        command(*_LIST),
    ]
    return page("This link is not valid", parts, status=403, over=overline(["Refused"], "error"))


def expired() -> web.Response:
    """Answer to a link that was good."""
    parts = [
        paragraph("Links work for a while only. A newer message about the same thing has new ones."),
        command(*_LIST),
    ]
    return page("This link has expired", parts, status=410, over=overline(["Expired"], "warning"))


def gone() -> web.Response:
    """Answer to a good link to something that is there no more."""
    parts = [paragraph("It is past the time for which things are kept (history in the configuration).")]
    return page("This is gone", parts, status=404, over=overline(["Gone"], "warning"))


def only_a_specimen(environment: str) -> web.Response:
    """Answer to the link of a test or a specimen."""
    words = [word for word in ("It works", environment) if word]
    parts = [
        paragraph(
            "You came here by a link of a test message. Links of alerts lead to a page such as this one, and each"
            " works for its own alert."
        )
    ]
    return page("The links of this installation work", parts, over=overline(words, "good"))


def from_elsewhere() -> web.Response:
    """Answer to a form that another site sent."""
    parts = [paragraph("Another site sent this. Open the link from the message, and press the button there.")]
    return page("Nothing was changed", parts, status=403, over=overline(["Refused"], "error"))


def not_understood(text: str, *, status: int) -> web.Response:
    """Answer to what is no form of ours."""
    return page("Nothing was changed", [paragraph(text)], status=status, over=overline(["Refused"], "error"))


def away(text: str) -> web.Response:
    """Answer while nobody can be asked."""
    parts = [paragraph(f"{text} Nothing was changed. Try again in a moment.")]
    return page("Not now", parts, status=503, over=overline(["Unavailable"], "warning"), retry=RETRY_SECONDS)
