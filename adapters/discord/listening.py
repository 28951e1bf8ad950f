"""What was said in a thread and not put to the bot: it is told of it when it is asked.

The first question in a thread brings what stands before it, the message that the thread was opened on included;
a later one what was said since the question before. Once read, it is kept with the question.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import discord

from adapters.asides import LONGEST, within
from adapters.discord import reading
from adapters.ports import AGAIN, Aside, ThreadKey
from adapters.store import SqlConversationStore

log = logging.getLogger(__name__)

LOOKED_BACK: Final = 50


class Listening:
    """Reads threads, and knows those in which nothing new was said."""

    def __init__(self, store: SqlConversationStore) -> None:
        self._store = store
        self._nothing_new: set[int] = set()

    def overheard(self, place: int) -> None:
        """Something was said there that is no question."""
        self._nothing_new.discard(place)

    async def before(self, message: discord.Message, thread: ThreadKey, us: discord.ClientUser) -> tuple[Aside, ...]:
        """What the bot has to know of before `message`, oldest first."""
        place = message.channel
        try:
            if isinstance(place, discord.Thread):
                if place.id in self._nothing_new:
                    return ()
                heard = await self._in_thread(message, place, thread, us)
                self._nothing_new.add(place.id)
                return heard
            return _asides([m for m in (_replied_to(message),) if m is not None], message, us)
        except (discord.DiscordException, OSError) as error:
            log.warning("What was said before a question could not be read: %s", type(error).__name__)
            return ()

    async def _in_thread(
        self, message: discord.Message, place: discord.Thread, thread: ThreadKey, us: discord.ClientUser
    ) -> tuple[Aside, ...]:
        turns = await self._store.turns(thread)
        known = {int(turn.message_id.rpartition(AGAIN)[2]) for turn in turns}
        last = max(known, default=0)
        earlier = []
        async for before in place.history(limit=LOOKED_BACK, before=message):
            if before.id <= last:
                break
            # What it said itself is in the memory, if there is one.
            if before.id not in known and not (turns and before.author.id == us.id):
                earlier.append(before)
        earlier.reverse()
        if not turns and message.id != place.id and place.id not in {m.id for m in earlier}:
            earlier = [*await _starter(place), *earlier]
        return _asides(earlier, message, us, title=place.name if not turns else "")


async def _starter(thread: discord.Thread) -> list[discord.Message]:
    """The message that a thread was opened on: it stands in the parent, in a forum in the thread itself."""
    parent = thread.parent
    with suppress(discord.NotFound, discord.Forbidden):
        if isinstance(parent, discord.TextChannel):
            return [await parent.fetch_message(thread.id)]
        return [await thread.fetch_message(thread.id)]
    return []


def _replied_to(message: discord.Message) -> discord.Message | None:
    replied = message.reference.resolved if message.reference is not None else None
    return replied if isinstance(replied, discord.Message) else None


def _asides(
    messages: Iterable[discord.Message], asked: discord.Message, us: discord.ClientUser, title: str = ""
) -> tuple[Aside, ...]:
    names: dict[str, int] = {asked.author.display_name: asked.author.id}
    asides = []
    for message in messages:
        text = reading.said(message, us) if message.type in reading.CONVERSATION else ""
        if not text:
            continue
        author = message.author
        name = author.display_name
        if names.setdefault(name, author.id) != author.id:
            name = f"{name} ({author.name})"
        if author.bot and author.id != us.id:
            name = f"{name} (a bot)"
        if title and message.id == message.channel.id:
            text = f"{title}\n{text}"
        asides.append(Aside(message_id=str(message.id), author=name, text=text[:LONGEST]))
    return within(asides)
