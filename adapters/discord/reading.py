"""What a message says, as a person reads it: names instead of ids, without the bot's own mention."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

import discord

from core.sanitize import is_blank

_MENTION: Final = re.compile(
    r"<(?:@!?(?P<user>[0-9]{1,20})|@&(?P<role>[0-9]{1,20})|#(?P<channel>[0-9]{1,20})"
    r"|a?:(?P<emoji>\w{1,32}):[0-9]{1,20}|t:(?P<time>-?[0-9]{1,12})(?::[tTdDfFR])?"
    r"|/(?P<command>[^<>:\n]{1,100}):[0-9]{1,20}|id:(?P<place>[a-z]{1,20}))>"
)
CONVERSATION: Final = (discord.MessageType.default, discord.MessageType.reply)
"""What people say; the other types are notices of Discord."""


def said(message: discord.Message, us: discord.abc.Snowflake) -> str:
    """The text of a message."""
    return decoded(message.content, message, us)


def decoded(content: str, message: discord.Message, us: discord.abc.Snowflake) -> str:
    """`content` with the names that `message` and its server know; nothing if nothing of it can be seen."""
    own = own_role(message.guild)
    users = {user.id: user for user in message.mentions}

    def name(match: re.Match[str]) -> str:
        kind, id_ = str(match.lastgroup), match.group(match.lastgroup or 0)
        if kind == "user":
            if int(id_) == us.id:
                return ""
            user = users.get(int(id_)) or (message.guild.get_member(int(id_)) if message.guild else None)
            return f"@{user.display_name}" if user else "@somebody"
        if kind == "role":
            if own is not None and int(id_) == own.id:
                return ""
            role = message.guild.get_role(int(id_)) if message.guild else None
            return f"@{role.name}" if role else "@a role"
        if kind == "channel":
            channel = message.guild.get_channel_or_thread(int(id_)) if message.guild else None
            return f"#{channel.name}" if channel else "#a channel"
        if kind == "time":
            return _date(int(id_))
        return {"emoji": f":{id_}:", "command": f"/{id_}", "place": f"#{id_}"}[kind]

    text = _MENTION.sub(name, content)
    # Where a mention was, no gap stays.
    text = re.sub(r"(?<=\S)[ \t]{2,}(?=\S)", " ", text).strip() if text != content else text.strip()
    return "" if is_blank(text) else text


def mentions(message: discord.Message, us: discord.abc.Snowflake) -> bool:
    """Whether the bot itself is mentioned: by name or by its own role, not with everybody."""
    own = own_role(message.guild)
    return any(user.id == us.id for user in message.mentions) or (own is not None and own in message.role_mentions)


def own_role(guild: discord.Guild | None) -> discord.Role | None:
    """The role that Discord made for the bot, which people mention by mistake."""
    return guild.self_role if guild is not None else None


def _date(seconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, OSError, ValueError):
        return "(a date)"
