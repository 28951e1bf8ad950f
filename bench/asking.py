"""A question from nobody in particular, and a reply that nobody sees."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from adapters.ports import Inbound, ThreadKey
from core.types import Answer


def inbound(thread: str, text: str) -> Inbound:
    """`text` as a message in the thread of that name."""
    return Inbound(
        message_id=f"{thread}-{time.monotonic_ns()}",
        thread=ThreadKey(platform="bench", workspace="w", channel="c", thread=thread),
        author_id="1",
        author="bench",
        text=text,
        sent_at=datetime.now(UTC),
    )


class Unseen:
    """A `Reply` that shows nothing."""

    async def show(self, text: str) -> None: ...

    async def finish(self, answer: Answer) -> None: ...
