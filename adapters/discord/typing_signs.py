"""Typing signs, while an answer is awaited."""

from __future__ import annotations

import asyncio
from typing import Final

import discord

from adapters.discord.pacing import Pacer, Urgency, urgent
from core.errors import ChannelError

TYPING_SECONDS: Final = 8.0
"""A typing sign is seen for 10 s."""
MOST_SIGNS: Final = 60

Key = tuple[str, int]


class TypingSigns:
    """One for each message of ours that is not final."""

    def __init__(self, pacer: Pacer) -> None:
        self._pacer = pacer
        self._signs: dict[Key, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._signs)

    def begin(self, key: Key, place: discord.PartialMessageable) -> None:
        """We are typing in `place` for a while, until it is ended."""
        self.end(key)
        sign = self._signs[key] = asyncio.create_task(self._type(place))
        sign.add_done_callback(lambda ended: self._signs.pop(key) if self._signs.get(key) is ended else None)

    def end(self, key: Key) -> None:
        """No longer."""
        if (sign := self._signs.pop(key, None)) is not None:
            sign.cancel()

    def close(self) -> None:
        """None goes on."""
        for sign in self._signs.values():
            sign.cancel()
        self._signs.clear()

    async def _type(self, place: discord.PartialMessageable) -> None:
        with urgent(Urgency.TYPING):
            for _ in range(MOST_SIGNS):
                if not self._pacer.waiting:
                    try:
                        await place.typing()
                    except (discord.Forbidden, discord.NotFound):
                        return  # The place is gone.
                    except (discord.DiscordException, ChannelError, OSError, TimeoutError):
                        pass  # The next one may get through.
                await asyncio.sleep(TYPING_SECONDS)
