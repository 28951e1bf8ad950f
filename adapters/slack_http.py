"""Slack over HTTP: Slack's requests at an address of our own, through the same slack-bolt app as over Socket Mode.

A request is acknowledged only after what it said is stored (`process_before_response`). One that takes longer than
Slack waits is refused in time and goes on all the same: when it comes again, it is known already.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Final

from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.signature import SignatureVerifier

from adapters.dispatcher import Dispatcher
from adapters.slack.address import listening
from adapters.slack.catch_up import Frugality
from adapters.slack.installing import install_routes
from adapters.slack.line import App
from adapters.slack.pane import Topics
from adapters.slack.patience import Patience
from adapters.slack.sense import UNREADABLE, makes_sense
from adapters.slack.setup import SlackSetup
from adapters.slack.workspaces import Hearing, workspace_of
from adapters.store import SqlConversationStore
from core.errors import ChannelError

log = logging.getLogger(__name__)

PATH: Final = "/slack/events"
"""For events, commands and everything that people press."""
ACK_SECONDS: Final = 2.5
"""For one request; Slack waits three seconds, and the reply has a way to go."""
NEVER_AGAIN: Final = {"X-Slack-No-Retry": "1"}
_STAMP: Final = re.compile(r"[0-9]{1,12}")


class SlackHttp:
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
        self._verifier = SignatureVerifier(setup.signing_secret)
        self._app: App | None = None
        self._at_work: set[asyncio.Task[BoltResponse]] = set()

    @property
    def connected(self) -> bool:
        """Whether requests are taken."""
        return self._app is not None

    async def run(self) -> None:
        """Takes requests until it is cancelled. Raises `ConfigError` for a port that cannot be had, or a token that
        Slack refuses."""
        routes = [web.post(PATH, self._request), *install_routes(self._workspace)]
        async with listening(self._setup, routes, ACK_SECONDS):
            try:
                self._app, catch_up = await self._open()
                catch_up.began()
                while True:
                    if self._workspace.refusal is not None:
                        raise self._workspace.refusal
                    await asyncio.sleep(self._patience.look)
            finally:
                self._app = None
                if self._at_work:
                    await asyncio.wait(self._at_work, timeout=ACK_SECONDS)
                await self._workspace.close()

    async def _open(self) -> tuple[App, Hearing]:
        tries = 0
        while True:
            try:
                return await self._workspace.open()
            except ChannelError as error:
                if self._workspace.refusal is not None:
                    raise self._workspace.refusal from error
                log.warning("Slack cannot be reached: %s", error)
                tries += 1
                await asyncio.sleep(self._patience.backoff(tries))

    async def _request(self, request: web.Request) -> web.Response:
        body = await request.read()
        if request.content_type == "application/x-www-form-urlencoded" and b"ssl_check=1" in body.split(b"&"):
            # Slack's look at the certificate, which need not be signed and means nothing else.
            return web.Response()
        # Before anything is read out of it; Bolt would parse it first, and fails on headers that are no number.
        if (text := self._signed(request, body)) is None:
            return web.Response(status=401)
        if (app := self._app) is None:
            return web.Response(status=503)
        try:
            asked: AsyncBoltRequest | None = AsyncBoltRequest(
                body=text, query=request.query_string, headers=dict(request.headers)
            )
        except UNREADABLE:
            asked = None
        if asked is None or not makes_sense(asked.body):
            log.warning("A request of Slack's makes no sense, and is refused")
            return web.Response(status=400, headers=NEVER_AGAIN)
        return await self._answer(app, asked)

    def _signed(self, request: web.Request, body: bytes) -> str | None:
        """The text of a request of Slack's; None if it is somebody else's, or older than five minutes."""
        stamp = request.headers.get("X-Slack-Request-Timestamp", "")
        signature = request.headers.get("X-Slack-Signature", "")
        if not _STAMP.fullmatch(stamp) or not signature.isascii():
            return None
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return None
        return text if self._verifier.is_valid(text, stamp, signature) else None

    async def _answer(self, app: App, asked: AsyncBoltRequest) -> web.Response:
        # In a task of its own: it goes on when Slack hangs up.
        work = asyncio.create_task(app.async_dispatch(asked))
        self._at_work.add(work)
        work.add_done_callback(self._at_work.discard)
        done, _ = await asyncio.wait([work], timeout=ACK_SECONDS)
        if done:
            return await to_aiohttp_response(work.result())
        # What is done with it already, or not yet: then it comes again.
        acknowledged = asked.context.ack.response
        return await to_aiohttp_response(acknowledged) if acknowledged else web.Response(status=503)
