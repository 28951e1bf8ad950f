"""The first message of an answer, until the answer is there: created at once, then edited at the platform's pace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from adapters.fault import fault
from adapters.outbox import Outbox
from adapters.ports import Phase
from adapters.store.jobs import SqlJobs
from adapters.ticket import Ticket, Verdict
from core.errors import ChannelBusy, ChannelError, ChannelGone, LeaseLost


class LiveMessage:
    """Shows the newest of what it was given; what came too fast is left out."""

    def __init__(self, ticket: Ticket, outbox: Outbox, jobs: SqlJobs) -> None:
        self._ticket, self._outbox, self._jobs = ticket, outbox, jobs
        self._wanted = self._shown = ("", Phase.WAITING)
        self._word: Callable[[], str] = str
        self._changed, self._closing, self.opened = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.gone = False
        """There is no place for an answer."""
        self.text = ""
        """The answer so far."""
        self._task: asyncio.Task[None] | None = None

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

    async def close(self) -> None:
        """When it returns, no request is under way."""
        self._closing.set()
        self._changed.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        try:
            await self._open()
            await self._edits()
        except ChannelGone:
            self.gone = True
            self._ticket.cancel(Verdict.STOPPED)
        except (LeaseLost, ChannelError):
            pass  # The job is lost, or the answer was faster.
        finally:
            self.opened.set()

    async def _open(self) -> None:
        ticket = self._ticket
        if 0 in ticket.ids:
            self.opened.set()
            return
        fault("K2")
        if self._wanted == self._shown:
            self._wanted = (self._word(), Phase.WAITING)
        wanted = self._wanted
        post = ticket.post(0, *wanted)
        ticket.ids[0], shows = await self._outbox.create(ticket, post, maybe_there=ticket.doubtful, until=self._closing)
        if shows:
            self._shown = wanted
        self.opened.set()  # The work need not wait until the id is stored: without it the message would be found.
        await self._outbox.rules.patiently(lambda: self._jobs.posted(ticket.job, 0, ticket.ids[0]))

    async def _edits(self) -> None:
        tries, channel = 0, self._outbox.channel(self._ticket.job)
        while True:
            await self._changed.wait()
            if self._closing.is_set():
                return
            self._changed.clear()
            if self._wanted == self._shown:
                continue
            wanted, pause = self._wanted, channel.pace
            try:
                await self._outbox.sure(self._ticket.job)
                await channel.edit(self._ticket.ids[0], self._ticket.post(0, *wanted))
                self._shown, tries = wanted, 0
                if wanted[1] is Phase.GROWING:
                    fault("K8")
            except (ChannelGone, LeaseLost):
                raise
            except Exception as error:  # noqa: BLE001 - an edit in between may be left out
                self._ticket.doubtful |= not isinstance(error, ChannelBusy)
                tries += 1
                self._changed.set()
                pause = max(pause, self._outbox.trouble(error, tries))
                if pause > self._outbox.rules.longest_edit_wait:
                    return
            await self._sleep(pause)

    async def _sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)
