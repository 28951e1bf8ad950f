"""The address at which Slack, and those who install the app, find us."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from adapters.slack.setup import SlackSetup
from core.errors import ConfigError

log = logging.getLogger(__name__)

MOST_BYTES: Final = 2**20
"""Of one request; an event with the longest message that Slack takes has less than a fifth of it."""


@asynccontextmanager
async def listening(setup: SlackSetup, routes: Sequence[web.RouteDef], grace: float) -> AsyncIterator[None]:
    """Serves `routes` until it is left; what is being answered then has `grace` seconds.

    Raises `ConfigError` if the port cannot be had.
    """
    host, port = setup.http_host, setup.http_port
    server = web.Application(client_max_size=MOST_BYTES)
    server.router.add_routes(routes)
    runner = web.AppRunner(server, access_log=None, shutdown_timeout=grace)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            why = (error.strerror or type(error).__name__).rpartition(": ")[2]
            raise ConfigError(
                f"SLACK_HTTP_HOST {host} with SLACK_HTTP_PORT {port} cannot be listened at ({why}): set another, "
                "or stop what has it."
            ) from error
        log.info("Listening for Slack at http://%s:%d", host, port)
        yield
    finally:
        await runner.cleanup()
