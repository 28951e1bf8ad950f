"""Names of people and channels, asked of Slack once in a while; an id stands in where there is no time for more."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from adapters.slack.web import Json, SlackWeb
from core.errors import ChannelError

log = logging.getLogger(__name__)

SECONDS: Final = 0.8
"""For one name: the event that holds it has to be acknowledged within three seconds."""
KEPT_SECONDS: Final = 3600.0
FAILED_SECONDS: Final = 60.0
"""Before a name is asked for again that could not be had."""
MOST: Final = 5_000
MOST_AT_ONCE: Final = 20
"""Names that are asked for at the same time: Slack allows some 100 a minute, and a crowd's questions wait for them."""


class Names:
    """For one workspace."""

    def __init__(self, web: SlackWeb) -> None:
        self._web = web
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._asked: dict[str, asyncio.Task[str]] = {}

    async def user(self, id_: str, until: float = math.inf) -> str:
        """The display name of a person; the id if it cannot be had until a moment of the monotonic clock."""
        return await self._name(id_, self._user, until)

    async def channel(self, id_: str, until: float = math.inf) -> str:
        """The name of a public channel; the id of any other: a private one's name is not for everybody."""
        return await self._name(id_, self._channel, until)

    async def _name(self, id_: str, ask: Callable[[str], Awaitable[str]], until: float) -> str:
        now = time.monotonic()
        known = self._known.get(id_)
        if known is not None and known[1] > now:
            return known[0]
        # One message comes as two events at once.
        task = self._asked.get(id_)
        stand_in = known[0] if known else id_
        if task is None and (len(self._asked) >= MOST_AT_ONCE or until <= now):
            return stand_in
        if task is None:
            task = self._asked[id_] = asyncio.create_task(self._learn(id_, ask))
            task.add_done_callback(lambda _: self._asked.pop(id_, None))
        # Whoever is asked for in vain may be known to the next.
        done, _ = await asyncio.wait([task], timeout=min(SECONDS, max(0.0, until - now)))
        return task.result() if done else stand_in

    async def _learn(self, id_: str, ask: Callable[[str], Awaitable[str]]) -> str:
        lasts = KEPT_SECONDS
        try:
            name = await asyncio.wait_for(ask(id_), SECONDS) or id_
        except (TimeoutError, ChannelError) as error:
            log.info("A name could not be had from Slack: %s", error or "no answer in time")
            known = self._known.get(id_)
            name, lasts = known[0] if known else id_, FAILED_SECONDS
        self._known[id_] = (name, time.monotonic() + lasts)
        self._known.move_to_end(id_)
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return name

    async def _user(self, id_: str) -> str:
        user: Json = (await self._web.call("users.info", user=id_)).get("user") or {}
        profile: Json = user.get("profile") or {}
        return str(profile.get("display_name") or profile.get("real_name") or user.get("name") or "")

    async def _channel(self, id_: str) -> str:
        channel: Json = (await self._web.call("conversations.info", channel=id_)).get("channel") or {}
        return "" if channel.get("is_private") else str(channel.get("name") or "")
