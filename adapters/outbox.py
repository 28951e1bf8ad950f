"""Messages of ours on a platform: created once, found again when in doubt, edited until they show what they should.

Creating is the only call that may not be repeated: if its reply was lost, or the process died before the id was
stored, the message is looked for before another one is created. Everything else is an edit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from adapters.fault import fault
from adapters.jobs import Job, JobState, Part
from adapters.ports import Channel, Phase, Post
from adapters.rules import Rules
from adapters.store.jobs import SqlJobs
from adapters.ticket import Ticket
from core.errors import ChannelBusy, ChannelError, ChannelGone, LeaseLost
from core.fail_open import reason_of
from core.metrics import CHANNEL_RETRIES

T = TypeVar("T")
log = logging.getLogger(__name__)

Sure = Callable[[Job], Awaitable[None]]
"""Raises `LeaseLost` if the job is not ours any more."""


class Outbox:
    """Delivers, on any of the channels."""

    def __init__(self, jobs: SqlJobs, channels: Mapping[str, Channel], rules: Rules, sure: Sure) -> None:
        self._jobs, self._channels, self.rules, self.sure = jobs, channels, rules, sure

    def channel(self, job: Job) -> Channel:
        """Where the job's messages are."""
        return self._channels[job.thread.platform]

    async def create(
        self, ticket: Ticket, post: Post, *, maybe_there: bool, until: asyncio.Event | None = None
    ) -> tuple[str, bool]:
        """The id of the message, and whether it shows `post` already: it does not if it was only found.

        Raises `ChannelError` when `until` is set before it is there.
        """
        channel = self.channel(ticket.job)

        async def look_then_create() -> tuple[str, bool]:
            nonlocal maybe_there
            if maybe_there:
                known = {id_ for part, id_ in ticket.ids.items() if part != post.part}
                found = [id_ for id_ in await channel.find(post) if id_ not in known]
                if found:
                    ticket.doubtful = True
                    return found[0], False
            try:
                return await channel.open(post), True
            except (ChannelBusy, ChannelGone):
                raise
            except Exception:  # whatever it is, the request may have had its effect
                maybe_there = ticket.doubtful = True
                raise

        created = await self.repeated(ticket, look_then_create, until)
        fault("K3")
        return created

    async def deliver(self, ticket: Ticket) -> None:
        """Shows the final bodies, in order, and ends the job. Raises `ChannelGone` if there is no place for them."""
        channel, job = self.channel(ticket.job), ticket.job
        # Of parts that only the growing answer had there is an id and no body.
        parts = [part for part in job.parts if part.body is not None] or job.parts[:1]
        last = parts[-1].number
        for part in parts:
            if part.delivered:
                continue
            post = ticket.post(part.number, part.body or "", Phase.FINAL)
            shows = False
            if part.number not in ticket.ids:
                # A part of an answer that was settled by this process is not there yet; a resumed job's may be.
                ticket.ids[part.number], shows = await self.create(ticket, post, maybe_there=ticket.doubtful)
            if not shows:
                await self._edit(ticket, channel, post)
            fault("K11")
            if part.number == last:
                await self._remove_surplus(ticket, channel, last)
                await self._settle_doubts(ticket, parts)
                ticket.closing = True
            message_id = ticket.ids[part.number]
            await self._stored(job, part.number, message_id, last=part.number == last)
            fault("K12")

    async def remove(self, ticket: Ticket) -> None:
        """Takes all our messages for the job away, and ends it."""
        channel, job = self.channel(ticket.job), ticket.job
        post = ticket.post(0, "", Phase.FINAL)
        try:
            found = await self.repeated(ticket, lambda: channel.find(post))
            for message_id in dict.fromkeys([*ticket.ids.values(), *found]):
                await self.repeated(ticket, partial(channel.remove, message_id, post))
        except ChannelGone:
            pass  # What is gone cannot be seen.
        ticket.closing = True
        await self.rules.patiently(lambda: self._jobs.end(job, JobState.CANCELLED))

    async def repeated(self, ticket: Ticket, call: Callable[[], Awaitable[T]], until: asyncio.Event | None = None) -> T:
        """The result of a request that may be repeated, repeated until there is one, or until `until` is set."""
        tries = 0
        while True:
            await self.sure(ticket.job)
            try:
                return await call()
            except (ChannelGone, LeaseLost):
                raise
            except Exception as error:  # a channel is somebody else's code: logged and repeated, never the end of a job
                if ticket.age() > self.rules.give_up:
                    raise ChannelGone("The platform did not take the message for a day.") from error
                tries += 1
                await ticket.pause(self.trouble(error, tries), until)
                if until is not None and until.is_set():
                    raise ChannelError from error

    def trouble(self, error: Exception, tries: int) -> float:
        """Counts and logs a request that failed; seconds until it is repeated."""
        CHANNEL_RETRIES.labels(reason=reason_of(error)).inc()
        if isinstance(error, ChannelError):
            log.info("A message is tried again: %s", error)
        else:
            log.error("A channel failed on an unexpected error", exc_info=error)
        return self.rules.backoff(tries, error.retry_after if isinstance(error, ChannelError) else None)

    async def _edit(self, ticket: Ticket, channel: Channel, post: Post) -> None:
        await self.repeated(ticket, lambda: channel.edit(ticket.ids[post.part], post))

    async def _stored(self, job: Job, part: int, message_id: str, *, last: bool) -> None:
        await self.rules.patiently(lambda: self._jobs.delivered(job, part, message_id, last=last))

    async def _remove_surplus(self, ticket: Ticket, channel: Channel, last: int) -> None:
        """Parts that the growing answer had and the final one does not need."""
        for number in [number for number in ticket.ids if number > last]:
            post = ticket.post(number, "", Phase.FINAL)
            await self.repeated(ticket, partial(channel.remove, ticket.ids[number], post))
            del ticket.ids[number]

    async def _settle_doubts(self, ticket: Ticket, parts: Sequence[Part]) -> None:
        """A request whose reply was lost may have had its effect later: a second message, an old text."""
        if not ticket.doubtful:
            return
        channel = self.channel(ticket.job)
        await ticket.pause(self.rules.settling)
        posts = [ticket.post(part.number, part.body or "", Phase.FINAL) for part in parts]
        for message_id in await self.repeated(ticket, lambda: channel.find(posts[0])):
            if message_id not in ticket.ids.values():
                await self.repeated(ticket, partial(channel.remove, message_id, posts[0]))
        for post in posts:
            await self._edit(ticket, channel, post)
