"""What `/ask` shows: a message of ours for all to see, from which the question can be read again word for word.

Discord tells nobody the words of a command a second time, so until the question is on the disk they are in that
message alone. Every sign that means something in Discord's Markdown is escaped in it, and no mention is left.
"""

from __future__ import annotations

import re
from typing import Final

import discord

from adapters.discord.rendering import LIMIT
from core.sanitize import legible

_SIGN: Final = re.compile(r"[\\*_~|`<>\[\]#:]|@")
_SHOWN: Final = re.compile(r"\*\*(?:[^*\\]|\\.)*\*\* asks: (?P<question>.+)", re.DOTALL)
# Within a word, a backslash before "@" would not keep "@everyone" apart.
_AT: Final = "@\u200b"
_ESCAPED: Final = re.compile(r"\\(?P<sign>[\\*_~|`<>\[\]#:])|@\u200b?")


def cleaned(question: str) -> str:
    """The words of a command, as they are asked and shown."""
    return legible(question).strip()


def shown(name: str, question: str) -> str | None:
    """The message for the `cleaned` question of somebody called `name`; None if it is too long to be shown."""
    text = f"**{_escaped(legible(name))}** asks: {_escaped(question)}"
    return text if len(text) <= LIMIT else None


def question_in(message: discord.Message, us: discord.abc.Snowflake | None) -> str | None:
    """The question that `/ask` has put into `message`; None if it is another message."""
    by = message.interaction_metadata
    if us is None or message.author.id != us.id or by is None:
        return None
    if by.type is not discord.InteractionType.application_command or message.flags.ephemeral:
        return None
    match = _SHOWN.fullmatch(message.content)
    return _ESCAPED.sub(lambda sign: sign["sign"] or "@", match["question"]) if match else None


def _escaped(text: str) -> str:
    return _SIGN.sub(lambda sign: _AT if sign.group() == "@" else f"\\{sign.group()}", text)
