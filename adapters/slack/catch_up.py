"""What was said while nobody listened, found after the fact.

Slack tells an event again for some minutes, and not at all when no connection was there for longer. Up to when
everything has been heard is on the disk, so the messages since then are read again, through the same intake, which
knows those that it has taken already. Without such a mark (the first start ever) nothing is replayed.

A thread's replies are not in the history of its channel, but its first message tells when the last one came. So the
calls are few: one a channel, and one for each thread that went on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from adapters.fault import fault
from adapters.ports import ThreadKey
from adapters.slack.channel import PLATFORM
from adapters.slack.events import Json
from adapters.slack.setup import SlackSetup
from adapters.slack.web import SlackRefusal, SlackWeb
from adapters.store import SqlConversationStore
from core.errors import ChannelBusy, ChannelError, ChannelGone, DataDirError

log = logging.getLogger(__name__)

LONGEST_BACK: Final = timedelta(minutes=30)
OVERLAP: Final = timedelta(seconds=150)
"""Messages that were heard may have waited that long for the database."""
THREADS_BACK: Final = timedelta(hours=24)
"""Of the first messages of threads that may have gone on."""
OWN_BACK: Final = timedelta(days=7)
"""Of the last question in a thread of the bot's own whose first message is older than that."""
IN_CHANNEL: Final = 50
IN_ALL: Final = 100
"""Questions."""
CHANNELS: Final = 40
THREADS: Final = 40
"""Those in which the bot spoke last come first."""
PAGE: Final = 200
MOST_PAGES: Final = 3
"""Of one channel or thread."""
MARK_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 30.0


class Intake(Protocol):
    """What is told of messages that were missed."""

    async def found(self, event: Json) -> bool:
        """Whether it was a question that was not known yet."""

    def gap(self) -> None:
        """Messages may have been missed."""


"""Whether the message was a question that was not known yet."""
KINDS: Final = "public_channel,private_channel,mpim,im"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frugality:
    """How often a method is called. Slack allows 50 calls a minute, which answers need as well, and one a minute to an
    app that is distributed outside its Marketplace."""

    at_once: int = 20
    every: float = 2.0
    """Seconds between two calls after those."""
    longest_wait: float = 90.0
    """Seconds that Slack may ask to wait."""
    most_waits: int = 5
    """After so many of them the rest is left unread."""
    between: float = 30.0
    """Seconds between two times that something is read up: a connection may come and go."""


class CatchUp:
    """Reads up after each gap, and keeps the mark while events come in.

    `mark` names the moment up to which its workspace has been heard. `missed` is set when an event could not be stored:
    Slack may tell it again, or not.
    """

    def __init__(
        self,
        store: SqlConversationStore,
        web: SlackWeb,
        intake: Intake,
        setup: SlackSetup,
        *,
        team: str,
        mark: str,
        missed: asyncio.Event,
        frugality: Frugality,
    ) -> None:
        self._store, self._web, self._intake, self._setup, self._team = store, web, intake, setup, team
        self._mark, self._missed, self._frugality = mark, missed, frugality
        self._listening: asyncio.Task[None] | None = None
        self._read_at = -frugality.between

    def began(self) -> None:
        """Events come in, after a gap."""
        self.lost()
        self._intake.gap()
        self._listening = asyncio.create_task(self._listen())

    def lost(self) -> None:
        """Nothing is heard now; what is being read up is looked for again."""
        if self._listening is not None:
            self._listening.cancel()

    async def close(self) -> None:
        """Ends it."""
        self.lost()
        if self._listening is not None:
            await asyncio.wait([self._listening])

    async def _listen(self) -> None:
        while True:
            try:
                await asyncio.sleep(max(0.0, self._read_at + self._frugality.between - time.monotonic()))
                self._read_at = time.monotonic()
                self._missed.clear()
                await self.read_up()
                while not self._missed.is_set():
                    await self._store.lookups.mark(self._mark, datetime.now(UTC))
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._missed.wait(), MARK_SECONDS)
            except (ChannelError, DataDirError) as error:
                log.warning("What was missed on Slack could not be read (%s); tried again", error)
            await asyncio.sleep(AGAIN_SECONDS)

    async def read_up(self) -> int:
        """How many questions were found. Raises `ThreadwiseError` when something is to be read again."""
        mark = await self._store.lookups.heard_until(self._mark)
        if mark is None:
            return 0
        now = datetime.now(UTC)
        since = max(mark - OVERLAP, now - LONGEST_BACK)
        known = await self._store.threads(PLATFORM, 10 * THREADS)
        live = [info.key for info in known if info.last_at > now - OWN_BACK and info.key.workspace == self._team]
        messages = await _Reading(self._web, self._setup, self._team, since, now, self._frugality).messages(live)
        found = await self._ask(sorted(messages, key=lambda message: str(message["ts"])))
        if found:
            log.warning("%d questions that were missed on Slack are answered now", found)
        return found

    async def _ask(self, messages: list[Json]) -> int:
        found: Counter[str] = Counter()
        for message in messages:
            channel = str(message["channel"])
            if found.total() >= IN_ALL:
                log.warning("More than %d questions were missed on Slack; the rest is not answered", IN_ALL)
                break
            if found[channel] >= IN_CHANNEL:
                continue
            fault("K13")
            # Edited or not, it is asked if it was not; only then it is one that reads otherwise now.
            is_new = await self._intake.found({key: value for key, value in message.items() if key != "edited"})
            found[channel] += is_new
            if not is_new and message.get("edited"):
                await self._intake.found(message)
        if full := [channel for channel, count in found.items() if count >= IN_CHANNEL]:
            log.warning("In %s more may have been missed than the %d that are answered", ", ".join(full), IN_CHANNEL)
        return found.total()


