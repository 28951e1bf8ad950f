"""Messages on Discord become questions, or are left alone.

Discord does not repeat a message, so one that cannot be stored at once is tried again here, and what is
missed all the same is found by the catch-up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, TypeVar
from urllib.parse import urlsplit

import discord

from adapters.addressing import Addressee, FollowUps, is_question, labelled_solved, says_solved, title_of
from adapters.attachments import File, with_files
from adapters.discord import asking, reading
from adapters.discord.access import Access
from adapters.discord.completing import member
from adapters.discord.delivery import PLATFORM
from adapters.discord.lately import Lately
from adapters.discord.listening import Listening
from adapters.discord.places import Place, is_one, is_private, key, key_in, parent_of, readers_of
from adapters.discord.setup import DiscordSetup
from adapters.discord.whereabouts import LONGEST_NAME, NO_TITLE
from adapters.dispatcher import Dispatcher
from adapters.ports import AGAIN, Inbound, Readers, ThreadKey, opener_of, platform_order
from adapters.store import SqlConversationStore
from adapters.takeover import Change, Takeovers
from core.errors import ThreadwiseError

log = logging.getLogger(__name__)
T = TypeVar("T")

ASK_SOMETHING: Final = "Ask me something about the documents: write your question after my name."
CANNOT_READ: Final = "I can read text files only. Write your question, or paste the text."
FILE_HOSTS: Final = frozenset({"cdn.discordapp.com", "media.discordapp.net"})
MOST_TITLES: Final = 1000
LOOKED_BACK: Final = 50
"""Messages of a thread that tell whether people have taken over."""
ADMIT_SECONDS: Final = 120.0
"""How long a message is tried again that cannot be stored."""


@dataclass(frozen=True, slots=True)
class _Where:
    """A message's conversation, and whether it is a reply in a channel to something that the bot said."""

    thread: ThreadKey
    replies_to_us: bool


