"""A chat platform in one process, to be used by another that dies: it delivers until it is acknowledged, and records.

    async with Board() as board:
        board.say("t1", "How do I install it?")      # delivered again and again until somebody acknowledges it
        ...                                          # a process with a `BoardChannel` posts, edits and removes
        board.endings(message_id)                    # what is to be seen under the question

Unlike a real one it has no limits; it is there to be judged by `checker`, and to lose replies.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Self

from aiohttp import web

REDELIVER: Final = 1.5
"""Seconds after which an event that was not acknowledged is delivered again."""
FINAL: Final = "final"


@dataclass(kw_only=True)
class Event:
    """Something that a person did."""

    id: int
    kind: str
    body: dict[str, str]
    delivered_at: float = -1e9
    deliveries: int = 0
    acknowledged_at: float | None = None
    said_at: float = field(default_factory=time.monotonic)


@dataclass(kw_only=True)
class Shown:
    """A message of the bot's, as it is now."""

    id: str
    thread: str
    reply_to: str
    part: int
    body: str
    phase: str


class Board:
    """See the module."""

    def __init__(self, seed: int = 0) -> None:
        self.events: list[Event] = []
        self.shown: dict[str, Shown] = {}
        self.calls: Counter[str] = Counter()
        self.lost_replies = 0.0
        """Share of the calls that are carried out and not answered."""
        self.busy = 0.0
        """Share of the calls that are refused with 429 and `Retry-After: 0.1`."""
        self.injected: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._ids = 0
        self._runner: web.AppRunner | None = None
        self.url = ""

    def say(self, thread: str, text: str, author: str = "ada", **more: str) -> str:
        """A question in a thread; the id of its message, which sorts like all of them."""
        self._ids += 1
        id_ = f"{self._ids:06}"
        self._event("message", {"id": id_, "thread": thread, "text": text, "author": author, **more})
        return id_

    def change(self, kind: str, id_: str, thread: str, text: str = "") -> None:
        """Somebody edits or deletes a message ("edit", "delete")."""
        self._event(kind, {"id": id_, "thread": thread, "text": text, "author": "ada"})

    def _event(self, kind: str, body: dict[str, str]) -> None:
        self.events.append(Event(id=len(self.events), kind=kind, body=body))

    def under(self, id_: str) -> list[Shown]:
        """What the bot shows under a question, in the order of parts."""
        return sorted((shown for shown in self.shown.values() if shown.reply_to == id_), key=lambda shown: shown.part)

    @property
    def questions(self) -> list[Event]:
        return [event for event in self.events if event.kind == "message"]

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/events", self._deliver)
        app.router.add_post("/acks/{id}", self._acknowledge)
        app.router.add_get("/messages", self._find)
        app.router.add_post("/messages", self._create)
        app.router.add_patch("/messages/{id}", self._edit)
        app.router.add_delete("/messages/{id}", self._remove)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _deliver(self, request: web.Request) -> web.Response:
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            now = time.monotonic()
            due = [e for e in self.events if e.acknowledged_at is None and now - e.delivered_at > REDELIVER]
            if due:
                break
            await asyncio.sleep(0.01)
        else:
            due = []
        for event in due[:50]:
            event.delivered_at, event.deliveries = time.monotonic(), event.deliveries + 1
        return web.json_response([{"id": e.id, "kind": e.kind, **{"message": e.body}} for e in due[:50]])

    async def _acknowledge(self, request: web.Request) -> web.Response:
        event = self.events[int(request.match_info["id"])]
        event.acknowledged_at = event.acknowledged_at or time.monotonic()
        return web.Response()

    async def _find(self, request: web.Request) -> web.Response:
        self.calls["find"] += 1
        return web.json_response([shown.id for shown in self.under(request.query["reply_to"])])

    async def _create(self, request: web.Request) -> web.Response:
        self._maybe_busy()
        body: dict[str, Any] = await request.json()
        self.calls["create"] += 1
        id_ = f"r{self.calls['create']}"
        self.shown[id_] = Shown(id=id_, **body)
        return await self._answered(request, id_)

    async def _edit(self, request: web.Request) -> web.Response:
        self._maybe_busy()
        body: dict[str, Any] = await request.json()
        self.calls["edit"] += 1
        id_ = request.match_info["id"]
        if id_ not in self.shown:
            raise web.HTTPNotFound
        self.shown[id_] = Shown(id=id_, **body)
        return await self._answered(request, id_)

    async def _remove(self, request: web.Request) -> web.Response:
        self.calls["remove"] += 1
        self.shown.pop(request.match_info["id"], None)
        return await self._answered(request, "")

    def _maybe_busy(self) -> None:
        if self._chance.random() < self.busy:
            self.injected["busy"] += 1
            raise web.HTTPTooManyRequests(headers={"Retry-After": "0.1"})

    async def _answered(self, request: web.Request, text: str) -> web.Response:
        if self._chance.random() < self.lost_replies:
            self.injected["lost"] += 1
            assert request.transport is not None
            request.transport.abort()
        return web.Response(text=text)
