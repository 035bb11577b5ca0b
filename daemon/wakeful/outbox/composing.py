"""Makes messages: looks at alerts of which there may be something to say, decides for each sink, and writes it down.

Invariant: messages, what is noted of them, and when an alert is looked at next are one transaction; any number of
dispatchers may do it. One alert that can't be written stops no other: it is left out for a while, and told in an event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, assert_never

from wakeful.errors import DataRefused, StoreBusy
from wakeful.outbox.message import DIGEST, Composer, Entry, entries_of
from wakeful.outbox.policy import Brake, Decision, Gather, Hold, Policy, Say, Wait, decide, rank
from wakeful.store import alerts
from wakeful.store.alerts import Looked, Making, Message, Notice, SinkState, Stale
from wakeful.store.database import Database
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import ALERT_UNTOLD, OUTBOX_MERGED

BATCH: Final = 1000
STALE_BATCH: Final = 1000
_LEFT_OUT_SECONDS: Final = 600.0


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
        except DataRefused:
            return made + await self._one_by_one()

    async def merge_stale(self) -> int:
        """Put the messages that have waited too long for a sink together into one; gives how many there were.

        Not where a sink has no digests: each message must arrive by itself, such as the end of an incident.
        """
        gathering = [sink for sink in self.sinks if self.policy.route(sink).digest != "off"]
        if not gathering:
            return 0
        try:
            async with alerts.making(self.database) as making:
                states = await making.lock_sinks(gathering)
                stale = await making.take_stale(list(states), self.policy.alerts.stale, STALE_BATCH)
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
        await making.open([Message(alert_id=None, sink=sink, kind=DIGEST, body=body)])
        self.telemetry.emit(OUTBOX_MERGED, sink=sink, messages=len(old))
        return len(old)

    async def _one_by_one(self) -> int:
        """Make the messages of each alert by itself; one whose text the database refuses is put off."""
        made = 0
        for _ in range(BATCH):
            try:
                looked, messages = await self._batch(1)
            except DataRefused as error:
                await self._leave_out(str(error))
                continue
            except StoreBusy:
                return made
            made += messages
            if not looked:
                return made
        return made

    async def _leave_out(self, error: str) -> None:
        async with alerts.making(self.database) as making:
            for looked in await making.take_alerts(1):
                again = looked.now + timedelta(seconds=_LEFT_OUT_SECONDS)
                await making.put_off({looked.alert_id: again})
                self.telemetry.emit(ALERT_UNTOLD, alert_id=looked.alert_id, kind=looked.kind, error=error)

    async def _batch(self, limit: int) -> tuple[int, int]:
        """Look at some alerts; gives how many, and the messages made."""
        async with alerts.making(self.database) as making:
            states = await making.lock_sinks(self.sinks)
            looked = await making.take_alerts(limit) if states else []
            if not looked:
                return 0, 0
            turn = _Turn(policy=self.policy, composer=self._composer(), states=states, sinks=self.sinks)
            notices = await making.read_notices([one.alert_id for one in looked], list(states))
            turn.decide(looked, notices)
            messages = await turn.messages(making)
            await making.open(messages)
            await making.note(turn.notices)
            await making.put_off({one.alert_id: turn.again[one.alert_id] for one in looked})
            await making.count({sink: (b.window_from, b.cards) for sink, b in turn.brakes.items()})
            return len(looked), len(messages)

    def _composer(self) -> Composer:
        return Composer(settings=self.policy.alerts, redactor=self.telemetry.redactor)


@dataclass(slots=True, kw_only=True)
class _Turn:
    """What one transaction decides. `again`: when each alert is looked at next."""

    policy: Policy
    composer: Composer
    states: dict[str, SinkState]
    sinks: Sequence[str]
    brakes: dict[str, Brake] = field(default_factory=dict)
    said: list[tuple[Looked, str, str]] = field(default_factory=list)
    gathered: dict[str, list[Looked]] = field(default_factory=dict)
    notices: dict[tuple[int, str], Notice] = field(default_factory=dict)
    again: dict[int, datetime | None] = field(default_factory=dict)

    def decide(self, looked: Sequence[Looked], notices: dict[tuple[int, str], Notice]) -> None:
        """Decide for each alert and sink; the most severe first, since a brake may let only some through."""
        self.brakes = {
            sink: Brake(window_from=state.window_from, cards=state.window_cards, waiting=state.waiting)
            for sink, state in self.states.items()
        }
        for one in sorted(looked, key=lambda alert: (-rank(self.policy.severity(alert)), alert.alert_id)):
            times = list(self._times(one, notices))
            self.again[one.alert_id] = min((time for time in times if time is not None), default=None)

    def _times(self, one: Looked, notices: dict[tuple[int, str], Notice]) -> Iterator[datetime | None]:
        for sink in self.policy.sinks_for(one, self.sinks):
            if sink not in self.states:
                yield one.now + timedelta(seconds=0.5)  # somebody else makes messages for it just now
                continue
            notice = notices.get((one.alert_id, sink))
            decision = decide(self.policy, one, sink, notice, self.brakes[sink])
            yield self._take(decision, one, sink, notice)

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
        stories = await making.read_stories(sorted({one.alert_id for one, _, _ in self.said}))
        cards = [
            Message(
                alert_id=one.alert_id,
                sink=sink,
                kind=f"alert.{what}",
                body=self.composer.message(
                    f"alert.{what}", one, stories[one.alert_id], severity=self.policy.severity(one)
                ),
            )
            for one, sink, what in self.said
        ]
        return [*cards, *(self._digest(sink, gathered) for sink, gathered in self.gathered.items())]

    def _digest(self, sink: str, gathered: Sequence[Looked]) -> Message:
        self.brakes[sink].cards += 1
        entries: list[Entry] = [
            self.composer.entry(one, severity=self.policy.severity(one)) for one in gathered
        ]
        title = f"{len(gathered)} more alert{'' if len(gathered) == 1 else 's'}"
        body = self.composer.digest(entries, sink=sink, title=title, now=gathered[0].now)
        return Message(alert_id=None, sink=sink, kind=DIGEST, body=body)
