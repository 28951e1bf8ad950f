"""A question from nobody in particular, and a channel that nobody sees."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from adapters.dispatcher import Dispatcher
from adapters.ports import Inbound, Post, ThreadKey
from core.types import Answer


def inbound(thread: str, text: str, author: str = "1") -> Inbound:
    """`text` as a message in the thread of that name."""
    return Inbound(
        message_id=f"{thread}-{time.monotonic_ns()}",
        thread=ThreadKey(platform=Unseen.platform, workspace="w", channel="c", thread=thread),
        author_id=author,
        author="bench",
        text=text,
        sent_at=datetime.now(UTC),
    )


class Unseen:
    """A `Channel` whose requests cost nothing. It keeps the answers."""

    platform = "bench"
    pace = 0.0

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def bodies(self, answer: Answer) -> Sequence[str]:
        self.answers.append(answer)
        return [answer.text]

    async def open(self, post: Post) -> str:
        return post.key

    async def find(self, post: Post) -> Sequence[str]:
        return []

    async def edit(self, message_id: str, post: Post) -> None: ...

    async def remove(self, message_id: str, post: Post) -> None: ...


async def taken(dispatcher: Dispatcher, message: Inbound) -> int:
    """The job of `message`, when it is on the disk."""
    admitted = await dispatcher.admit(message)
    assert admitted is not None
    assert admitted.job is not None, "refused"
    return admitted.job


async def answered(dispatcher: Dispatcher, channel: Unseen, message: Inbound) -> Answer:
    """The answer to `message`, when it is delivered."""
    await dispatcher.ended(await taken(dispatcher, message))
    return channel.answers[-1]
