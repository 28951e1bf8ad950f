"""Where Discord's API should be answers something else: the login page of a network, a proxy, somebody's JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import discord
import pytest
from aiohttp import web
from discord.http import Route

from adapters.discord.checkup import look
from adapters.discord.connection import NOT_DISCORD, Connection
from adapters.discord.pacing import Pacer
from adapters.discord.setup import DiscordSetup

PAGES = [("<html>log in</html>", "text/html", 200), ("{}", "application/json", 200), ("[]", "application/json", 200)]


@pytest.fixture(params=[*PAGES, ("not found", "text/plain", 404)], ids=["page", "object", "list", "404"])
async def elsewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DiscordSetup]:
    """A setup whose API is none."""
    body, kind, status = request.param

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=body, content_type=kind, status=status)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    monkeypatch.setattr(Route, "BASE", Route.BASE)  # to be put back
    yield DiscordSetup(token="abc", api_base_url=f"http://127.0.0.1:{port}")
    await runner.cleanup()


async def test_the_doctor_says_so(elsewhere: DiscordSetup):
    (finding,) = await look(elsewhere)
    assert (finding.good, finding.text) == (False, f"{NOT_DISCORD}.")


async def test_a_bot_that_runs_says_so_and_tries_again(elsewhere: DiscordSetup, caplog: pytest.LogCaptureFixture):
    def client(intents: discord.Intents) -> discord.Client:
        return discord.Client(intents=intents)

    running = asyncio.create_task(Connection(elsewhere, Pacer(), client).run())
    async with asyncio.timeout(10):
        while caplog.text.count(NOT_DISCORD) < 2:
            assert not running.done(), running.exception()
            await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.wait({running})
