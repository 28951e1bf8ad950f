"""What one person alone is told. It may get lost without harm: nothing that matters is said this way only."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from adapters.slack.web import Json, SlackWeb
from core.errors import ChannelError

log = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 20
"""Of those that nobody waits for; under a flood the others are left out."""


class Whisper:
    """For one workspace."""

    def __init__(self, web: SlackWeb) -> None:
        self._web = web
        self._aside: set[asyncio.Task[None]] = set()

    async def tell(self, channel: str, user: str, text: str, thread: str = "", blocks: Sequence[Json] = ()) -> None:
        """Shows `text` to one person."""
        fields: dict[str, Any] = {"channel": channel, "user": user, "text": text}
        fields |= {"thread_ts": thread} if thread else {}
        fields |= {"blocks": list(blocks)} if blocks else {}
        try:
            await self._web.call("chat.postEphemeral", **fields)
        except ChannelError as error:
            log.info("Somebody could not be told something: %s", error)

    def soon(self, channel: str, user: str, text: str, thread: str = "", blocks: Sequence[Json] = ()) -> None:
        """The same, beside an event that is to be acknowledged at once."""
        if len(self._aside) < MOST_AT_ONCE:
            task = asyncio.create_task(self.tell(channel, user, text, thread, blocks))
            self._aside.add(task)
            task.add_done_callback(self._aside.discard)

    async def close(self) -> None:
        """Ends what is under way."""
        for task in self._aside:
            task.cancel()
        await asyncio.gather(*self._aside, return_exceptions=True)
