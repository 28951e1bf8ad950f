"""Messages of ours on Discord: the channel that the dispatcher writes to.

A message is named "channel/message", since an answer is in a thread, or in the channel itself where no thread can
be made. It refers to the question, and carries a nonce, so that a request whose reply was lost can be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import discord

from adapters.addressing import title_of
from adapters.discord import asking, rendering
from adapters.discord.pacing import Pacer, Urgency, urgency
from adapters.discord.refusals import ARCHIVED, THREAD_EXISTS, UNKNOWN_CHANNEL, UNKNOWN_MESSAGE, translated
from adapters.ports import AGAIN, Phase, Post
from core.errors import ChannelError, ChannelGone
from core.types import Answer

PLATFORM: Final = "discord"
PACE: Final = 1.2
"""Seconds between edits of a message: Discord allows about 5 in 5 s in a channel."""
EDIT_SHARE: Final = 0.6
"""Of all requests, what may be edits of growing texts."""
TYPING_SECONDS: Final = 8.0
"""A typing sign is seen for 10 s."""
MOST_SIGNS: Final = 60
LONGEST_NAME: Final = 80
LOOKED_THROUGH: Final = 100
NO_TITLE: Final = "Question"
ARCHIVE_MINUTES: Final = 1440


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
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


class DiscordDelivery:
    """See `adapters.ports.Channel`."""

    platform = PLATFORM

    def __init__(self, client: Callable[[], discord.Client], pacer: Pacer, titles: dict[str, str]) -> None:
        """`client` raises `ChannelError` while there is none; `titles` are those of questions just taken."""
        self._client, self._pacer, self._titles = client, pacer, titles
        self._signs: dict[tuple[str, int], asyncio.Task[None]] = {}

    @property
    def pace(self) -> float:
        """Seconds between two edits of one message: longer where many texts grow at a time."""
        return max(PACE, len(self._signs) / (self._pacer.per_second * EDIT_SHARE))

    def bodies(self, answer: Answer) -> Sequence[str]:
        """The messages that show `answer`."""
        return rendering.bodies(answer)

    def growing(self, text: str) -> Sequence[str]:
        """The messages that show an answer that is being written."""
        return rendering.growing(text)

    async def open(self, post: Post) -> str:
        """Creates the message, and the thread if the question opens one."""
        asked = _asked(post)
        with _as(Urgency.NOTICE if _is_notice(post) else Urgency.FIRST):
            return await self._open(post, asked)

    async def _open(self, post: Post, asked: _Asked) -> str:
        async with translated():
            place, reference = await self._place(post, asked)
            content, view = _looks(post)
            options: dict[str, Any] = {"reference": reference} if reference is not None else {}
            if view is not None:
                options["view"] = view
            created = await place.send(
                content,
                nonce=f"{post.key}.{post.part}",
                suppress_embeds=True,
                silent=post.part > 0,
                **options,
            )
        if post.phase is not Phase.FINAL and post.part == 0:
            self._sign(post, place)
        return f"{place.id}/{created.id}"

    async def find(self, post: Post) -> Sequence[str]:
        """Our messages for the question, oldest first."""
        asked = _asked(post)
        async with translated():
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

    async def edit(self, message_id: str, post: Post) -> None:
        """Shows what `post` says in the message."""
        content, view = _looks(post)
        final = post.phase is Phase.FINAL
        if final:
            self._end_sign(post)
        with _as(Urgency.FIRST if final else Urgency.EDIT):
            async with translated():
                message = self._message(message_id)
                try:
                    await message.edit(content=content, view=view)
                except discord.HTTPException as refused:
                    if refused.code != ARCHIVED:
                        raise
                    await self._wake(message.channel.id)
                    await message.edit(content=content, view=view)

    async def remove(self, message_id: str, post: Post) -> None:
        """Deletes the message."""
        self._end_sign(post)
        async with translated():
            with suppress(discord.NotFound):
                await self._message(message_id).delete()

    async def close(self) -> None:
        """No typing sign goes on."""
        for sign in self._signs.values():
            sign.cancel()
        self._signs.clear()

    # ---------------------------------------------------------------------------------------------- places

    async def _place(
        self, post: Post, asked: _Asked
    ) -> tuple[discord.PartialMessageable, discord.MessageReference | None]:
        client = self._client()
        thread = client.get_partial_messageable(asked.thread)
        in_thread = discord.MessageReference(
            message_id=asked.question, channel_id=asked.thread, fail_if_not_exists=False
        )
        if not asked.opens or post.part > 0 or self._is_post(asked):
            if asked.thread == asked.channel or await self._is_there(asked):
                outside = asked.opens and not self._is_post(asked)
                return thread, None if outside else in_thread
        elif self._known_thread(asked.thread) is not None or (not _is_notice(post) and await self._open_thread(asked)):
            return thread, None
        beside = client.get_partial_messageable(asked.channel)
        return beside, discord.MessageReference(
            message_id=asked.question, channel_id=asked.channel, fail_if_not_exists=False
        )

    async def _is_there(self, asked: _Asked) -> bool:
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

    async def _is_beside(self, asked: _Asked) -> bool:
        """Whether the conversation is in the channel itself."""
        if asked.opens:
            return bool(await self._found_in(asked.channel, asked))
        try:
            await self._client().get_partial_messageable(asked.channel).fetch_message(asked.question)
        except discord.NotFound:
            return False
        return True

    async def _open_thread(self, asked: _Asked) -> bool:
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

    async def _title(self, asked: _Asked) -> str:
        client = self._client()
        channel = client.get_partial_messageable(asked.channel, guild_id=asked.guild)
        message = await channel.fetch_message(asked.question)
        text = asking.question_in(message, client.user) or message.clean_content
        return title_of(text, LONGEST_NAME) or NO_TITLE

    def _known_thread(self, id_: int) -> discord.Thread | None:
        channel = self._client().get_channel(id_)
        return channel if isinstance(channel, discord.Thread) else None

    def _is_post(self, asked: _Asked) -> bool:
        """Whether the thread is a post of a forum, which holds its first message itself."""
        return isinstance(self._client().get_channel(asked.channel), discord.ForumChannel)

    async def _found_in(self, place: int, asked: _Asked) -> list[str]:
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

    async def _wake(self, thread: int) -> None:
        """An archived thread takes no edits."""
        channel = await self._client().fetch_channel(thread)
        if not isinstance(channel, discord.Thread) or channel.locked:
            raise ChannelGone("The thread is locked.")
        await channel.edit(archived=False)

    def _message(self, message_id: str) -> discord.PartialMessage:
        channel, _, id_ = message_id.partition("/")
        return self._client().get_partial_messageable(int(channel)).get_partial_message(int(id_))

    # ---------------------------------------------------------------------------------------------- typing

    def _sign(self, post: Post, place: discord.PartialMessageable) -> None:
        self._end_sign(post)
        key = post.key, post.part
        sign = self._signs[key] = asyncio.create_task(self._type(place))
        sign.add_done_callback(lambda ended: self._signs.pop(key) if self._signs.get(key) is ended else None)

    def _end_sign(self, post: Post) -> None:
        if (sign := self._signs.pop((post.key, post.part), None)) is not None:
            sign.cancel()

    async def _type(self, place: discord.PartialMessageable) -> None:
        with _as(Urgency.TYPING):
            for _ in range(MOST_SIGNS):
                if not self._pacer.waiting:
                    try:
                        await place.typing()
                    except (discord.Forbidden, discord.NotFound):
                        return  # The place is gone.
                    except (discord.DiscordException, ChannelError, OSError, TimeoutError):
                        pass  # The next one may get through.
                await asyncio.sleep(TYPING_SECONDS)


@contextmanager
def _as(wanted: Urgency) -> Iterator[None]:
    before = urgency.set(wanted)
    try:
        yield
    finally:
        urgency.reset(before)


def _asked(post: Post) -> _Asked:
    after, _, question = post.reply_to.rpartition(AGAIN)
    thread = post.thread
    return _Asked(
        question=int(question),
        after=int(after or question),
        channel=int(thread.channel),
        thread=int(thread.thread),
        guild=int(thread.workspace) if thread.workspace.isdecimal() else None,
    )


def _is_notice(post: Post) -> bool:
    """Whether the first that is said is that there will be no answer: no thread is opened for that."""
    return post.phase is Phase.FINAL and rendering.Body.loaded(post.body).notice


def _looks(post: Post) -> tuple[str, discord.ui.View | None]:
    if post.phase is Phase.WAITING:
        return rendering.waiting(post.body), rendering.view(rendering.WORKING if post.part == 0 else (), post.key)
    body = rendering.Body.loaded(post.body)
    return body.content, rendering.view(body.buttons, post.key)
