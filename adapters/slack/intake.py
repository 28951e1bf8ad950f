"""What people say on Slack -> questions for the dispatcher, stored before this returns."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol

from adapters.addressing import Addressee, FollowUps, is_question, says_solved
from adapters.jobs import Admitted, Edited
from adapters.ports import Aside, Inbound, Readers, StoredTurn, ThreadKey, opener_of, platform_order
from adapters.slack import rendering
from adapters.slack.channel import PLATFORM
from adapters.slack.events import Gone, Json, Rewritten, Said, what_happened
from adapters.slack.files import Files
from adapters.slack.line import time_is_over
from adapters.slack.listening import Listening
from adapters.slack.names import Names
from adapters.slack.pane import Pane
from adapters.slack.setup import SlackSetup
from adapters.slack.text import mentioned, readable
from adapters.slack.web import SlackWeb
from adapters.slack.whisper import Whisper
from adapters.takeover import Change, Takeovers
from core.errors import ChannelError
from core.sanitize import is_blank

log = logging.getLogger(__name__)

LOOK_BACK_SECONDS: Final = 1.2
"""For the messages of a thread: the event at hand has to be acknowledged within three."""
LOOKED_BACK: Final = 200
"""Messages of a thread that tell whether people have taken over."""
NOT_HERE: Final = "I do not answer in this channel."
NOT_ALONE: Final = "I answer in channels only: mention me there."
TOO_MANY: Final = "Too many questions are waiting, so I did not take yours. Please ask again in a few minutes."
EDITED: Final = "Your question reads otherwise now. I remember it so; the answer is still that to the old words."


class Desk(Protocol):
    """Takes questions: the dispatcher."""

    async def admit(self, inbound: Inbound) -> Admitted | None: ...

    async def edited(self, inbound: Inbound) -> Edited: ...

    async def deleted(self, thread: ThreadKey, message_id: str) -> None: ...


class Keys(Protocol):
    """What names the messages of a turn."""

    async def key_of(self, turn: int) -> str | None: ...


class Conversations(Protocol):
    """What is known of the conversations already."""

    @property
    def lookups(self) -> Keys: ...

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
        whisper: Whisper,
        *,
        team: str,
        me: str,
    ) -> None:
        self._setup, self._web, self._desk, self._known = setup, web, desk, known
        self._names, self._pane, self._whisper = names, pane, whisper
        self._files = Files(setup.bot_token, setup.api_base_url)
        self._listening = Listening(web, names, me)
        self._team, self._me = team, me
        self._takeovers: Takeovers[tuple[str, str]] = Takeovers()
        """Threads that people have taken over."""

    async def hear(self, event: Json, until: float | None = None) -> bool:
        """An event about a message: whether it was a question that was not known yet. Nothing is looked up on Slack
        after `until`, by the monotonic clock; None stands for a while from now.

        Raises `ThreadwiseError` if it could not be stored.
        """
        return await self._heard_of(event, time_is_over() if until is None else until, missed=False)

    async def found(self, event: Json) -> bool:
        """As `hear`, for a message that was missed when it was said."""
        return await self._heard_of(event, time_is_over(), missed=True)

    def gap(self) -> None:
        """Messages may have been missed from now on, or until now."""
        self._takeovers.gap()

    async def _heard_of(self, event: Json, until: float, *, missed: bool) -> bool:
        match what_happened(event, self._me):
            case Said() as said if self._is_open(said):
                turns = await self._known.turns(self._key(said.channel, said.thread)) if said.in_thread else []
                if any(turn.message_id == said.ts for turn in turns):
                    return False
                if await self._is_question(said, turns, until, missed=missed):
                    return await self._ask(said, turns, until)
            case Said() as said if said.direct or self._me in mentioned(said.text):
                self._whisper.soon(said.channel, said.user, NOT_ALONE if said.direct else NOT_HERE, _under(said))
            case Rewritten(message=said):
                await self._edited(said, until)
            case Gone() as gone:
                await self._desk.deleted(self._key(gone.channel, gone.thread), gone.ts)
        return False

    def _is_open(self, said: Said) -> bool:
        """Whether the bot speaks there at all."""
        if said.direct:
            return self._setup.direct_messages
        return self._setup.answers_in(self._team, said.channel)

    async def _is_question(self, said: Said, turns: list[StoredTurn], until: float, *, missed: bool) -> bool:
        people = mentioned(said.text)
        to_us = said.direct or self._me in people
        # The thread under a question is the bot's own; one that it was called into is not.
        ours = any(turn.message_id == said.thread for turn in turns)
        quiet = ours and self._setup.follow_ups is not FollowUps.MENTION and await self._is_quiet(said, until)
        takes_over = self._takes_over(said.user, said.text)
        if to_us or takes_over:
            change = Change(platform_order(said.ts), taken=not to_us)
            opens = not (said.in_thread or missed)
            self._takeovers.note((said.channel, said.thread), change, opens=opens)
        return is_question(
            Addressee(
                to_us=to_us,
                to_others=any(person != self._me for person in people),
                ours=ours,
                by_asker=opener_of(turns) == said.user,
                quiet=quiet or takes_over,
            ),
            self._setup.follow_ups,
        )

    # -------------------------------------------------------------------------------- people taking over

    async def _is_quiet(self, said: Said, until: float) -> bool:
        return await self._takeovers.is_taken(
            (said.channel, said.thread), platform_order(said.ts), lambda: self._look_back(said, until)
        )

    async def _look_back(self, said: Said, until: float) -> list[Change]:
        """Who had the thread when, by what was said in it so far."""
        question = {"channel": said.channel, "ts": said.thread, "limit": LOOKED_BACK}
        try:
            left = min(LOOK_BACK_SECONDS, until - time.monotonic())
            page = await asyncio.wait_for(self._web.call("conversations.replies", **question), left)
        except (TimeoutError, ChannelError) as error:
            log.info("Not known whether people have taken over a thread: %s", error or "no answer in time")
            return []
        changes = []
        for message in page.get("messages") or []:
            one = what_happened({**message, "channel": said.channel}, self._me)
            if isinstance(one, Said):
                to_us = self._me in mentioned(one.text)
                if to_us or self._takes_over(one.user, one.text):
                    changes.append(Change(platform_order(one.ts), taken=not to_us))
        return changes

    def _takes_over(self, user: str, text: str) -> bool:
        return self._setup.is_staff(self._team, user) or says_solved(text)

    # ----------------------------------------------------------------------------------------- submitting

    async def _ask(self, said: Said, turns: list[StoredTurn], until: float) -> bool:
        # Side by side: the event has to be acknowledged within three seconds.
        inbound, heard = await asyncio.gather(self._inbound(said, until), self._heard(said, turns, until))
        if is_blank(inbound.text) and not inbound.unread:
            # A mention without a word asks about what a person said last above it.
            last = next((aside for aside in reversed(heard) if aside.by_person and not is_blank(aside.text)), None)
            # These words need not be the asker's own.
            inbound = replace(inbound, text=last.text if last else "", readers=Readers.UNKNOWN)
            heard = tuple(aside for aside in heard if aside is not last)
        admitted = await self._desk.admit(replace(inbound, heard=heard))
        if admitted is None:
            return False
        if admitted.refused and admitted.job is None:
            # So many are refused that the thread is told nothing: who asked still is.
            self._whisper.soon(said.channel, said.user, TOO_MANY, _under(said))
        elif said.direct and not admitted.refused:
            self._pane.working(said.channel, said.thread, inbound.text, first=not said.in_thread)
        return True

    async def _heard(self, said: Said, turns: list[StoredTurn], until: float) -> tuple[Aside, ...]:
        return await self._listening.before(said, turns, until) if said.in_thread else ()

    async def _edited(self, said: Said, until: float) -> None:
        inbound = await self._inbound(said, until)
        if await self._desk.edited(inbound) is not Edited.STORED:
            return
        asked = (turn for turn in await self._known.turns(inbound.thread) if turn.message_id == said.ts)
        key = await self._known.lookups.key_of(turn.id) if (turn := next(asked, None)) else None
        if key is not None:
            again = rendering.buttons(("Answer it again", rendering.TRY_AGAIN), value=key)
            self._whisper.soon(said.channel, said.user, EDITED, said.thread, [rendering.section(EDITED), again])

    async def _inbound(self, said: Said, until: float) -> Inbound:
        user, channel = partial(self._names.user, until=until), partial(self._names.channel, until=until)
        typed, author = await asyncio.gather(readable(said.text, self._me, user, channel), user(said.user))
        text, unread = await self._files.read(typed, said.files, until)
        return Inbound(
            message_id=said.ts,
            thread=self._key(said.channel, said.thread),
            author_id=said.user,
            author=author,
            text=text,
            unread=unread,
            sent_at=datetime.fromtimestamp(float(said.ts), UTC),
            readers=_readers(said),
            order=platform_order(said.ts),
        )

    def _key(self, channel: str, thread: str) -> ThreadKey:
        return ThreadKey(platform=PLATFORM, workspace=self._team, channel=channel, thread=thread)


def _readers(said: Said) -> Readers:
    """Who reads the conversation. What a file says is not said by whoever sends it."""
    if said.files:
        return Readers.UNKNOWN
    return Readers.ALONE if said.direct else Readers.CHANNEL


def _under(said: Said) -> str:
    """Where what only its author sees is shown: in the thread, if it is in one."""
    return said.thread if said.in_thread else ""
