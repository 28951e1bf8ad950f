"""The bot in several workspaces, each with its own token, app, memory of names and catch-up: nothing is shared.

It takes the place of one `Workspace`: what comes from Slack goes to the workspace that it came from, and what is said
to the one that it belongs to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Protocol

from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from adapters.dispatcher import Dispatcher
from adapters.ports import Post
from adapters.slack import rendering
from adapters.slack.catch_up import Frugality
from adapters.slack.channel import PLATFORM, SHORTEST_PACE, SlackChannel
from adapters.slack.events import Json
from adapters.slack.installations import Installations
from adapters.slack.pane import Topics
from adapters.slack.patience import Patience
from adapters.slack.setup import SlackSetup
from adapters.slack.web import SECONDS
from adapters.slack.workspace import Workspace
from adapters.store import SqlConversationStore
from core import metrics
from core.errors import ChannelError, ChannelGone, ConfigError, ThreadwiseError
from core.types import Answer

log = logging.getLogger(__name__)

REMOVALS: Final = ("app_uninstalled", "tokens_revoked")


class Hearing(Protocol):
    """Is told whether events come in: what reads up those that were missed."""

    def began(self) -> None: ...

    def lost(self) -> None: ...


class Workspaces:
    """See the module."""

    refusal: ConfigError | None = None
    """One token that is refused is no reason to end."""

    def __init__(
        self,
        setup: SlackSetup,
        desk: Dispatcher,
        store: SqlConversationStore,
        topics: Topics,
        patience: Patience = Patience(),
        frugality: Frugality = Frugality(),
    ) -> None:
        self.setup, self._desk, self._store, self._topics = setup, desk, store, topics
        self._patience, self._frugality = patience, frugality
        self.installations = Installations(store.installations, setup.client_id, setup.teams, self._changed)
        self.channel = SlackChannels(self)
        self.client = AsyncWebClient(base_url=f"{setup.api_base_url.rstrip('/')}/", timeout=SECONDS, retry_handlers=[])
        """For calls that need no bot token."""
        self._known: dict[str, Workspace] = {}
        self._beginning: dict[str, asyncio.Task[None]] = {}
        self._told: set[str] = set()
        self._listening = False

    async def open(self) -> tuple[Workspaces, Workspaces]:
        """What takes events, and what reads up those that were missed."""
        return self, self

    async def of(self, team: str, enterprise: str = "") -> Workspace | None:
        """The bot in a workspace; None if it is not installed or not listed there, or its token is refused."""
        if team not in self._known:
            bot = await self.installations.async_find_bot(enterprise_id=enterprise, team_id=team)
            if bot is None or not team:
                return None
            setup = replace(self.setup, bot_token=bot.bot_token)
            made = Workspace(setup, self._desk, self._store, self._topics, self._frugality, team=team)
            self._known.setdefault(team, made)  # Somebody may have been faster.
        found = self._known[team]
        if found.refusal is not None and team not in self._told:
            self._told.add(team)
            log.warning("The token of the Slack workspace %s is refused: nothing is said there any more", team)
        return found if found.refusal is None else None

    def all(self) -> list[Workspace]:
        """Those that are known."""
        return list(self._known.values())

    # ------------------------------------------------------------------------------------- what comes in

    async def async_dispatch(self, req: AsyncBoltRequest) -> BoltResponse:
        """As an app of Bolt does it."""
        body: Json = req.body
        if body.get("type") == "url_verification":
            return BoltResponse(status=200, body={"challenge": body.get("challenge")})
        team, enterprise = req.context.team_id or "", req.context.enterprise_id or ""
        event: Json = body.get("event") or {}
        try:
            if event.get("type") in REMOVALS:
                await self._removed(event, team or enterprise, float(body.get("event_time") or 0))
                return BoltResponse(status=200)
            workspace = await self.of(team, enterprise)
            if workspace is None:
                metrics.SLACK_NOT_INSTALLED.inc()
                return BoltResponse(status=200)
            self._begin(team, workspace)
            app, _ = await workspace.open()
        except ThreadwiseError as error:
            log.warning("An event from Slack could not be taken, so that it comes again: %s", error)
            return BoltResponse(status=503)
        return await app.async_dispatch(req)

    async def _removed(self, event: Json, place: str, at: float) -> None:
        # Tokens of people are none of ours.
        if event["type"] == "app_uninstalled" or (event.get("tokens") or {}).get("bot"):
            # Slack may tell it late, and tells it by the second.
            await self.installations.removed(place, datetime.fromtimestamp(at + 1, UTC))

    # ------------------------------------------------------------------------------ coming and going

    def began(self) -> None:
        """Events come in, after a gap."""
        self.lost()
        self._listening = True
        self._beginning[""] = asyncio.create_task(self._begin_all())

    def lost(self) -> None:
        """Nothing is heard now."""
        self._listening = False
        for task in self._beginning.values():
            task.cancel()
        self._beginning.clear()
        for workspace in self._known.values():
            workspace.lost()

    async def close(self) -> None:
        """Ends everything."""
        tasks = list(self._beginning.values())
        self.lost()
        await asyncio.gather(*tasks, return_exceptions=True)
        for workspace in self._known.values():
            await workspace.close()

    async def _changed(self) -> None:
        tokens = await self.installations.places()
        for team, workspace in list(self._known.items()):
            if workspace.token != tokens.get(team) or workspace.refusal is not None:
                del self._known[team]
                self._told.discard(team)
                if task := self._beginning.pop(team, None):
                    task.cancel()
                await workspace.close()
        if self._listening:
            await self._begin_all()

    async def _begin_all(self) -> None:
        tries = 0
        while True:
            try:
                for team in await self.installations.places():
                    if (workspace := await self.of(team)) is not None:
                        self._begin(team, workspace)
                return
            except ThreadwiseError as error:
                log.warning("The workspaces on Slack could not be read: %s", error)
            tries += 1
            await asyncio.sleep(self._patience.backoff(tries))

    def _begin(self, team: str, workspace: Workspace) -> None:
        if self._listening and team not in self._beginning:
            self._beginning[team] = asyncio.create_task(self._read_up(workspace))

    async def _read_up(self, workspace: Workspace) -> None:
        tries = 0
        while workspace.refusal is None:
            try:
                _, catch_up = await workspace.open()
            except ChannelError as error:
                log.warning("Slack cannot be reached: %s", error)
                tries += 1
                await asyncio.sleep(self._patience.backoff(tries))
            else:
                catch_up.began()
                return


def workspace_of(
    setup: SlackSetup,
    desk: Dispatcher,
    store: SqlConversationStore,
    topics: Topics,
    patience: Patience,
    frugality: Frugality,
) -> Workspace | Workspaces:
    """The one whose token is in the settings, or those that install the app."""
    if setup.client_id:
        return Workspaces(setup, desk, store, topics, patience, frugality)
    return Workspace(setup, desk, store, topics, frugality)


class SlackChannels:
    """Implements `adapters.ports.Channel`: each message goes through the workspace of its conversation."""

    platform = PLATFORM

    def __init__(self, workspaces: Workspaces) -> None:
        self._workspaces = workspaces

    @property
    def pace(self) -> float:
        """That of the busiest."""
        return max((workspace.channel.pace for workspace in self._workspaces.all()), default=SHORTEST_PACE)

    def bodies(self, answer: Answer) -> Sequence[str]:
        return rendering.bodies(answer)

    async def open(self, post: Post) -> str:
        return await (await self._of(post)).open(post)

    async def find(self, post: Post) -> Sequence[str]:
        return await (await self._of(post)).find(post)

    async def edit(self, message_id: str, post: Post) -> None:
        await (await self._of(post)).edit(message_id, post)

    async def remove(self, message_id: str, post: Post) -> None:
        await (await self._of(post)).remove(message_id, post)

    async def _of(self, post: Post) -> SlackChannel:
        workspace = await self._workspaces.of(post.thread.workspace)
        if workspace is None:
            raise ChannelGone("Threadwise is not installed in this Slack workspace any more.")
        return workspace.channel
