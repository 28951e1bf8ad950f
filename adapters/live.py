"""The messages of an answer until it is there: the first is created at once, further ones as the answer outgrows it.

They are edited at the platform's pace, one request at a time. The id of a message is stored before the next one is
created, so at most one can exist that nobody knows of. Nothing else waits for that: in a crowd the disk has more urgent
things to take, and the final text of an answer is stored with the id of its message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from adapters.fault import fault
from adapters.outbox import Outbox
from adapters.ports import InParts, Phase
from adapters.store.jobs import SqlJobs
from adapters.ticket import Ticket, Verdict
from core.errors import ChannelBusy, ChannelError, ChannelGone, DataDirError, LeaseLost

log = logging.getLogger(__name__)

NOTHING_YET: Final = ("…", Phase.WAITING)
"""What a later part shows that the answer does not reach any more: an attempt has begun anew."""

Look = tuple[str, Phase]


class LiveMessage:
    """Shows the newest of what it was given; what came too fast is left out."""

    def __init__(self, ticket: Ticket, outbox: Outbox, jobs: SqlJobs) -> None:
        self._ticket, self._outbox, self._jobs = ticket, outbox, jobs
        self._wanted: Look = ("", Phase.WAITING)
        self._shown: dict[int, Look] = {}
        self._word: Callable[[], str] = str
        self._changed, self._closing, self.opened = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.gone = False
        """There is no place for an answer."""
        self.text = ""
        """The answer so far."""
        self._task: asyncio.Task[None] | None = None
        self._noting: asyncio.Task[bool] | None = None
        """Stores the id of the newest message; whether it could."""

    def start(self, word: Callable[[], str]) -> None:
        """Begins, with a first word if there is no message yet."""
        self._word = word
        self._task = asyncio.create_task(self._run())

    def show(self, text: str, phase: Phase) -> None:
        """Wants `text` to be seen soon."""
        if phase is Phase.GROWING:
            self.text = text
        if (text, phase) != self._wanted:
            self._wanted = (text, phase)
            self._changed.set()

    def lose_place(self) -> None:
        """There is no place for an answer any more: the job ends."""
        self.gone = True
        self._ticket.cancel(Verdict.STOPPED)

    async def close(self) -> None:
        """When it returns, no request is under way."""
        self._closing.set()
        self._changed.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        try:
            if 0 not in self._ticket.ids:
                fault("K2")
                if not self._wanted[0]:
                    self._wanted = (self._word(), Phase.WAITING)
                await self._open(0, self._looks()[0])
            self.opened.set()
            await self._edits()
        except ChannelGone:
            self.lose_place()
        except (LeaseLost, ChannelError):
            pass  # The job is lost, or the answer was faster.
        finally:
            self.opened.set()

    async def _open(self, part: int, look: Look) -> None:
        ticket, outbox = self._ticket, self._outbox
        if self._noting is not None and not await self._noting:
            raise LeaseLost
        post = ticket.post(part, *look)
        id_, shows = await outbox.create(ticket, post, maybe_there=ticket.doubtful, until=self._closing)
        ticket.ids[part] = id_
        if shows:
            self._shown[part] = look
        self.opened.set()
        self._noting = asyncio.create_task(self._note(part, id_))

    async def _note(self, part: int, id_: str) -> bool:
        try:
            await self._outbox.rules.patiently(lambda: self._jobs.posted(self._ticket.job, part, id_))
        except (LeaseLost, DataDirError) as error:
            log.info("The id of a message was not stored, so that no further one is created: %s", error)
            return False
        return True

    async def _edits(self) -> None:
        tries, channel = 0, self._outbox.channel(self._ticket.job)
        while True:
            await self._changed.wait()
            if self._closing.is_set():
                return
            self._changed.clear()
            if (outdated := self._outdated()) is None:
                continue
            part, look = outdated
            self._changed.set()  # There may be another one.
            pause = channel.pace
            try:
                if part in self._ticket.ids:
                    await self._edit(part, look)
                else:
                    await self._open(part, look)
                tries = 0
                if look[1] is Phase.GROWING:
                    fault("K8")
            except (ChannelGone, LeaseLost):
                raise
            except Exception as error:  # noqa: BLE001 - an edit in between may be left out
                if self._closing.is_set():
                    return
                tries += 1
                pause = max(pause, self._outbox.trouble(error, tries))
                if pause > self._outbox.rules.longest_edit_wait:
                    return
            await self._sleep(pause)

    async def _edit(self, part: int, look: Look) -> None:
        ticket = self._ticket
        await self._outbox.sure(ticket.job)
        try:
            await self._outbox.channel(ticket.job).edit(ticket.ids[part], ticket.post(part, *look))
        except (ChannelBusy, ChannelGone):
            raise
        except Exception:  # whatever it is, the request may have its effect yet
            ticket.doubtful = True
            raise
        self._shown[part] = look

    def _outdated(self) -> tuple[int, Look] | None:
        """The first part that does not look as it should, and how it should."""
        looks = self._looks()
        for part in range(max(len(looks), *(known + 1 for known in self._ticket.ids))):
            look = looks[part] if part < len(looks) else NOTHING_YET
            if look != self._shown.get(part):
                return part, look
        return None

    def _looks(self) -> Sequence[Look]:
        """How the parts should look now."""
        text, phase = self._wanted
        channel = self._outbox.channel(self._ticket.job)
        if phase is Phase.GROWING and isinstance(channel, InParts):
            return [(body, phase) for body in channel.growing(text)]
        return [self._wanted]

    async def _sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)
