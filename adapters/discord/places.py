"""Which conversation a place on Discord is."""

from __future__ import annotations

from typing import Final, TypeAlias

import discord

from adapters.discord.delivery import PLATFORM
from adapters.ports import Person, Readers, ThreadKey

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
    guild = server_of(place)
    if isinstance(place, discord.Thread):
        return key(guild, place.parent_id, place.id)
    return key(guild, place.id, place.id if guild is None else opener)


def person_in(place: Place, user: discord.abc.Snowflake) -> Person:
    """Whoever is somebody there, as they are known in that server; in private messages, on all of Discord."""
    server = server_of(place)
    return Person(platform=PLATFORM, workspace=None if server is None else str(server), id=str(user.id))


def server_of(place: Place) -> int | None:
    """None for private messages. A server that the client was not told of yet is one all the same."""
    if isinstance(place, discord.PartialMessageable):
        return place.guild_id
    return place.guild.id if place.guild is not None else None


def parent_of(place: Place) -> int:
    """The channel that a thread belongs to; of others themselves."""
    return place.parent_id if isinstance(place, discord.Thread) else place.id


def is_private(place: Place) -> bool:
    """Whether nobody else reads it."""
    return isinstance(place, discord.DMChannel) or server_of(place) is None


def readers_of(place: Place) -> Readers:
    """Who reads what is said in `place`. Messages between several people are not known to be anybody's alone."""
    if isinstance(place, discord.DMChannel):
        return Readers.ALONE
    if server_of(place) is None:
        return Readers.UNKNOWN
    return Readers.THREAD if isinstance(place, discord.Thread) and place.is_private() else Readers.CHANNEL


def is_one(place: Place) -> bool:
    """Whether all that is said there is one conversation."""
    return isinstance(place, discord.Thread) or is_private(place)
