"""Slack over Socket Mode: slack-bolt's AsyncApp, and connections that are watched and replaced by us.

An event is acknowledged only after what it said is stored (`process_before_response`). Each connection has a fresh
address: slack_sdk would wait for ever on one that has expired, and takes a connection that hears nothing for sound.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress

from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from adapters.dispatcher import Dispatcher
from adapters.slack.address import listening
from adapters.slack.catch_up import Frugality
from adapters.slack.installing import install_routes
from adapters.slack.line import App
from adapters.slack.pane import Topics
from adapters.slack.patience import Patience
from adapters.slack.sense import makes_sense
from adapters.slack.setup import SlackSetup
from adapters.slack.web import REFUSED, Json
from adapters.slack.workspaces import Hearing, workspace_of
from adapters.store import SqlConversationStore
from core.errors import ChannelError, ConfigError

log = logging.getLogger(__name__)


class SlackSocket:
    """The bot in its workspace, or in several. `channel` is attached to the dispatcher, then `run` runs until it is
    cancelled."""

    def __init__(
        self,
        setup: SlackSetup,
        desk: Dispatcher,
        store: SqlConversationStore,
        topics: Topics,
        patience: Patience = Patience(),
        frugality: Frugality = Frugality(),
    ) -> None:
        self._setup, self._patience = setup, patience
        self._workspace = workspace_of(setup, desk, store, topics, patience, frugality)
        self.channel = self._workspace.channel
        self._current: _Connection | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def connected(self) -> bool:
        """Whether events come in."""
        return self._current is not None and self._current.alive()

    async def run(self) -> None:
        """Takes events until it is cancelled, over connections that come and go. Raises `ConfigError` for a token
        that Slack refuses."""
        if routes := install_routes(self._workspace):
            async with listening(self._setup, routes, self._patience.overlap):
                await self._connected()
        else:
            await self._connected()

    async def _connected(self) -> None:
        catch_up: Hearing | None = None
        tries = 0
        try:
            while True:
                try:
                    app, catch_up = await self._workspace.open()
                    fresh = await self._connect(app)
                except ChannelError as error:
                    if self._workspace.refusal is not None:
                        raise self._workspace.refusal from error
                    if catch_up is not None and self._current is not None and not self._current.is_open():
                        # It was open for a while after its good-bye.
                        catch_up.lost()
                    log.warning("Slack cannot be reached: %s", error)
                    tries += 1
                    await asyncio.sleep(self._patience.backoff(tries))
                    continue
                tries = 0
                if self._current is None or not self._current.is_open():
                    catch_up.began()
                self._replace(fresh)
                while fresh.alive():
                    if self._workspace.refusal is not None:
                        raise self._workspace.refusal
                    await fresh.a_while(self._patience.look)
                if not fresh.is_open():
                    catch_up.lost()
        finally:
            self._replace(None)
            await self._workspace.close()
            if self._leaving:
                await asyncio.wait(self._leaving)

    async def _connect(self, app: App) -> _Connection:
        connection = _Connection(app, self._setup.app_token, self._patience)
        try:
            await asyncio.wait_for(connection.open(), self._patience.hello)
        except BaseException as error:  # cancelled as well: nobody else knows of this connection
            await connection.close()
            if isinstance(error, TimeoutError):
                raise ChannelError("no connection was made in time") from error
            raise
        return connection

    def _replace(self, fresh: _Connection | None) -> None:
        before, self._current = self._current, fresh
        if before is not None:
            task = asyncio.create_task(before.leave(self._patience.overlap if fresh else 0.0))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)


class _Connection(AsyncSocketModeHandler):
    """One WebSocket, from its address to its end; it is never opened again."""

    def __init__(self, app: App, app_token: str, patience: Patience) -> None:
        own = {"logger": _sdk_log(), "ping_interval": patience.ping}
        super().__init__(app, app_token, **own)  # type: ignore[arg-type]  # it asks for no more of an app than `App` has
        self._web_client = app.client
        self._greeted, self._over = asyncio.Event(), asyncio.Event()
        self._closed_by_slack = False
        self._silence = 3 * patience.ping
        self._heard = time.monotonic()
        self._pong: float | None = None
        # What slack_sdk would do by itself: open the next connection in the place of this one.
        self.client.default_auto_reconnect_enabled = False
        self.client.connect_to_new_endpoint = self._end  # type: ignore[method-assign]  # it has no setting for that
        self.client.message_listeners.append(self._note)
        self.client.on_close_listeners.append(self._closed)

    async def handle(self, client: SocketModeClient, req: SocketModeRequest) -> None:  # type: ignore[override]  # Bolt's handlers narrow it alike
        try:
            if makes_sense(req.payload):
                await super().handle(client, req)
            else:
                log.warning("An event of Slack's makes no sense, and is dropped")
                await client.send_socket_mode_response(SocketModeResponse(envelope_id=req.envelope_id))
        except Exception as error:  # noqa: BLE001 - of a connection that ended meanwhile
            log.info("An event could not be acknowledged, so that it comes again: %s", type(error).__name__)

    async def open(self) -> None:
        """Until Slack has said hello. Raises `ChannelError`, or `ConfigError` for a token that Slack refuses."""
        try:
            reply = await self._web_client.apps_connections_open(app_token=self.app_token)
        except SlackApiError as error:
            reason = str(error.response.get("error") or error.response.status_code)
            if reason in REFUSED:
                wanted = "it is made under Basic Information, with the scope connections:write"
                raise ConfigError(f"Slack refuses SLACK_APP_TOKEN ({reason}): {wanted}.") from error
            raise ChannelError(f"no address for a connection ({reason}).") from error
        except Exception as error:  # aiohttp's many
            raise ChannelError(f"no address for a connection ({type(error).__name__}).") from error
        self.client.wss_uri = str(reply["url"])
        await self.client.connect()  # type: ignore[no-untyped-call]  # slack_sdk has no types there
        await self._greeted.wait()

    def alive(self) -> bool:
        """Whether it is open and something came over it lately."""
        if self.client.last_ping_pong_time != self._pong:
            self._pong, self._heard = self.client.last_ping_pong_time, time.monotonic()
        return self.is_open() and not self._over.is_set()

    def is_open(self) -> bool:
        """Whether events come over it still, also when it is about to end."""
        session = self.client.current_session
        is_open = session is not None and not session.closed and not self._closed_by_slack
        return is_open and time.monotonic() - self._heard < self._silence

    async def a_while(self, seconds: float) -> None:
        """Returns sooner when it has ended, or when Slack says that it is about to."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)

    async def leave(self, after: float) -> None:
        """Closes it when what it brought is acknowledged."""
        await asyncio.sleep(after)
        await self.close()

    async def close(self) -> None:
        """For good."""
        with suppress(Exception):  # a connection that is broken cannot be closed in order
            await self.client.close()  # type: ignore[no-untyped-call]  # as above

    async def _end(self, force: bool = False) -> None:
        self._over.set()

    async def _closed(self, _: object) -> None:
        self._closed_by_slack = True
        self._over.set()

    async def _note(self, _: object, message: Json, __: str | None = None) -> None:
        self._heard = time.monotonic()
        if message.get("type") == "hello":
            self._greeted.set()


def _sdk_log() -> logging.Logger:
    logger = logging.getLogger("slack_sdk.socket_mode")
    if _is_news not in logger.filters:
        logger.addFilter(_is_news)
    return logger


def _is_news(record: logging.LogRecord) -> bool:
    """A connection that fails is our own news, and told without its address, which is a ticket."""
    return not str(record.msg).startswith("Failed to connect")
