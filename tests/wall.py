"""A chat platform in a few lines: messages of ours in a dictionary, and a list of what was asked of it."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.ports import Phase, Post
from core.types import Answer


class Wall:
    """A channel that always works. Subclasses do not."""

    def __init__(self, platform: str = "terminal") -> None:
        self.platform, self.pace = platform, 0.0
        self.calls: list[tuple[str, Post]] = []
        self.messages: dict[str, Post] = {}

    def bodies(self, answer: Answer) -> Sequence[str]:
        return [answer.text]

    async def open(self, post: Post) -> str:
        self.calls.append(("open", post))
        self.messages[id_ := f"r{len(self.calls)}"] = post
        return id_

    async def find(self, post: Post) -> Sequence[str]:
        self.calls.append(("find", post))
        return [id_ for id_, shown in self.messages.items() if shown.reply_to == post.reply_to]

    async def edit(self, message_id: str, post: Post) -> None:
        self.calls.append(("edit", post))
        self.messages[message_id] = post

    async def remove(self, message_id: str, post: Post) -> None:
        self.calls.append(("remove", post))
        self.messages.pop(message_id, None)

    def replies(self, message_id: str) -> list[Post]:
        """What is seen of ours under a question."""
        return [post for post in self.messages.values() if post.reply_to == message_id]

    def final(self, message_id: str) -> str:
        """The only answer to a question."""
        (post,) = self.replies(message_id)
        assert post.phase is Phase.FINAL
        return post.body

    def seen(self, phase: Phase) -> list[str]:
        """All that was to be seen for a while, one after the other."""
        return [post.body for _, post in self.calls if post.phase is phase]
