"""What was said in a thread and not put to the bot: it is told of it when it is asked.

Slack lists a thread from its beginning, so all of it is read, in large pages; once read, it is kept with the question.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import Final

from adapters.asides import LONGEST, within
from adapters.ports import AGAIN, Aside, StoredTurn
from adapters.slack.events import Json, Said
from adapters.slack.names import Names
from adapters.slack.text import readable
from adapters.slack.web import SlackWeb
from core.errors import ChannelError

log = logging.getLogger(__name__)

SECONDS: Final = 1.5
"""For all of it: the event at hand has to be acknowledged within three."""
PAGE: Final = 999
FOR_WORDS: Final = 0.3
"""Seconds before the end after which no name is waited for: what was said counts for more than who it names."""
MOST_PAGES: Final = 3
LOOKED_BACK: Final = 50
"""Messages, the first one of the thread aside."""


class Listening:
    """For one workspace."""

    def __init__(self, web: SlackWeb, names: Names, me: str) -> None:
        self._web, self._names, self._me = web, names, me

    async def before(self, said: Said, turns: list[StoredTurn], until: float) -> tuple[Aside, ...]:
        """What the bot has to know of before `said`, oldest first; `turns` it knows. Nothing if it cannot be had
        until a moment of the monotonic clock."""
        now = time.monotonic()
        until = min(until, now + SECONDS)
        try:
            return await asyncio.wait_for(self._before(said, turns, until - FOR_WORDS), until - now)
        except (TimeoutError, ChannelError) as error:
            log.info("What was said before a question could not be read: %s", error or "no answer in time")
            return ()

    async def _before(self, said: Said, turns: list[StoredTurn], until: float) -> tuple[Aside, ...]:
        known = {turn.message_id for turn in turns}
        last = max((turn.message_id.partition(AGAIN)[0] for turn in turns), default="")
        messages = [
            message
            for message in await self._thread(said, last)
            if last < str(message.get("ts")) < said.ts
            and message["ts"] not in known
            and message.get("text")
            # What it said itself is in the memory, if there is one.
            and not (turns and message.get("user") == self._me)
        ]
        first, rest = messages[:1], messages[1:][-LOOKED_BACK:]
        return within([await self._aside(message, until) for message in [*first, *rest]])

    async def _thread(self, said: Said, oldest: str) -> list[Json]:
        found: list[Json] = []
        cursor = ""
        for _ in range(MOST_PAGES):
            where = {"channel": said.channel, "ts": said.thread, "latest": said.ts, "limit": PAGE}
            where |= {"oldest": oldest} if oldest else {}
            page = await self._web.call("conversations.replies", **where, **({"cursor": cursor} if cursor else {}))
            found += page.get("messages") or []
            cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                break
        return list({message["ts"]: message for message in found}.values())

    async def _aside(self, message: Json, until: float) -> Aside:
        user, channel = partial(self._names.user, until=until), partial(self._names.channel, until=until)
        text = await readable(str(message["text"]), self._me, user, channel)
        return Aside(
            message_id=str(message["ts"]),
            author=await self._author(message, until),
            text=text[:LONGEST],
            by_person=not message.get("bot_id") and message.get("user") != self._me,
        )

    async def _author(self, message: Json, until: float) -> str:
        user = str(message.get("user") or "")
        if message.get("bot_id") and user != self._me:
            named: Json = message.get("bot_profile") or {}
            return f"{message.get('username') or named.get('name') or 'App'} (a bot)"
        return await self._names.user(user, until) if user else "somebody"
