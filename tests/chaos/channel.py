"""The bot's side of a `Board`: a channel, and the intake of what people say there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import httpx

from adapters.dispatcher import Dispatcher
from adapters.ports import Inbound, Post, ThreadKey, platform_order
from core.errors import ChannelBusy, ChannelError, ChannelGone, ThreadwiseError
from core.types import Answer

PART: Final = 120
"""Characters of a message of ours."""
AT_ONCE: Final = 20


class BoardChannel:
    """See `adapters.ports.Channel`."""

    platform = "board"
    pace = 0.02

    def __init__(self, url: str) -> None:
        limits = httpx.Limits(max_connections=AT_ONCE)
        self._client = httpx.AsyncClient(base_url=url, trust_env=False, timeout=5.0, limits=limits)

    def bodies(self, answer: Answer) -> Sequence[str]:
        return [answer.text[start : start + PART] for start in range(0, len(answer.text), PART)] or [""]

    async def open(self, post: Post) -> str:
        return (await self._call("POST", "/messages", post)).text

    async def find(self, post: Post) -> Sequence[str]:
        response = await self._call("GET", f"/messages?reply_to={post.reply_to}")
        return [str(id_) for id_ in response.json()]

    async def edit(self, message_id: str, post: Post) -> None:
        await self._call("PATCH", f"/messages/{message_id}", post)

    async def remove(self, message_id: str, post: Post) -> None:
        await self._call("DELETE", f"/messages/{message_id}")

    async def _call(self, method: str, path: str, post: Post | None = None) -> httpx.Response:
        body = post and {
            "thread": post.thread.thread,
            "reply_to": post.reply_to,
            "part": post.part,
            "body": post.body[:PART],
            "phase": post.phase.value,
        }
        try:
            response = await self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise ChannelError(repr(error)) from error
        if response.status_code == 429:
            raise ChannelBusy("busy", retry_after=float(response.headers["Retry-After"]))
        if response.status_code == 404:
            raise ChannelGone("gone")
        return response

    async def take(self, dispatcher: Dispatcher) -> None:
        """Takes what people say, for ever. What could not be stored is not acknowledged, and comes again."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    events = (await self._client.get("/events")).json()
                except httpx.HTTPError:
                    await asyncio.sleep(0.05)
                    continue
                for event in events:
                    tasks.create_task(self._take(dispatcher, event))

    async def _take(self, dispatcher: Dispatcher, event: dict[str, Any]) -> None:
        inbound = _inbound(event["message"])
        try:
            if event["kind"] == "message":
                await dispatcher.admit(inbound)
            elif event["kind"] == "edit":
                await dispatcher.edited(inbound)
            else:
                await dispatcher.deleted(inbound.thread, inbound.message_id)
            await self._client.post(f"/acks/{event['id']}")
        except (ThreadwiseError, httpx.HTTPError):
            return


def _inbound(message: dict[str, str]) -> Inbound:
    return Inbound(
        message_id=message["id"],
        thread=ThreadKey(platform="board", workspace="w", channel="c", thread=message["thread"]),
        author_id=message["author"],
        author=message["author"].title(),
        text=message["text"],
        sent_at=datetime.now(UTC),
        order=platform_order(message["id"]),
    )
