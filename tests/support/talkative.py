"""Handlers that say the secrets of their payload wherever they can, and then fail if they are told to."""

from __future__ import annotations

import json
import logging

from wakeful import JobContext, Registry

registry = Registry()


async def _talk(job: JobContext) -> object:
    card, pin = job.payload["card"], job.payload["pin"]
    assert isinstance(card, dict)
    token = card["token"]
    job.log.info("charging", card=card, pin=pin)
    job.log.warning("%s and %r and %s and %s", token, token, json.dumps(token), pin)
    logging.getLogger("a.library").info("POST /charge %s", token)
    async with job.step("charge"):
        await job.progress(10, f"with {token} {pin}")
    job.degrade(f"{token} was refused")
    if job.payload.get("fail"):
        raise ValueError(f"no money on {job.payload!r}")
    return {"pin": pin, "charged": 1}


@registry.job("PAY", secret=("card.token", "pin"), steps=("charge",), backoff=lambda attempt: 60)
async def pay(job: JobContext) -> object:
    """Talk in the daemon's own process."""
    return await _talk(job)


@registry.job(
    "PAY APART",
    secret=("card.token", "pin"),
    steps=("charge",),
    backoff=lambda attempt: 60,
    isolation="process",
    deadline=60,
)
async def pay_apart(job: JobContext) -> object:
    """Talk in a process of its own."""
    return await _talk(job)
