"""What was edited or deleted a moment ago: it may be told before the message itself is dealt with, which takes a while
where files or a history are read for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import discord

from adapters.discord import reading

T = TypeVar("T")

MOST: Final = 2000
"""Of each kind; the oldest are forgotten first."""


class Lately:
    """Noted at once, before anything else is done about it."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._deleted: dict[int, None] = {}
        self._edited: dict[int, discord.Message] = {}

    def delete(self, messages: Iterable[int]) -> None:
        """Messages are gone."""
        for message in messages:
            self._keep(self._deleted, message, None)
            self._edited.pop(message, None)

    def edit(self, message: discord.Message) -> None:
        """A message has another text now."""
        known = self._edited.get(message.id)
        if message.author.bot or message.type not in reading.CONVERSATION:
            return
        if known is None or _edited_at(known) <= _edited_at(message):
            self._keep(self._edited, message.id, message)

    def is_gone(self, message: int) -> bool:
        """Whether it was deleted."""
        return message in self._deleted

    def newest(self, message: discord.Message) -> discord.Message:
        """The message as it reads now."""
        edited = self._edited.get(message.id)
        return edited if edited is not None and _edited_at(message) <= _edited_at(edited) else message

    def _keep(self, kept: dict[int, T], key: int, value: T) -> None:
        kept.pop(key, None)
        while len(kept) >= self._most:
            del kept[next(iter(kept))]
        kept[key] = value


def _edited_at(message: discord.Message) -> float:
    return (message.edited_at or message.created_at).timestamp()
