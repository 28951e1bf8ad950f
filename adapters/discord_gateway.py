"""Discord: what is said there comes in, answers go out.

reading      what a message says                    intake       whether it is a question; to the dispatcher
asking       a question as `/ask` shows it          catch_up     what was said while nobody listened
completing   what was not known of its place        access       who may ask, and where
delivery     messages of ours (the `Channel`)       rendering    an answer as Markdown parts and buttons
whereabouts  the thread of an answer                typing_signs while it is awaited
commands     slash commands and menus               buttons      those under our messages
pacing       below the global limit                 buckets      below the limit of a place
connection   getting to the gateway and staying there
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final
from weakref import WeakValueDictionary

import discord

from adapters.discord.access import Access
from adapters.discord.buckets import one_at_a_time
from adapters.discord.buttons import Buttons
from adapters.discord.catch_up import CatchUp, Hear
from adapters.discord.commands import Commands
from adapters.discord.completing import complete, look_up
from adapters.discord.connection import Connection
from adapters.discord.delivery import DiscordDelivery
from adapters.discord.intake import Intake
from adapters.discord.pacing import Pacer
from adapters.discord.places import is_one
from adapters.discord.setup import DiscordSetup
from adapters.dispatcher import Dispatcher
from adapters.store import SqlConversationStore
from core.errors import ChannelError

log = logging.getLogger(__name__)

GUILDS_SECONDS: Final = 2.0
"""After this long without another server the gateway has told of all."""
LONGEST_WAIT: Final = 30.0
"""Seconds that discord.py may wait for a limit by itself; a longer pause is the outbox's business."""


class DiscordGateway:
    """The bot on Discord. `channel` is attached to the dispatcher, then `run` runs until it is cancelled."""

    def __init__(self, setup: DiscordSetup, dispatcher: Dispatcher, store: SqlConversationStore) -> None:
        self._setup, self._store = setup, store
        self._pacer = Pacer()
        access = Access(setup)
        self._intake = Intake(setup, access, dispatcher, store)
        self._commands = Commands(access, self._intake, dispatcher, store)
        self._buttons = Buttons(access, self._intake, dispatcher, store, self._commands)
        self._connection = Connection(setup, self._pacer, self._client)
        self.ready = asyncio.Event()
        """The gateway has told of all servers once."""
        self.channel = DiscordDelivery(self._connected, self._pacer, self._intake.titles)

    async def run(self) -> None:
        """Until it is cancelled. Raises `ConfigError` if Discord does not want this bot."""
        try:
            await self._connection.run()
        finally:
            await self.channel.close()

    def _connected(self) -> discord.Client:
        client = self._connection.client
        if client is None or not client.is_ready():
            raise ChannelError("Discord is not connected yet.")
        return client

    def _client(self, intents: discord.Intents) -> discord.Client:
        events = _Events(self._intake, self._buttons, self.ready, self._store, self._setup.shards)
        options: dict[str, Any] = {
            "intents": intents,
            "http_trace": self._pacer.trace(),
            "allowed_mentions": discord.AllowedMentions.none(),
            "max_ratelimit_timeout": LONGEST_WAIT,
            "guild_ready_timeout": GUILDS_SECONDS,
            "max_messages": None,
            "chunk_guilds_at_startup": False,
            "member_cache_flags": discord.MemberCacheFlags.none(),
        }
        if self._setup.shards > 1:
            return _ShardedClient(events, self._commands, shard_count=self._setup.shards, **options)
        return _Client(events, self._commands, **options)


