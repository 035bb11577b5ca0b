"""Makes messages: looks at alerts of which there may be something to say, decides for each sink, and writes it down.

Invariant: messages, what is noted of them, and when an alert is looked at next are one transaction; any number of
dispatchers may do it. One alert that can't be written stops no other: it is set aside, told in an event, tried twice
more, and then written without its details; what was decided of it in the same transaction is taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, assert_never

from wakeful.errors import StoreBusy, StoreUnavailable
from wakeful.outbox.bare import bare_entry, bare_message
from wakeful.outbox.message import DIGEST, Composer, Entry, entries_of
from wakeful.outbox.policy import (
    Brake,
    Decision,
    Gather,
    Hold,
    Policy,
    Say,
    Wait,
    decide,
    for_others,
    plain_decision,
    rank,
)
from wakeful.store import alerts
from wakeful.store.alerts import UNTOLD_WITH_DETAILS, Looked, Making, Message, Notice, SinkState, Stale, Story
from wakeful.store.database import Database
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import ALERT_UNTOLD, OUTBOX_MERGED

BATCH: Final = 1000
STALE_BATCH: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Composing:
    """Who makes messages for these sinks."""

    database: Database
    telemetry: Telemetry
    policy: Policy
    sinks: tuple[str, ...]

    async def compose(self) -> int:
        """Make the messages that are due; gives how many. Raises StoreUnavailable in an outage."""
        made = 0
        try:
            while True:
                looked, messages = await self._batch(BATCH)
                made += messages
                if looked < BATCH:
                    return made
        except StoreBusy:
            return made  # somebody is in the way for longer than we wait: at the next turn
        except StoreUnavailable:
            raise
        except Exception:  # noqa: BLE001 -- which alert it was, and so what is told, is found one by one
            return made + await self._one_by_one()

    async def merge_stale(self) -> int:
        """Put the messages that have waited too long for a sink together into one; gives how many there were.

        Not where a sink has no digests: each message must arrive by itself, such as the end of an incident.
        """
        gathering = [sink for sink in self.sinks if self.policy.route(sink).digest != "off"]
        seconds = self.policy.alerts.stale
        waiting = await alerts.find_stale(self.database, gathering, seconds) if gathering else []
        if not waiting:
            return 0
        try:
            async with alerts.making(self.database) as making:
                states = await making.lock_sinks(waiting)
                stale = await making.take_stale(list(states), seconds, STALE_BATCH)
                merged = [
                    await self._merge(making, sink, state.now, [one for one in stale if one.sink == sink])
                    for sink, state in states.items()
                ]
        except StoreBusy:
            return 0
        return sum(merged)

    async def _merge(self, making: Making, sink: str, now: datetime, old: Sequence[Stale]) -> int:
        if len(old) < 2:
            return 0
        entries, more = entries_of(one.body for one in old)
        title = f"{len(entries) + more} alerts waited while this could not be delivered"
        body = self._composer().digest(entries, sink=sink, title=title, now=now, more=more)
        await making.merge([one.delivery_id for one in old])
        tells = tuple(sorted({alert_id for one in old for alert_id in one.tells}))
        await making.open([Message(alert_id=None, sink=sink, kind=DIGEST, body=body, tells=tells)])
        self.telemetry.emit(OUTBOX_MERGED, sink=sink, messages=len(old))
        return len(old)

    async def _one_by_one(self) -> int:
        """Make the messages of each alert by itself; one that the database refuses or garbles is set aside."""
        made = 0
        for _ in range(BATCH):
            try:
                looked, messages = await self._batch(1)
            except StoreBusy:
                return made
            except StoreUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 -- one alert must not keep the others from people
                if not await self._set_first_aside(error):
                    return made
                continue
            made += messages
            if not looked:
                return made
        return made

    async def _set_first_aside(self, error: Exception) -> bool:
        async with alerts.making(self.database) as making:
            first = await making.set_aside()
        if first is None:
            return False
        self.telemetry.emit(ALERT_UNTOLD, alert_id=first[0], kind=first[1], error=error)
        return True

    async def _batch(self, limit: int) -> tuple[int, int]:
        """Look at some alerts; gives how many, and the messages made."""
        async with alerts.making(self.database) as making:
            states = await making.lock_sinks(self.sinks)
            looked = await making.take_alerts(limit) if states else []
            if not looked:
                return 0, 0
            others = await making.has_other_sinks(self.sinks)
            turn = _Turn(
                policy=self.policy, composer=self._composer(), states=states, sinks=self.sinks, others=others
            )
            notices = await making.read_notices([one.alert_id for one in looked], list(states))
            turn.decide(looked, notices)
            messages = await turn.messages(making)
            await making.open(messages)
            await making.note(turn.notices)
            await making.put_off(turn.again)
            for alert_id in turn.failed:
                await making.set_aside(alert_id)
            await making.count({sink: (b.window_from, b.cards) for sink, b in turn.brakes.items()})
        for one, error in turn.failed.values():
            self.telemetry.emit(ALERT_UNTOLD, alert_id=one.alert_id, kind=one.kind, error=error)
        return len(looked), len(messages)

    def _composer(self) -> Composer:
        return Composer(settings=self.policy.alerts, redactor=self.telemetry.redactor)


@dataclass(slots=True, kw_only=True)
class _Turn:
    """What one transaction decides. `again`: when each is looked at next; `failed`: nothing can be said of these.

    `others`: another instance has sinks that this one does not have.
    """

    policy: Policy
    composer: Composer
    states: dict[str, SinkState]
    sinks: Sequence[str]
    others: bool
    brakes: dict[str, Brake] = field(default_factory=dict)
    said: list[tuple[Looked, str, str]] = field(default_factory=list)
    gathered: dict[str, list[Looked]] = field(default_factory=dict)
    notices: dict[tuple[int, str], Notice] = field(default_factory=dict)
    again: dict[int, datetime | None] = field(default_factory=dict)
    failed: dict[int, tuple[Looked, Exception]] = field(default_factory=dict)

    def decide(self, looked: Sequence[Looked], notices: dict[tuple[int, str], Notice]) -> None:
        """Decide for each alert and sink; the most severe first, since a brake may let only some through."""
        self.brakes = {
            sink: Brake(window_from=state.window_from, cards=state.window_cards, waiting=state.waiting)
            for sink, state in self.states.items()
        }
        for one in sorted(looked, key=self._turn_of):
            try:
                times = list(self._times(one, notices))
                if self.others:
                    times.append(for_others(one))
                self.again[one.alert_id] = min((time for time in times if time is not None), default=None)
            except Exception as error:  # noqa: BLE001 -- one alert must not keep the others from people
                self._fail(one, error)

    def _fail(self, one: Looked, error: Exception) -> None:
        """Take back what was decided of an alert."""
        self.failed[one.alert_id] = one, error
        self.again.pop(one.alert_id, None)
        self.said = [said for said in self.said if said[0].alert_id != one.alert_id]
        for gathered in self.gathered.values():
            gathered[:] = [other for other in gathered if other.alert_id != one.alert_id]
        for key in [key for key in self.notices if key[0] == one.alert_id]:
            del self.notices[key]

    def _turn_of(self, one: Looked) -> tuple[int, datetime, int]:
        return -rank(self._severity(one)), one.first_seen, one.alert_id

    def _severity(self, one: Looked) -> str:
        try:
            return self.policy.severity(one)
        except Exception:  # noqa: BLE001 -- only the order and the look of a card depend on it
            return one.severity

    def _times(self, one: Looked, notices: dict[tuple[int, str], Notice]) -> Iterator[datetime | None]:
        for sink in self._sinks_for(one):
            if sink not in self.states:
                yield one.now + timedelta(seconds=0.5)  # somebody else makes messages for it just now
                continue
            notice = notices.get((one.alert_id, sink))
            yield self._take(self._decision(one, sink, notice), one, sink, notice)

    def _sinks_for(self, one: Looked) -> Sequence[str]:
        try:
            return self.policy.sinks_for(one, self.sinks)
        except Exception:
            if not _is_bare(one):
                raise
            return self.sinks

    def _decision(self, one: Looked, sink: str, notice: Notice | None) -> Decision:
        try:
            return decide(self.policy, one, sink, notice, self.brakes[sink])
        except Exception:
            if not _is_bare(one):
                raise
            return plain_decision(one, notice)

    def _take(self, decision: Decision, one: Looked, sink: str, notice: Notice | None) -> datetime | None:
        """Note a decision; gives when the alert is to be looked at again for this sink."""
        match decision:
            case Say(what, again):
                self.said.append((one, sink, what))
                self._note(one, sink, told_as=what)
                return again
            case Gather(what, again):
                self.gathered.setdefault(sink, []).append(one)
                self._note(one, sink, told_as=what)
                return again
            case Hold(until):
                before = notice or Notice(told_as=None, told_at=None, occurrences=0, held_until=None)
                self.notices[one.alert_id, sink] = replace(before, held_until=until)
                return until
            case Wait(until):
                return until
            case _:
                assert_never(decision)

    def _note(self, one: Looked, sink: str, *, told_as: str) -> None:
        self.notices[one.alert_id, sink] = Notice(
            told_as=told_as, told_at=one.now, occurrences=one.occurrences, held_until=None
        )

    async def messages(self, making: Making) -> list[Message]:
        """Write what was decided."""
        said = sorted({one.alert_id for one, _, _ in self.said})
        stories = await making.read_stories(said, payloads=self.composer.settings.payload)
        cards: list[Message] = []
        for one, sink, what in self.said:
            try:
                body = self._body(f"alert.{what}", one, stories[one.alert_id])
            except Exception as error:  # noqa: BLE001 -- one alert must not keep the others from people
                self._fail(one, error)
                continue
            cards.append(Message(alert_id=one.alert_id, sink=sink, kind=f"alert.{what}", body=body))
        entries = {sink: self._entries(gathered) for sink, gathered in self.gathered.items()}
        digests = [self._digest(sink, self.gathered[sink], known) for sink, known in entries.items() if known]
        return [*(card for card in cards if card.alert_id not in self.failed), *digests]

    def _body(self, kind: str, one: Looked, story: Story) -> str:
        severity = self._severity(one)
        if not _is_bare(one):
            return self.composer.message(kind, one, story, severity=severity)
        settings, redactor = self.composer.settings, self.composer.redactor
        return bare_message(kind, one, severity=severity, environment=settings.environment, redactor=redactor)

    def _entries(self, gathered: Sequence[Looked]) -> list[Entry]:
        entries: list[Entry] = []
        for one in tuple(gathered):
            try:
                make = bare_entry if _is_bare(one) else self.composer.entry
                entries.append(make(one, severity=self._severity(one)))
            except Exception as error:  # noqa: BLE001 -- one alert must not keep the others from people
                self._fail(one, error)
        return entries

    def _digest(self, sink: str, gathered: Sequence[Looked], entries: Sequence[Entry]) -> Message:
        self.brakes[sink].cards += 1
        title = f"{len(gathered)} more alert{'' if len(gathered) == 1 else 's'}"
        body = self.composer.digest(entries, sink=sink, title=title, now=gathered[0].now)
        tells = tuple(one.alert_id for one in gathered)
        return Message(alert_id=None, sink=sink, kind=DIGEST, body=body, tells=tells)


def _is_bare(one: Looked) -> bool:
    return one.untold >= UNTOLD_WITH_DETAILS
