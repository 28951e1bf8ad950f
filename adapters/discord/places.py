"""Which conversation a place on Discord is."""

from __future__ import annotations

from typing import Final, TypeAlias

import discord

from adapters.discord.delivery import PLATFORM
from adapters.ports import ThreadKey

PRIVATE: Final = "private"
"""The workspace of private messages."""

Place: TypeAlias = "discord.abc.MessageableChannel"


def key(guild: int | None, channel: int, thread: int) -> ThreadKey:
    """`channel` is the parent of a thread; a private channel is its own thread."""
    return ThreadKey(
        platform=PLATFORM,
        workspace=PRIVATE if guild is None else str(guild),
        channel=str(channel),
        thread=str(thread),
    )


def key_in(place: Place, opener: int) -> ThreadKey:
    """The conversation of a message in `place`; in a channel it is named after the message `opener`."""
    guild = place.guild.id if place.guild is not None else None
    if isinstance(place, discord.Thread):
        return key(guild, place.parent_id, place.id)
    return key(guild, place.id, place.id if guild is None else opener)


def parent_of(place: Place) -> int:
    """The channel that a thread belongs to; of others themselves."""
    return place.parent_id if isinstance(place, discord.Thread) else place.id


def is_private(place: Place) -> bool:
    """Whether nobody else reads it."""
    return isinstance(place, discord.DMChannel) or place.guild is None


def is_one(place: Place) -> bool:
    """Whether all that is said there is one conversation."""
    return isinstance(place, discord.Thread) or is_private(place)
