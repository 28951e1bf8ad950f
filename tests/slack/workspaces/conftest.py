"""Several workspaces: the bot that they install, and whoever installs it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from http.cookies import SimpleCookie
from pathlib import Path

import pytest
from aiohttp import ClientSession

from adapters.ports import ThreadKey
from adapters.slack import channel
from adapters.slack.installing import INSTALL, REDIRECT
from adapters.slack.setup import SlackSetup
from adapters.slack_http import PATH
from core import metrics
from tests.slack.conftest import AT, Quill, TypingModel
from tests.slack.test_http import free_port
from tests.slack_server import SlackServer
from tests.slack_server.requests import SIGNING_SECRET
from tests.slack_server.server import CLIENT_ID, CLIENT_SECRET
from tests.slack_server.state import Workspace

OTHER_TEAM, OTHER_TOKEN = "T2", "xoxb-other-token"
QUESTION = f"{AT} How much oil does the Kestrel pump take?"
ANSWER = "It takes 0.8 L of oil [1]."


class Browser:
    """Of somebody who installs the app."""

    def __init__(self, setup: SlackSetup) -> None:
        self.at = f"http://127.0.0.1:{setup.http_port}"
        self.cookie = ""

    async def get(self, path: str, **query: str) -> tuple[int, str]:
        headers = {"Cookie": self.cookie} if self.cookie else {}
        async with ClientSession() as session, session.get(self.at + path, params=query, headers=headers) as reply:
            for morsel in SimpleCookie(reply.headers.get("Set-Cookie", "")).values():
                self.cookie = f"{morsel.key}={morsel.value}"
            return reply.status, await reply.text()

    async def begin(self, **query: str) -> str:
        """Looks at the page; the state that its link has."""
        status, page = await self.get(INSTALL, **query)
        assert status == 200
        found = re.search(r"state=([\w-]+)&amp;", page)
        assert found is not None
        return found[1]

    async def install(self, slack: SlackServer, token: str) -> tuple[int, str]:
        """The whole way."""
        state = await self.begin()
        slack.codes["code"] = token
        return await self.get(REDIRECT, state=state, code="code")


@pytest.fixture(params=["http", "socket"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def quill(
    slack: SlackServer, model: TypingModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> AsyncIterator[Quill]:
    monkeypatch.setattr(channel, "SHORTEST_PACE", 0.02)
    # Bolt reads these by itself.
    monkeypatch.setenv("SLACK_CLIENT_ID", CLIENT_ID)
    monkeypatch.setenv("SLACK_CLIENT_SECRET", CLIENT_SECRET)
    quill = Quill(slack, tmp_path / "conversations.db", model)
    several = replace(quill.setup, bot_token="", client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    quill.setup = replace(several, http_port=free_port())
    if way == "http":
        quill.setup = replace(quill.setup, app_token="", signing_secret=SIGNING_SECRET)
        slack.requests.url = f"http://127.0.0.1:{quill.setup.http_port}{PATH}"
    await quill.start()
    await quill.connected()
    yield quill
    await quill.stop()


@pytest.fixture
def browser(quill: Quill) -> Browser:
    return Browser(quill.setup)


@pytest.fixture
def other(slack: SlackServer) -> Workspace:
    return slack.another(OTHER_TEAM, OTHER_TOKEN)


def in_workspace(workspace: Workspace, thread: str) -> ThreadKey:
    return ThreadKey(platform="slack", workspace=workspace.team, channel="C1", thread=thread)


def dropped() -> float:
    return float(metrics.SLACK_NOT_INSTALLED._value.get())


async def marked(quill: Quill, team: str) -> None:
    async with asyncio.timeout(10):
        while True:
            if await quill.store.lookups.heard_until(f"slack:{team}") is not None:
                return
            await asyncio.sleep(0.01)
