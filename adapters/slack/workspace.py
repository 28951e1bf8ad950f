"""The bot in its workspace: a token, and all that works with it."""

from __future__ import annotations

import asyncio

from slack_bolt.authorization import AuthorizeResult

from adapters.dispatcher import Dispatcher
from adapters.slack.actions import Actions
from adapters.slack.buttons import Buttons
from adapters.slack.catch_up import CatchUp, Frugality
from adapters.slack.channel import PLATFORM, SlackChannel
from adapters.slack.intake import Intake
from adapters.slack.line import App, Line
from adapters.slack.listeners import slack_app
from adapters.slack.names import Names
from adapters.slack.pane import Pane, Topics
from adapters.slack.setup import SlackSetup
from adapters.slack.web import SlackWeb
from adapters.slack.whisper import Whisper
from adapters.store import SqlConversationStore
from core.errors import ConfigError


class Workspace:
    """What events need, in whatever way they come in."""

    def __init__(
        self,
        setup: SlackSetup,
        desk: Dispatcher,
        store: SqlConversationStore,
        topics: Topics,
        frugality: Frugality = Frugality(),
        *,
        team: str = "",
    ) -> None:
        """`team` is the workspace where there are several; else it is that of the token."""
        self._setup, self._desk, self._store, self._frugality = setup, desk, store, frugality
        self._team = team
        self._opening = asyncio.Lock()
        self._web = SlackWeb(setup.bot_token, setup.api_base_url)
        self._missed = asyncio.Event()
        self._opened: tuple[App, CatchUp] | None = None
        self.channel = SlackChannel(self._web, streams=setup.streams)
        self._pane, self._whisper = Pane(self._web, setup.name, topics, self.channel.rush), Whisper(self._web)
        self.channel.stopped = self._stop

    @property
    def token(self) -> str:
        """With which it speaks."""
        return self._setup.bot_token

    @property
    def refusal(self) -> ConfigError | None:
        """Why nothing will ever work again."""
        return self._web.refusal

    async def open(self) -> tuple[App, CatchUp]:
        """The app that takes events, and what reads up those that were missed; the same each time.

        Raises `ChannelError` if Slack does not tell who the bot is.
        """
        async with self._opening:
            if self._opened is None:
                self._opened = await self._made()
            return self._opened

    async def _made(self) -> tuple[App, CatchUp]:
        me, names = await self._web.me(), Names(self._web)
        who = {"team": self._team or me.team, "me": me.user}
        intake = Intake(self._setup, self._web, self._desk, self._store, names, self._pane, self._whisper, **who)
        actions = Actions(self._setup, self._web, self._desk, self._store, names, **who)
        buttons = Buttons(self._setup, self._desk, self._store, names, actions, self._whisper)
        bot = AuthorizeResult(
            enterprise_id=None, team_id=who["team"], bot_user_id=me.user, bot_id=me.bot, bot_token=self.token
        )
        app = slack_app(self._web.client, bot, intake, actions, buttons, self._pane, self._whisper, self._missed)
        catch_up = CatchUp(
            self._store,
            self._web,
            intake,
            self._setup,
            team=who["team"],
            mark=f"{PLATFORM}:{self._team}" if self._team else PLATFORM,
            missed=self._missed,
            frugality=self._frugality,
        )
        return Line(app, self.channel.rush), catch_up

    def _stop(self, key: str) -> None:
        if (job := self._desk.job_of(key)) is not None:
            self._desk.stop(job.id)

    def lost(self) -> None:
        """Nothing is heard now."""
        if self._opened is not None:
            self._opened[1].lost()

    async def close(self) -> None:
        """Ends what is under way beside the events."""
        if self._opened is not None:
            await self._opened[1].close()
        await self._pane.close()
        await self._whisper.close()
