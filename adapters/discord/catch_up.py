"""What was said while nobody listened, found after the fact.

A resumed session replays what it missed; a new one, after a restart or a long cut, does not. Up to when everything
has been heard is on the disk, so the messages since then are read again, through the same intake, which knows
those that it has taken already. Without such a mark (the first start ever) nothing is replayed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

import discord

from adapters.discord.completing import with_roles
from adapters.discord.delivery import PLATFORM
from adapters.discord.places import PRIVATE
from adapters.fault import fault
from adapters.store import SqlConversationStore
from core.errors import DataDirError

log = logging.getLogger(__name__)

LONGEST_BACK: Final = timedelta(minutes=30)
OVERLAP: Final = timedelta(seconds=150)
"""Messages that were heard may have waited that long for the database."""
IN_CHANNEL: Final = 50
IN_ALL: Final = 100
PRIVATE_CHANNELS: Final = 20
MARK_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 30.0

Hear = Callable[[discord.Message, discord.Client], Awaitable[bool]]
"""Whether the message was a question that was not known yet."""

_Talk = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.Thread


class CatchUp:
    """Reads up after each new session, and keeps the mark while the gateway is there."""

    def __init__(self, store: SqlConversationStore, hear: Hear, missed: asyncio.Event) -> None:
        self._store, self._hear, self._missed = store, hear, missed
        self._listening: asyncio.Task[None] | None = None
        self._behind = False
        """Something may have been said that was not heard, and has not been read."""

    def listen(self, client: discord.Client, *, read_up: bool, everywhere: bool) -> None:
        """Something more is heard now. With `read_up`, what was said there before is read again; `everywhere`: nothing
        is missed from now on."""
        self._behind = self._behind or read_up
        self.pause()
        self._listening = asyncio.create_task(self._listen(client, everywhere=everywhere))

    def pause(self) -> None:
        """Something is not heard now; what is being read up is looked for again."""
        if self._listening is not None:
            self._listening.cancel()

    async def _listen(self, client: discord.Client, *, everywhere: bool) -> None:
        while True:
            try:
                if self._behind:
                    self._missed.clear()
                    await self.read_up(client)
                    self._behind = False
                while not self._missed.is_set():
                    if everywhere:
                        await self._store.lookups.mark(PLATFORM, datetime.now(UTC))
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._missed.wait(), MARK_SECONDS)
            except (discord.DiscordException, DataDirError, OSError) as error:
                log.warning("What was missed on Discord could not be read (%s); tried again", type(error).__name__)
            self._behind = True
            await asyncio.sleep(AGAIN_SECONDS)

    async def read_up(self, client: discord.Client) -> int:
        """How many questions were found."""
        mark = await self._store.lookups.heard_until(PLATFORM)
        if mark is None:
            return 0
        since = max(mark - OVERLAP, datetime.now(UTC) - LONGEST_BACK)
        messages = [message async for message in self._since(since, client)]
        found = 0
        for message in sorted(messages, key=lambda message: message.id):
            if found >= IN_ALL:
                log.warning("More than %d questions were missed; the rest is not answered", IN_ALL)
                break
            fault("K13")
            found += await self._hear(message, client)
        if found:
            log.warning("%d questions that were missed on Discord are answered now", found)
        return found

    async def _since(self, since: datetime, client: discord.Client) -> AsyncIterator[discord.Message]:
        for place in [*_places(since, client), *await self._private(client)]:
            try:
                async for message in place.history(limit=IN_CHANNEL):
                    if message.created_at <= since:
                        break
                    yield await with_roles(message)
            except (discord.Forbidden, discord.NotFound):
                continue

    async def _private(self, client: discord.Client) -> list[discord.DMChannel]:
        """Private channels are not told at the start: those that are known."""
        known = [info.key for info in await self._store.threads(PLATFORM, PRIVATE_CHANNELS * 5)]
        channels = []
        for thread in [key for key in known if key.workspace == PRIVATE][:PRIVATE_CHANNELS]:
            with suppress(discord.Forbidden, discord.NotFound):
                channel = await client.fetch_channel(int(thread.channel))
                if isinstance(channel, discord.DMChannel):
                    channels.append(channel)
        return channels


def _places(since: datetime, client: discord.Client) -> list[_Talk]:
    """Channels and threads in which something was said since then."""
    places: list[_Talk] = []
    for guild in client.guilds:
        places += guild.text_channels
        places += guild.voice_channels
        places += guild.stage_channels
        places += guild.threads
    return [
        place
        for place in places
        if place.last_message_id is not None and discord.utils.snowflake_time(place.last_message_id) > since
    ]
