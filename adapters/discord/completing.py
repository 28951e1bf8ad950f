"""What the client does not know of a message when it is told: its server, its channel or thread, roles."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import Any, Final

import aiohttp
import discord

SERVER_SECONDS: Final = 10.0
"""How long a message waits for its server to be told: at the start, after a trouble of Discord's, or on joining."""
LOOK_SECONDS: Final = 0.1
ROLE_MENTION: Final = re.compile(r"<@&([0-9]{1,20})>")


async def complete(message: discord.Message, client: discord.Client) -> None:
    """Puts in what was not known when the message came; without it, it would look like one in no server, whose author
    has no role, or like one in a channel where it is in a thread: archived threads are not told at the start."""
    place = message.channel
    if not isinstance(place, discord.PartialMessageable) or place.guild_id is None:
        return
    guild = await _available(place.guild_id, client)
    message.channel = await look_up(place.id, client) or place
    # One that is never told is at least one without roles.
    guild = guild or message.channel.guild
    if guild is not None and guild is not message.guild:
        message.guild = guild
        if isinstance(message.author, discord.Member):
            message.author.guild = guild
        await with_roles(message)
    if guild is not None and not message.role_mentions:
        roles = (guild.get_role(int(id_)) for id_ in dict.fromkeys(ROLE_MENTION.findall(message.content)))
        message.role_mentions = [role for role in roles if role is not None]


async def look_up(channel: int, client: discord.Client) -> Any:
    """The channel, asked for if it is not known; None if it cannot be told."""
    if (known := client.get_channel(channel)) is not None:
        return known
    try:
        return await client.fetch_channel(channel)
    except (discord.DiscordException, aiohttp.ClientError, OSError):
        return None


async def with_roles(message: discord.Message) -> discord.Message:
    """Old messages do not tell the roles of their authors."""
    if not message.author.bot:
        message.author = await member(message.author, message.guild)
    return message


async def member(user: discord.User | discord.Member, guild: discord.Guild | None) -> discord.User | discord.Member:
    """The user as they are known in the server, with their roles, if they are there."""
    if guild is not None and isinstance(user, discord.User):
        with suppress(discord.NotFound):
            return await guild.fetch_member(user.id)
    return user


async def _available(id_: int, client: discord.Client) -> discord.Guild | None:
    """The server, with its channels and roles if Discord tells of them in time; None if it is not known at all."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + SERVER_SECONDS
    while (guild := client.get_guild(id_)) is None or guild.unavailable:
        if loop.time() >= ends or client.is_closed():
            break
        await asyncio.sleep(LOOK_SECONDS)
    return guild
