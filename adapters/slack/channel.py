"""Our messages on Slack: posted once with the key of their question, found again by it, updated at Slack's pace."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from adapters.ports import AGAIN, Phase, Post
from adapters.slack import rendering
from adapters.slack.line import Rush
from adapters.slack.streams import StoppedByReader, Streams, name
from adapters.slack.web import Json, SlackRefusal, SlackWeb
from core.errors import ChannelGone
from core.types import Answer

PLATFORM: Final = "slack"
EVENT: Final = "threadwise_reply"
"""Type of the metadata of our messages."""
_BLOCK_NAME: Final = re.compile(rf"{rendering.BLOCK}:([0-9a-f]{{16}}):")
SHORTEST_PACE: Final = 1.2
"""Seconds between two updates of one message that grows."""
UPDATE_SECONDS: Final = 1.4
"""`chat.update` may be called about 50 times a minute in a workspace, which all growing answers share."""
RECENT_SECONDS: Final = 15.0
PAGE: Final = 200
MOST_PAGES: Final = 5
_REFUSED_BLOCKS: Final = ("invalid_blocks", "msg_blocks_too_long", "invalid_blocks_format", "block_mismatch")


class SlackChannel:
    """Implements `adapters.ports.Channel`."""

    platform = PLATFORM

    def __init__(self, web: SlackWeb, *, streams: bool = True) -> None:
        self._web = web
        self.streams = Streams(web, wanted=streams)
        self.stopped: Callable[[str], None] = lambda key: None
        """Called with `Post.key` when Slack has ended a growing answer at its reader's wish."""
        self.rush = Rush()
        """While many events come in, they go first."""
        self.shortest_pace = SHORTEST_PACE
        self._updated: dict[str, float] = {}

    @property
    def pace(self) -> float:
        """Longer the more answers are growing."""
        since = time.monotonic() - RECENT_SECONDS
        self._updated = {ts: at for ts, at in self._updated.items() if at > since}
        return max(self.shortest_pace, UPDATE_SECONDS * (len(self._updated) - 1), self.streams.pace)

    def bodies(self, answer: Answer) -> Sequence[str]:
        return rendering.bodies(answer)

    async def open(self, post: Post) -> str:
        await self.rush.over()
        if (started := await self.streams.start(post)) is not None:
            return started
        fields = _fields(post) | {"thread_ts": post.thread.thread, "unfurl_links": False, "unfurl_media": False}
        return str((await self._send("chat.postMessage", fields))["ts"])

    async def find(self, post: Post) -> Sequence[str]:
        found: list[str] = []
        me, cursor = (await self._web.me()).user, ""
        try:
            for _ in range(MOST_PAGES):
                page = await self._web.call(
                    "conversations.replies",
                    channel=post.thread.channel,
                    ts=post.thread.thread,
                    oldest=post.reply_to.partition(AGAIN)[0],
                    limit=PAGE,
                    include_all_metadata=True,
                    **({"cursor": cursor} if cursor else {}),
                )
                messages: list[Json] = page.get("messages") or []
                found += [message["ts"] for message in messages if _refers(message, post, me)]
                cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
                if not cursor:
                    break
        except ChannelGone:
            return []
        return list(dict.fromkeys(found))

    async def edit(self, message_id: str, post: Post) -> None:
        await self.rush.over()
        if post.phase is Phase.FINAL and self.streams.has(message_id):
            await self.streams.end(message_id, post)
        try:
            if await self.streams.show(message_id, post):
                return
        except StoppedByReader:
            self.stopped(post.key)
            return
        if post.phase is Phase.GROWING:
            self._updated[message_id] = time.monotonic()
        else:
            self._updated.pop(message_id, None)
        await self._unless_streaming(message_id, post, "chat.update", _fields(post) | {"ts": message_id})

    async def remove(self, message_id: str, post: Post) -> None:
        with suppress(ChannelGone):  # What is gone cannot be seen.
            if self.streams.has(message_id):
                await self.streams.end(message_id, post)
            fields = {"channel": post.thread.channel, "ts": message_id}
            await self._unless_streaming(message_id, post, "chat.delete", fields)

    async def _unless_streaming(self, message_id: str, post: Post, method: str, fields: Json) -> None:
        """A call that Slack refuses while a message grows, as one that a process before has left may."""
        try:
            await self._send(method, fields)
        except SlackRefusal as refusal:
            if refusal.error != "streaming_state_conflict":
                raise
            await self.streams.end(message_id, post)
            await self._send(method, fields)

    async def _send(self, method: str, fields: Json) -> Json:
        try:
            return await self._web.call(method, **fields)
        except SlackRefusal as refusal:
            if refusal.error not in _REFUSED_BLOCKS:
                raise
            # The text says the same.
            return await self._web.call(method, **{**fields, "blocks": []})


def _fields(post: Post) -> Json:
    match post.phase:
        case Phase.WAITING:
            body = rendering.waiting(post.body)
        case Phase.GROWING:
            body = rendering.growing(post.body)
        case Phase.FINAL:
            body = post.body
    payload = {"reply_to": post.reply_to, "key": post.key, "part": post.part}
    shown: Json = json.loads(body)
    shown["blocks"][0]["block_id"] = name(post)
    return shown | {"channel": post.thread.channel, "metadata": {"event_type": EVENT, "event_payload": payload}}


def key_in(message: Json) -> str:
    """The key of the question that a message of ours answers; empty if it is none."""
    blocks: list[Json] = message.get("blocks") or []
    names = [str(block.get(field) or "") for block in blocks for field in ("block_id", "task_id")]
    return next((found[1] for name in names if (found := _BLOCK_NAME.match(name))), "")


def _refers(message: Json, post: Post, me: str) -> bool:
    """Whether it is ours and belongs to the question: other apps may write what metadata they like."""
    metadata: Json = message.get("metadata") or {}
    payload: Json = metadata.get("event_payload") or {}
    told = metadata.get("event_type") == EVENT and payload.get("key") == post.key
    return message.get("user") == me and (told or key_in(message) == post.key)
