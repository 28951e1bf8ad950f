"""Events about messages in the order in which they came, so many at a time, and each message once.

A crowd's events would otherwise be dealt with side by side and so all end late, not one of them within the three
seconds that Slack waits; then each comes again, and the line is twice as long. What else is to be done meanwhile, a
message of ours for each question above all, waits until the crowd is in.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from contextlib import suppress
from typing import Final, Protocol

from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.events import Json

AT_ONCE: Final = 100
"""As many as one transaction stores."""
KNOWN: Final = 10_000
"""Messages whose events are acknowledged at once."""
LOOK_UP_SECONDS: Final = 2.0
"""From when an event came, for all that Slack is asked before it is stored: it has to be acknowledged within three. A
question whose time is over goes on with ids for names and without what was said before it."""
RUSH_SECONDS: Final = 4.0
"""For so long at most, what can wait does: less than an answer waits for the message in which it is to grow."""
UNTIL: Final = "look_up_until"
"""In the context of a request: when that time is over, by the monotonic clock."""

_Message = tuple[str, str]
"""Channel and `ts`."""


class App(Protocol):
    """Takes what comes from Slack: an app of Bolt, or those of several workspaces."""

    @property
    def client(self) -> AsyncWebClient: ...

    async def async_dispatch(self, req: AsyncBoltRequest) -> BoltResponse: ...


class Rush:
    """From when more events wait than are dealt with at a time until none is left."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self._over.set()
        self._until = 0.0

    def goes_on(self, waiting: int) -> None:
        """So many events wait or are dealt with now."""
        if not waiting:
            self._over.set()
        elif waiting > AT_ONCE and self._over.is_set():
            self._over.clear()
            self._until = time.monotonic() + RUSH_SECONDS

    async def over(self) -> None:
        """Returns when it is over, or has lasted too long to wait for; at once if there is none."""
        if not self._over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), max(0.0, self._until - time.monotonic()))


class Line:
    """Before the app of one workspace. Commands and what people press do not wait in it."""

    def __init__(self, app: App, rush: Rush) -> None:
        self._app, self._rush = app, rush
        self._places = asyncio.Semaphore(AT_ONCE)
        self._under_way: dict[_Message, asyncio.Task[BoltResponse]] = {}
        self._known: OrderedDict[_Message, None] = OrderedDict()

    @property
    def client(self) -> AsyncWebClient:
        return self._app.client

    async def async_dispatch(self, req: AsyncBoltRequest) -> BoltResponse:
        """As an app of Bolt does it."""
        if (message := _message(req.body)) is None:
            return await self._app.async_dispatch(req)
        if message in self._known:
            return BoltResponse(status=200)
        # A mention comes as two events, and each of them again if it takes too long: they are one piece of work.
        work = self._under_way.get(message)
        if work is None:
            work = self._under_way[message] = asyncio.create_task(self._in_turn(message, req))
            work.add_done_callback(lambda _: self._left(message))
            self._rush.goes_on(len(self._under_way))
        return await asyncio.shield(work)

    async def _in_turn(self, message: _Message, req: AsyncBoltRequest) -> BoltResponse:
        until = time_is_over()
        async with self._places:
            # In a crowd nobody looks anything up: all who wait behind would wait for that as well.
            req.context[UNTIL] = time.monotonic() if len(self._under_way) > AT_ONCE else until
            response = await self._app.async_dispatch(req)
        if response.status == 200:
            self._known[message] = None
            while len(self._known) > KNOWN:
                self._known.popitem(last=False)
        return response

    def _left(self, message: _Message) -> None:
        self._under_way.pop(message, None)
        self._rush.goes_on(len(self._under_way))


def time_is_over() -> float:
    """When the time to look things up is over for an event that comes now, by the monotonic clock."""
    return time.monotonic() + LOOK_UP_SECONDS


def _message(body: Json) -> _Message | None:
    """The message that an event tells as new; None for all else."""
    event: Json = body.get("event") or {}
    if event.get("type") not in ("app_mention", "message") or event.get("edited") or event.get("hidden"):
        return None
    if event.get("subtype") in ("message_changed", "message_deleted") or not event.get("ts"):
        return None
    return str(event.get("channel")), str(event["ts"])