@dataclass
class _Reading:
    """Of what was said in one workspace since a moment."""

    web: SlackWeb
    setup: SlackSetup
    team: str
    since: datetime
    now: datetime
    frugality: Frugality
    waits: int = 0
    calls: defaultdict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))
    given_up: bool = False
    cut: bool = False
    """Whether some channel or thread had more pages than are read."""

    async def messages(self, known: list[ThreadKey]) -> list[Json]:
        """As events tell them; `known` are the conversations there, the newest first."""
        found: dict[tuple[str, str], Json] = {}
        own, others = dict[tuple[str, str], None](), dict[tuple[str, str], None]()
        for channel in await self._channels(known):
            roots = await self._pages("conversations.history", channel, oldest=_ts(self.now - THREADS_BACK))
            on_page = {str(root.get("ts")) for root in roots}
            went_on = {str(root["ts"]) for root in roots if str(root.get("latest_reply") or "") > _ts(self.since)}
            here = [key.thread for key in known if key.channel == channel]
            own |= dict.fromkeys((channel, thread) for thread in here if thread in went_on or thread not in on_page)
            others |= dict.fromkeys((channel, thread) for thread in sorted(went_on, reverse=True))
            found |= self._new(channel, roots)
        threads = list(own | others)
        for channel, thread in threads[:THREADS]:
            replies = await self._pages("conversations.replies", channel, ts=thread, oldest=_ts(self.since))
            found |= self._new(channel, replies)
        if self.given_up or self.cut or len(threads) > THREADS:
            log.warning("Not all that was said on Slack while nobody listened could be read")
        return list(found.values())

    def _new(self, channel: str, messages: list[Json]) -> dict[tuple[str, str], Json]:
        kind = "im" if channel.startswith("D") else "channel"
        return {
            (channel, str(message["ts"])): {**message, "channel": channel, "channel_type": kind}
            for message in messages
            if str(message.get("ts") or "") > _ts(self.since)
        }

    async def _channels(self, known: list[ThreadKey]) -> list[str]:
        channels = dict.fromkeys(key.channel for key in known)
        try:
            # A token of an organization is good for many workspaces; with any other, Slack ignores the id.
            where = {"types": KINDS, "exclude_archived": "true", "team_id": self.team}
            page = await self._call("users.conversations", **where, limit=PAGE)
            member = [str(channel["id"]) for channel in page.get("channels") or []]
            channels |= dict.fromkeys(member)
        except SlackRefusal as refusal:
            log.warning("Not known in which channels something may have been missed: %s", refusal)
        if len(channels) > CHANNELS:
            log.warning("Of %d channels on Slack %d are looked through for missed questions", len(channels), CHANNELS)
        return [channel for channel in channels if self._is_open(channel)][:CHANNELS]

    def _is_open(self, channel: str) -> bool:
        if channel.startswith("D"):
            return self.setup.direct_messages
        return self.setup.answers_in(self.team, channel)

    async def _pages(self, method: str, channel: str, **where: str) -> list[Json]:
        """Newest first for a channel, oldest first for a thread; nothing where the bot may not look any more."""
        found: list[Json] = []
        cursor: dict[str, str] = {}
        try:
            for _ in range(MOST_PAGES):
                page = await self._call(method, channel=channel, latest=_ts(self.now), limit=PAGE, **where, **cursor)
                found += page.get("messages") or []
                following = (page.get("response_metadata") or {}).get("next_cursor")
                if not following:
                    break
                cursor = {"cursor": str(following)}
            else:
                self.cut = True
        except (ChannelGone, SlackRefusal) as error:
            log.info("A channel could not be looked through: %s", error)
        return found

    async def _call(self, method: str, **arguments: object) -> Json:
        """Nothing once Slack has asked to wait too often."""
        while not self.given_up:
            await self._pace(method)
            try:
                return await self.web.call(method, **arguments)
            except ChannelBusy as busy:
                wait, self.waits = busy.retry_after or 1.0, self.waits + 1
                if wait > self.frugality.longest_wait or self.waits > self.frugality.most_waits:
                    self.given_up = True
                else:
                    await asyncio.sleep(wait)
        return {}

    async def _pace(self, method: str) -> None:
        calls = self.calls[method]
        if len(calls) >= self.frugality.at_once:
            await asyncio.sleep(max(0.0, calls[-1] + self.frugality.every - time.monotonic()))
        calls.append(time.monotonic())


def _ts(moment: datetime) -> str:
    """As Slack names messages; as text it sorts like them."""
    return f"{moment.timestamp():.6f}"
