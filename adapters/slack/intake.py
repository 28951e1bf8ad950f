"""What people say on Slack -> questions for the dispatcher, stored before this returns."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Protocol

from adapters.addressing import Addressee, FollowUps, is_question, says_solved
from adapters.jobs import Admitted, Edited
from adapters.ports import Inbound, StoredTurn, ThreadKey, platform_order
from adapters.slack.channel import PLATFORM
from adapters.slack.events import Gone, Json, Rewritten, Said, what_happened
from adapters.slack.listening import Listening
from adapters.slack.names import Names
from adapters.slack.pane import Pane
from adapters.slack.setup import SlackSetup
from adapters.slack.text import mentioned, readable
from adapters.slack.web import SlackWeb
from core.errors import ChannelError

log = logging.getLogger(__name__)

LOOK_BACK_SECONDS: Final = 1.2
"""For the messages of a thread: the event at hand has to be acknowledged within three."""
LOOKED_BACK: Final = 200
"""Messages of a thread that tell whether people have taken over."""
MOST_THREADS: Final = 10_000
"""Of which it is kept in mind whether people have taken over."""


class Desk(Protocol):
    """Takes questions: the dispatcher."""

    async def admit(self, inbound: Inbound) -> Admitted | None: ...

    async def edited(self, inbound: Inbound) -> Edited: ...

    async def deleted(self, thread: ThreadKey, message_id: str) -> None: ...


class Conversations(Protocol):
    """What is known of the conversations already."""

    async def turns(self, thread: ThreadKey) -> list[StoredTurn]: ...


class Intake:
    """For one workspace. The event may be acknowledged when a call returns, and must not be when it raises."""

    def __init__(
        self,
        setup: SlackSetup,
        web: SlackWeb,
        desk: Desk,
        known: Conversations,
        names: Names,
        pane: Pane,
        *,
        team: str,
        me: str,
    ) -> None:
        self._setup, self._web, self._desk, self._known = setup, web, desk, known
        self._names, self._pane = names, pane
        self._listening = Listening(web, names, me)
        self._team, self._me = team, me
        self._quiet: OrderedDict[tuple[str, str], bool] = OrderedDict()
        """Threads that people have taken over."""

    async def hear(self, event: Json) -> bool:
        """An event about a message: whether it was a question that was not known yet.

        Raises `ThreadwiseError` if it could not be stored.
        """
        match what_happened(event, self._me):
            case Said() as said if self._is_open(said):
                turns = await self._known.turns(self._key(said.channel, said.thread)) if said.in_thread else []
                if any(turn.message_id == said.ts for turn in turns):
                    return False
                if await self._is_question(said, turns):
                    return await self._ask(said, turns)
            case Rewritten(message=said):
                await self._desk.edited(await self._inbound(said))
            case Gone() as gone:
                await self._desk.deleted(self._key(gone.channel, gone.thread), gone.ts)
        return False

    def _is_open(self, said: Said) -> bool:
        """Whether the bot speaks there at all."""
        if said.direct:
            return self._setup.direct_messages
        return not self._setup.channels or said.channel in self._setup.channels

    async def _is_question(self, said: Said, turns: list[StoredTurn]) -> bool:
        people = mentioned(said.text)
        to_us = said.direct or self._me in people
        # The thread under a question is the bot's own; one that it was called into is not.
        ours = any(turn.message_id == said.thread for turn in turns)
        quiet = ours and self._setup.follow_ups is not FollowUps.MENTION and await self._is_quiet(said)
        self._note(said.channel, said.thread, said.user, said.text, to_us=to_us)
        return is_question(
            Addressee(
                to_us=to_us,
                to_others=any(person != self._me for person in people),
                ours=ours,
                by_asker=bool(turns) and turns[0].author_id == said.user,
                quiet=quiet or self._takes_over(said.user, said.text),
            ),
            self._setup.follow_ups,
        )

    # -------------------------------------------------------------------------------- people taking over

    async def _is_quiet(self, said: Said) -> bool:
        thread = said.channel, said.thread
        if thread not in self._quiet:
            self._keep(thread, quiet=False)
            await self._look_back(said)
        return self._quiet[thread]

    async def _look_back(self, said: Said) -> None:
        """What was said before this process heard of the thread."""
        question = {"channel": said.channel, "ts": said.thread, "latest": said.ts, "limit": LOOKED_BACK}
        try:
            page = await asyncio.wait_for(self._web.call("conversations.replies", **question), LOOK_BACK_SECONDS)
        except (TimeoutError, ChannelError) as error:
            log.info("Not known whether people have taken over a thread: %s", error or "no answer in time")
            return
        for message in page.get("messages") or []:
            before = what_happened({**message, "channel": said.channel}, self._me)
            if isinstance(before, Said) and before.ts != said.ts:
                self._note(
                    said.channel, said.thread, before.user, before.text, to_us=self._me in mentioned(before.text)
                )

    def _note(self, channel: str, thread: str, user: str, text: str, *, to_us: bool) -> None:
        """Keeps in mind what a message means for those after it."""
        if to_us:
            self._keep((channel, thread), quiet=False)
        elif self._takes_over(user, text):
            self._keep((channel, thread), quiet=True)

    def _takes_over(self, user: str, text: str) -> bool:
        return user in self._setup.staff or says_solved(text)

    def _keep(self, thread: tuple[str, str], *, quiet: bool) -> None:
        self._quiet[thread] = quiet
        self._quiet.move_to_end(thread)
        while len(self._quiet) > MOST_THREADS:
            self._quiet.popitem(last=False)

    # ----------------------------------------------------------------------------------------- submitting

    async def _ask(self, said: Said, turns: list[StoredTurn]) -> bool:
        heard = await self._listening.before(said, turns) if said.in_thread else ()
        unread = tuple(str(file.get("name") or "a file") for file in said.files)
        inbound = replace(await self._inbound(said), heard=heard, unread=unread)
        admitted = await self._desk.admit(inbound)
        if said.direct and admitted is not None and not admitted.refused:
            self._pane.working(said.channel, said.thread, inbound.text, first=not said.in_thread)
        return admitted is not None

    async def _inbound(self, said: Said) -> Inbound:
        return Inbound(
            message_id=said.ts,
            thread=self._key(said.channel, said.thread),
            author_id=said.user,
            author=await self._names.user(said.user),
            text=await readable(said.text, self._me, self._names.user, self._names.channel),
            sent_at=datetime.fromtimestamp(float(said.ts), UTC),
            order=platform_order(said.ts),
        )

    def _key(self, channel: str, thread: str) -> ThreadKey:
        return ThreadKey(platform=PLATFORM, workspace=self._team, channel=channel, thread=thread)
