"""Messages of ours on Discord: the channel that the dispatcher writes to.

A message is named "channel/message", since an answer is in a thread, or in the channel itself where no thread can
be made. It refers to the question, and carries a nonce, so that a request whose reply was lost can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import discord

from adapters.discord import rendering
from adapters.discord.pacing import Pacer, Urgency, urgent
from adapters.discord.refusals import ARCHIVED, translated
from adapters.discord.typing_signs import TypingSigns
from adapters.discord.whereabouts import Asked, Whereabouts
from adapters.ports import Phase, Post
from core.types import Answer

PLATFORM: Final = "discord"
PACE: Final = 1.2
"""Seconds between edits of a message: Discord allows about 5 in 5 s in a channel."""
EDIT_SHARE: Final = 0.6
"""Of all requests, what may be edits of growing texts."""


class DiscordDelivery:
    """See `adapters.ports.Channel`."""

    platform = PLATFORM

    def __init__(self, client: Callable[[], discord.Client], pacer: Pacer, titles: dict[str, str]) -> None:
        """`client` raises `ChannelError` while there is none; `titles` are those of questions just taken."""
        self._client, self._pacer = client, pacer
        self._whereabouts = Whereabouts(client, titles)
        self._signs = TypingSigns(pacer)

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
        notice = _is_notice(post)
        with urgent(Urgency.NOTICE if notice else Urgency.FIRST):
            async with translated():
                place, reference = await self._whereabouts.place(Asked.of(post), part=post.part, notice=notice)
                created = await _sent(place, post, reference)
        if post.phase is not Phase.FINAL and post.part == 0:
            self._signs.begin((post.key, post.part), place)
        return f"{place.id}/{created.id}"

    async def find(self, post: Post) -> Sequence[str]:
        """Our messages for the question, oldest first."""
        async with translated():
            return await self._whereabouts.found(Asked.of(post))

    async def edit(self, message_id: str, post: Post) -> None:
        """Shows what `post` says in the message."""
        content, view = _looks(post)
        final = post.phase is Phase.FINAL
        if final:
            self._signs.end((post.key, post.part))
        with urgent(Urgency.FIRST if final else Urgency.EDIT):
            async with translated():
                message = self._message(message_id)
                try:
                    await message.edit(content=content, view=view)
                except discord.HTTPException as refused:
                    if refused.code != ARCHIVED:
                        raise
                    await self._whereabouts.wake(message.channel.id)
                    await message.edit(content=content, view=view)

    async def remove(self, message_id: str, post: Post) -> None:
        """Deletes the message."""
        self._signs.end((post.key, post.part))
        async with translated():
            with suppress(discord.NotFound):
                await self._message(message_id).delete()

    async def close(self) -> None:
        """No typing sign goes on."""
        self._signs.close()

    def _message(self, message_id: str) -> discord.PartialMessage:
        channel, _, id_ = message_id.partition("/")
        return self._client().get_partial_messageable(int(channel)).get_partial_message(int(id_))


async def _sent(
    place: discord.PartialMessageable, post: Post, reference: discord.MessageReference | None
) -> discord.Message:
    content, view = _looks(post)
    options: dict[str, Any] = {"reference": reference} if reference is not None else {}
    if view is not None:
        options["view"] = view
    return await place.send(
        content, nonce=f"{post.key}.{post.part}", suppress_embeds=True, silent=post.part > 0, **options
    )


def _is_notice(post: Post) -> bool:
    """Whether the first that is said is that there will be no answer: no thread is opened for that."""
    return post.phase is Phase.FINAL and rendering.Body.loaded(post.body).notice


def _looks(post: Post) -> tuple[str, discord.ui.View | None]:
    if post.phase is Phase.WAITING:
        return rendering.waiting(post.body), rendering.view(rendering.WORKING if post.part == 0 else (), post.key)
    body = rendering.Body.loaded(post.body)
    return body.content, rendering.view(body.buttons, post.key)
