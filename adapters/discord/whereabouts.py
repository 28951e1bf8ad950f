"""Where the answer to a question stands: in a thread, which is opened if need be, or in the channel itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import discord

from adapters.addressing import title_of
from adapters.discord import asking
from adapters.discord.refusals import THREAD_EXISTS, UNKNOWN_CHANNEL, UNKNOWN_MESSAGE
from adapters.ports import AGAIN, Post
from core.errors import ChannelGone

LONGEST_NAME: Final = 80
NO_TITLE: Final = "Question"
ARCHIVE_MINUTES: Final = 1440
LOOKED_THROUGH: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Where a question stands."""

    question: int
    after: int
    """Our messages for it are younger than this."""
    channel: int
    thread: int
    guild: int | None

    @property
    def opens(self) -> bool:
        """The conversation is named after it."""
        return self.question == self.thread != self.channel

    @classmethod
    def of(cls, post: Post) -> Self:
        after, _, question = post.reply_to.rpartition(AGAIN)
        thread = post.thread
        return cls(
            question=int(question),
            after=int(after or question),
            channel=int(thread.channel),
            thread=int(thread.thread),
            guild=int(thread.workspace) if thread.workspace.isdecimal() else None,
        )


class Whereabouts:
    """Asks Discord; what it raises is Discord's or discord.py's own, or `ChannelGone`."""

    def __init__(self, client: Callable[[], discord.Client], titles: Mapping[str, str]) -> None:
        """`titles` are those of questions just taken."""
        self._client, self._titles = client, titles

    async def place(
        self, asked: Asked, *, part: int, notice: bool
    ) -> tuple[discord.PartialMessageable, discord.MessageReference | None]:
        """Where a part of the answer goes, and what it refers to. No thread is opened for a `notice` that there is no
        answer."""
        client = self._client()
        thread = client.get_partial_messageable(asked.thread)
        in_thread = discord.MessageReference(
            message_id=asked.question, channel_id=asked.thread, fail_if_not_exists=False
        )
        if not asked.opens or part > 0 or self._is_post(asked):
            if asked.thread == asked.channel or await self._is_there(asked):
                outside = asked.opens and not self._is_post(asked)
                return thread, None if outside else in_thread
        elif self._known_thread(asked.thread) is not None or (not notice and await self._open_thread(asked)):
            return thread, None
        beside = client.get_partial_messageable(asked.channel)
        return beside, discord.MessageReference(
            message_id=asked.question, channel_id=asked.channel, fail_if_not_exists=False
        )

    async def _is_there(self, asked: Asked) -> bool:
        """Whether the thread exists; if not, the conversation goes on in the channel by replies.

        Raises `ChannelGone` if the question was in a thread that is gone.
        """
        if self._known_thread(asked.thread) is not None:
            return True
        try:
            await self._client().fetch_channel(asked.thread)
        except discord.NotFound:
            if not await self._is_beside(asked):
                raise ChannelGone("The thread of the question is gone.") from None
            return False
        return True

    async def _is_beside(self, asked: Asked) -> bool:
        """Whether the conversation is in the channel itself."""
        if asked.opens:
            return bool(await self._found_in(asked.channel, asked))
        try:
            await self._client().get_partial_messageable(asked.channel).fetch_message(asked.question)
        except discord.NotFound:
            return False
        return True

    async def _open_thread(self, asked: Asked) -> bool:
        """Whether there is a thread for the question now."""
        client = self._client()
        name = self._titles.get(str(asked.question)) or await self._title(asked)
        try:
            # `Message.create_thread` wants to know the server, which may not have been told yet.
            await client.http.start_thread_with_message(
                asked.channel, asked.question, name=name, auto_archive_duration=ARCHIVE_MINUTES
            )
        except discord.HTTPException as refused:
            if refused.code == THREAD_EXISTS:
                return True
            if refused.code == UNKNOWN_MESSAGE or refused.status in (401, 429) or refused.status >= 500:
                raise
            return False  # No permission, too many threads, or a place that has none.
        return True

    async def _title(self, asked: Asked) -> str:
        client = self._client()
        channel = client.get_partial_messageable(asked.channel, guild_id=asked.guild)
        message = await channel.fetch_message(asked.question)
        text = asking.question_in(message, client.user) or message.clean_content
        return title_of(text, LONGEST_NAME) or NO_TITLE

    def _known_thread(self, id_: int) -> discord.Thread | None:
        channel = self._client().get_channel(id_)
        return channel if isinstance(channel, discord.Thread) else None

    def _is_post(self, asked: Asked) -> bool:
        """Whether the thread is a post of a forum, which holds its first message itself."""
        return isinstance(self._client().get_channel(asked.channel), discord.ForumChannel)

    async def found(self, asked: Asked) -> Sequence[str]:
        """Our messages for the question, oldest first."""
        for place in dict.fromkeys((asked.thread, asked.channel)):
            try:
                found = await self._found_in(place, asked)
            except discord.NotFound as missing:
                if missing.code != UNKNOWN_CHANNEL:
                    raise
                continue
            if found or place == asked.thread:
                return found
        return []

    async def _found_in(self, place: int, asked: Asked) -> list[str]:
        client = self._client()
        history = client.get_partial_messageable(place).history(
            limit=LOOKED_THROUGH, after=discord.Object(asked.after), oldest_first=True
        )
        found = []
        async for message in history:
            reference = message.reference
            refers = reference is not None and reference.message_id == asked.question
            bare = reference is None and asked.opens and place == asked.thread
            ours = client.user is not None and message.author.id == client.user.id
            # What answers a command is no answer to the question.
            if ours and (refers or bare) and message.interaction_metadata is None:
                found.append(f"{place}/{message.id}")
        return found

    async def wake(self, thread: int) -> None:
        """An archived thread takes no edits."""
        channel = await self._client().fetch_channel(thread)
        if not isinstance(channel, discord.Thread) or channel.locked:
            raise ChannelGone("The thread is locked.")
        await channel.edit(archived=False)