class Intake:
    """Decides and submits. `client` is the one that heard the message."""

    def __init__(
        self, setup: DiscordSetup, access: Access, dispatcher: Dispatcher, store: SqlConversationStore
    ) -> None:
        self._setup, self._access, self._dispatcher, self._store = setup, access, dispatcher, store
        self._listening = Listening(store)
        self.lately = Lately()
        """Is told first of what was edited and deleted."""
        self._file_hosts = FILE_HOSTS | ({urlsplit(setup.api_base_url).netloc} if setup.api_base_url else set())
        self.titles: dict[str, str] = {}
        """What the threads of questions that were just taken are to be called."""
        self._takeovers: Takeovers[int] = Takeovers()
        self.missed = asyncio.Event()
        """A message could not be stored: the catch-up has to look again."""

    async def heard(self, message: discord.Message, client: discord.Client) -> bool:
        """Whether the message was a question that was not known yet."""
        us = client.user
        if us is None or message.author.bot or message.webhook_id or message.type not in reading.CONVERSATION:
            return False
        message = self.lately.newest(message)
        place = message.channel
        if not self._access.open_place(place):
            return False
        text = reading.said(message, us)
        mentioned = reading.mentions(message, us)
        if not message.content and not message.attachments and not is_private(place):
            return False  # Without the intent nothing of it can be seen.
        where = await self._where(message, us)
        asked = is_question(
            Addressee(
                to_us=mentioned or where.replies_to_us or is_private(place) or self._opens_forum_post(message),
                to_others=_is_to_others(message, us),
                ours=isinstance(place, discord.Thread) and place.owner_id == us.id,
                by_asker=await self._is_by_asker(message, where.thread),
                quiet=await self._is_quiet(message, text, mentioned=mentioned),
            ),
            self._setup.follow_ups,
        )
        if not asked or not await self._access.may_ask(message.author, place, client):
            self._listening.overheard(place.id)
            return False
        return await self._submit(message, where.thread, us)

    async def found(self, message: discord.Message, client: discord.Client) -> bool:
        """As `heard`, for a message that was missed: it may be one of ours that shows what was asked by command."""
        question = asking.question_in(message, client.user)
        if question is None or message.interaction_metadata is None:
            return await self.heard(message, client)
        place = message.channel
        asker = await member(message.interaction_metadata.user, message.guild)
        if not await self._access.may_ask(asker, place, client):
            return False
        return await self.asked(message.id, place, asker, question, at=message.created_at)

    async def asked(
        self, message: int, place: Place, author: discord.User | discord.Member, text: str, *, at: datetime
    ) -> bool:
        """A question that stands in `message`, which is ours; whether it was not known yet."""
        self._remember_title(str(message), text)
        inbound = Inbound(
            message_id=str(message),
            thread=key_in(place, message),
            author_id=str(author.id),
            author=author.display_name,
            text=text,
            sent_at=at,
            readers=readers_of(place),
            order=platform_order(str(message)),
        )
        return await self._take(inbound, message)

    def gap(self) -> None:
        """Messages may have been missed from now on, or until now."""
        self._takeovers.gap()

    async def edited(self, message: discord.Message, us: discord.abc.Snowflake) -> None:
        """A message has another text now."""
        if message.author.bot or message.type not in reading.CONVERSATION:
            return
        message = self.lately.newest(message)
        text, _ = await self._text_of(message, us)
        if text:
            await self._dispatcher.edited(self._inbound(message, (await self._where(message, us)).thread, text))

    async def deleted(self, place: Place | None, guild: int | None, channel: int, message: int) -> None:
        """A message is gone. Raises `ThreadwiseError` if that cannot be stored."""

        async def delete() -> None:
            thread = key(guild, parent_of(place) if place is not None else channel, channel)
            # Where the place cannot be told, the question may be known, or is about to be taken: see `_submit`.
            if place is None and (asked := await self._store.lookups.turn_around(PLATFORM, "", str(message))):
                thread = asked.thread
            await self._dispatcher.deleted(thread, str(message))

        await self._patiently(delete)

    def place_gone(self, guild: int, place: int | None) -> None:
        """A thread, a channel, or with None all of a server is gone to us."""
        self._dispatcher.place_gone(PLATFORM, str(guild), str(place) if place is not None else None)

    def thread_changed(self, thread: discord.Thread) -> None:
        """Its name or its tags say something else now."""
        if not self._labelled(thread):
            self._takeovers.drop(thread.id)

    # ------------------------------------------------------------------------------------------- deciding

    async def _where(self, message: discord.Message, us: discord.abc.Snowflake) -> _Where:
        place = message.channel
        reference = message.reference
        if reference is None or reference.message_id is None or message.type is not discord.MessageType.reply:
            return _Where(key_in(place, message.id), replies_to_us=False)
        name = f"{place.id}/{reference.message_id}"
        if is_one(place):
            ours = await _is_ours(reference, us) or await self._conversation_of(name) is not None
            return _Where(key_in(place, message.id), replies_to_us=ours)
        thread = await self._conversation_of(name)
        if thread is not None:
            return _Where(thread, replies_to_us=True)
        return _Where(key_in(place, message.id), replies_to_us=await _is_ours(reference, us))

    async def _conversation_of(self, message_id: str) -> ThreadKey | None:
        return await self._store.lookups.conversation_of(PLATFORM, message_id)

    def _opens_forum_post(self, message: discord.Message) -> bool:
        return message.id == message.channel.id and parent_of(message.channel) in self._setup.forums

    async def _is_by_asker(self, message: discord.Message, thread: ThreadKey) -> bool:
        if self._setup.follow_ups is not FollowUps.ASKER or not isinstance(message.channel, discord.Thread):
            return False
        return opener_of(await self._store.turns(thread)) == str(message.author.id)

    async def _is_quiet(self, message: discord.Message, text: str, *, mentioned: bool) -> bool:
        """Whether people have taken over the thread, with this message or before."""
        thread = message.channel
        if not isinstance(thread, discord.Thread):
            return False
        us = message.guild.me if message.guild is not None else None
        order = platform_order(str(message.id))
        taken = await self._takeovers.is_taken(thread.id, order, lambda: self._look_back(thread, us))
        if mentioned or self._takes_over(text, staff=self._access.is_staff(message.author)):
            taken = not mentioned
            self._takeovers.note(thread.id, Change(order, taken=taken))
        return taken or self._labelled(thread)

    async def _look_back(self, thread: discord.Thread, us: discord.Member | None) -> list[Change]:
        """Who had the thread when, by what was said in it so far."""
        if us is None:
            return []
        try:
            said = [message async for message in thread.history(limit=LOOKED_BACK) if not message.author.bot]
            staff = await self._access.staff_among({message.author.id for message in said}, thread.guild)
        except (discord.DiscordException, OSError) as error:
            log.info("Not known whether people have taken over a thread: %s", type(error).__name__)
            return []
        changes = []
        for message in said:
            mentioned = reading.mentions(message, us)
            if mentioned or self._takes_over(reading.said(message, us), staff=message.author.id in staff):
                changes.append(Change(platform_order(str(message.id)), taken=not mentioned))
        return changes

    @staticmethod
    def _takes_over(text: str, *, staff: bool) -> bool:
        return staff or says_solved(text)

    @staticmethod
    def _labelled(thread: discord.Thread) -> bool:
        return labelled_solved(thread.name, *(tag.name for tag in thread.applied_tags))

    # ----------------------------------------------------------------------------------------- submitting

    async def _submit(self, message: discord.Message, thread: ThreadKey, us: discord.ClientUser) -> bool:
        gone = partial(self.lately.is_gone, message.id)
        if gone():
            return False
        text, unread = await self._text_of(message, us)
        if gone():
            return False
        if not text:
            await _tell(message, CANNOT_READ if unread else ASK_SOMETHING)
            return False
        self._remember_title(str(message.id), text)
        heard = await self._listening.before(message, thread, us)
        return await self._take(replace(self._inbound(message, thread, text), heard=heard, unread=unread), message.id)

    async def _take(self, inbound: Inbound, message: int) -> bool:
        """Whether the question was not known yet. One that cannot be stored is looked for again."""
        gone = partial(self.lately.is_gone, message)
        if gone():
            return False
        try:
            admitted = await self._patiently(lambda: self._admitted(inbound))
        except ThreadwiseError as error:
            log.warning("A message could not be stored and is looked for again: %s", error)
            self.missed.set()
            return False
        if admitted and gone():
            await self._patiently(lambda: self._dispatcher.deleted(inbound.thread, str(message)))
        return admitted

    async def submit(
        self,
        message_id: str,
        thread: ThreadKey,
        author: discord.User | discord.Member,
        text: str,
        *,
        at: datetime,
        exact: bool = False,
        readers: Readers = Readers.UNKNOWN,
    ) -> bool:
        """A question that repeats what a message says, by the menu or a button; `readers` only if the words are the
        author's own. False if that message was deleted meanwhile.

        Raises `ThreadwiseError` if it could not be stored.
        """
        self._remember_title(message_id.rpartition(AGAIN)[2], text)
        inbound = Inbound(
            message_id=message_id,
            thread=thread,
            author_id=str(author.id),
            author=author.display_name,
            text=text,
            sent_at=at,
            exact=exact,
            readers=readers,
            order=platform_order(message_id.partition(AGAIN)[0]),
        )
        return await self._admitted(inbound)

    async def _admitted(self, inbound: Inbound) -> bool:
        return await self._dispatcher.admit(inbound) is not None

    async def _patiently(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of `work`, tried again while nothing can be stored. Raises `ThreadwiseError` in the end."""
        pause, ends = 0.5, asyncio.get_running_loop().time() + ADMIT_SECONDS
        while True:
            try:
                return await work()
            except ThreadwiseError:
                if asyncio.get_running_loop().time() >= ends:
                    raise
            await asyncio.sleep(pause)
            pause = min(10.0, pause * 2)

    async def _text_of(self, message: discord.Message, us: discord.abc.Snowflake) -> tuple[str, tuple[str, ...]]:
        """What a message asks, with the title of the post that it opens and its text files; names of other files."""
        text = reading.said(message, us)
        unread: tuple[str, ...] = ()
        if message.attachments:
            files = [File(name=a.filename, url=a.url, content_type=a.content_type or "") for a in message.attachments]
            text, unread = await with_files(text, files, self._file_hosts)
        thread = message.channel
        if text and isinstance(thread, discord.Thread) and thread.id == message.id:
            text = f"{thread.name}\n\n{text}"
        return text, unread

    def _remember_title(self, message: str, text: str) -> None:
        while len(self.titles) >= MOST_TITLES:
            del self.titles[next(iter(self.titles))]
        self.titles[message] = title_of(text, LONGEST_NAME) or NO_TITLE

    def _inbound(self, message: discord.Message, thread: ThreadKey, text: str) -> Inbound:
        return Inbound(
            message_id=str(message.id),
            thread=thread,
            author_id=str(message.author.id),
            author=message.author.display_name,
            text=text,
            sent_at=message.created_at,
            # What a file says is not said by whoever sends it.
            readers=Readers.UNKNOWN if message.attachments else readers_of(message.channel),
            order=platform_order(str(message.id)),
        )


def _is_to_others(message: discord.Message, us: discord.abc.Snowflake) -> bool:
    if any(user.id != us.id for user in message.mentions) or message.role_mentions or message.mention_everyone:
        return True
    replied = message.reference.resolved if message.reference is not None else None
    return isinstance(replied, discord.Message) and replied.author.id not in (us.id, message.author.id)


async def _is_ours(reference: discord.MessageReference, us: discord.abc.Snowflake) -> bool:
    replied = reference.resolved
    return isinstance(replied, discord.Message) and replied.author.id == us.id


async def _tell(message: discord.Message, text: str) -> None:
    try:
        await message.reply(text, mention_author=False, nonce=f"tell.{message.id}")
    except (discord.DiscordException, OSError) as error:
        log.info("A hint could not be given: %s", type(error).__name__)