class _Events:
    """What the client hears: one after the other in a conversation, side by side elsewhere."""

    def __init__(
        self, intake: Intake, buttons: Buttons, ready: asyncio.Event, store: SqlConversationStore, shards: int
    ) -> None:
        self._intake, self._buttons, self._ready = intake, buttons, ready
        self._catch_up = CatchUp(store, self._found, intake.missed)
        self._in_turn: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._away = set(range(shards))
        """Shards that are not connected, or have not told of their servers: what is said there is not heard."""
        self._anew = False
        """One of them began a session that replays nothing."""

    def began(self, shard: int = 0) -> None:
        """A session that replays nothing; its servers are being told."""
        self._anew = True
        self._intake.gap()
        self.lost(shard)

    def there(self, client: discord.Client, shard: int = 0) -> None:
        """Its servers are known, or what it missed has been replayed: from now on it hears."""
        if shard not in self._away:
            return
        self._away.discard(shard)
        if not self._away:
            self._ready.set()
        anew, self._anew = self._anew, False
        self._catch_up.listen(client, read_up=anew, everywhere=not self._away)

    def lost(self, shard: int = 0) -> None:
        """Nothing is heard from it now."""
        self._away.add(shard)
        self._catch_up.pause()

    def closed(self) -> None:
        """Nothing is heard at all."""
        self._catch_up.pause()

    async def message(self, message: discord.Message, client: discord.Client) -> None:
        await _logged(self._in_order(message, client, self._intake.heard))

    async def _found(self, message: discord.Message, client: discord.Client) -> bool:
        return await self._in_order(message, client, self._intake.found)

    async def _in_order(self, message: discord.Message, client: discord.Client, take: Hear) -> bool:
        await complete(message, client)
        async with self._turn(message):
            return await take(message, client)

    async def edit(self, event: discord.RawMessageUpdateEvent, client: discord.Client) -> None:
        if client.user is not None and "content" in event.data:
            self._intake.lately.edit(event.message)
            await complete(event.message, client)
            async with self._turn(event.message):
                await _logged(self._intake.edited(event.message, client.user))

    async def delete(self, guild: int | None, channel: int, messages: set[int], client: discord.Client) -> None:
        self._intake.lately.delete(messages)
        place = await look_up(channel, client)
        for message in sorted(messages):
            await _logged(self._intake.deleted(place, guild, channel, message))

    async def button(self, interaction: discord.Interaction) -> None:
        await _logged(self._buttons.pressed(interaction))

    def _turn(self, message: discord.Message) -> asyncio.Lock:
        # What is said in a conversation means something for what comes after it, and handling it may take a while.
        # In a channel each mention is a conversation of its own.
        conversation = message.channel if is_one(message.channel) else message
        return self._in_turn.setdefault(conversation.id, asyncio.Lock())

    def gone(self, guild: int, place: int | None = None) -> None:
        self._intake.place_gone(guild, place)

    def thread(self, thread: discord.Thread) -> None:
        self._intake.thread_changed(thread)


class _Heard(discord.Client):
    """Passes on what it hears."""

    def __init__(self, events: _Events, commands: Commands, **options: Any) -> None:
        super().__init__(**options)
        self.http.request = one_at_a_time(self.http.request)  # type: ignore[assignment,method-assign]  # there is no hook
        self._events = events
        self._tree = commands.register(self)

    async def setup_hook(self) -> None:
        try:
            await self._tree.sync()
        except discord.HTTPException as error:
            log.warning("The slash commands could not be registered (%s); mentions work all the same", error.status)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        if interaction.type is discord.InteractionType.component:
            await self._events.button(interaction)

    async def close(self) -> None:
        self._events.closed()
        await super().close()

    async def on_message(self, message: discord.Message) -> None:
        await self._events.message(message, self)

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        await self._events.edit(event, self)

    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        await self._events.delete(event.guild_id, event.channel_id, {event.message_id}, self)

    async def on_raw_bulk_message_delete(self, event: discord.RawBulkMessageDeleteEvent) -> None:
        await self._events.delete(event.guild_id, event.channel_id, event.message_ids, self)

    async def on_thread_update(self, before: discord.Thread, after: discord.Thread) -> None:
        self._events.thread(after)

    async def on_raw_thread_delete(self, event: discord.RawThreadDeleteEvent) -> None:
        self._events.gone(event.guild_id, event.thread_id)

    async def on_guild_channel_delete(self, channel: discord.abc.GuildChannel) -> None:
        self._events.gone(channel.guild.id, channel.id)

    async def on_guild_remove(self, guild: discord.Guild) -> None:
        self._events.gone(guild.id)

    async def on_error(self, event_method: str, /, *args: Any, **kwargs: Any) -> None:
        log.exception("Handling %s failed", event_method)


class _Client(_Heard):
    async def on_connect(self) -> None:
        self._events.began()

    async def on_ready(self) -> None:
        # It comes a while after the session began, which may be cut again.
        if self.ws.open:
            self._events.there(self)

    async def on_resumed(self) -> None:
        self._events.there(self)

    async def on_disconnect(self) -> None:
        self._events.lost()


class _ShardedClient(_Heard, discord.AutoShardedClient):
    async def on_shard_connect(self, shard_id: int) -> None:
        self._events.began(shard_id)

    async def on_shard_ready(self, shard_id: int) -> None:
        if not self.shards[shard_id].is_closed():
            self._events.there(self, shard_id)

    async def on_ready(self) -> None:
        # A shard that is cut while all of them start takes the news of the others along (seen with 2.7.1).
        for shard_id in self.shards:
            await self.on_shard_ready(shard_id)

    async def on_shard_resumed(self, shard_id: int) -> None:
        self._events.there(self, shard_id)

    async def on_shard_disconnect(self, shard_id: int) -> None:
        self._events.lost(shard_id)


async def _logged(work: Coroutine[Any, Any, Any]) -> None:
    """An event that cannot be handled is no reason to miss the next one."""
    try:
        await work
    except asyncio.CancelledError:
        raise
    except Exception:  # the outer boundary of an event
        log.exception("An event could not be handled")
