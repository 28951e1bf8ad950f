"""The address at which Slack, and those who install the app, find us.

Whoever reaches it may be anybody. aiohttp waits for ever on a connection over which no request comes, takes as many
as there are, and logs what it cannot read with a traceback that quotes it: all three are bounded here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from adapters.slack.setup import SlackSetup
from core.errors import ConfigError

log = logging.getLogger(__name__)

MOST_BYTES: Final = 2**20
"""Of one request; an event with the longest message that Slack takes has less than a fifth of it."""
HEAD_SECONDS: Final = 5.0
"""Until the first request has begun: its line and its headers."""
BODY_SECONDS: Final = 2.0
"""Until the whole request is there: before its signature is known, it may be anybody's."""
KEEP_SECONDS: Final = 75.0
"""From one request to the next over the same connection; proxies give up after a minute, and should be the first."""
MOST_CONNECTIONS: Final = 500
"""At a time, and no more than a quarter of the files that the process may open."""
_THEIRS: Final = (HttpProcessingError, web.RequestPayloadError)
"""What aiohttp raises of a request that is no HTTP, or ends in the middle."""


class _Connection(web.RequestHandler):
    """One of `held`, in the order in which they came; `busy` while a request is dealt with."""

    __slots__ = ("_held", "_most", "_timer", "busy")

    def __init__(self, server: web.Server, held: dict[_Connection, None], most: int) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # it is looked for, as in AppRunner
            keepalive_timeout=KEEP_SECONDS,
            lingering_time=BODY_SECONDS,
        )
        self._held, self._most = held, most
        self._timer: asyncio.TimerHandle | None = None
        self.busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._held[self] = None
        self._timer = asyncio.get_running_loop().call_later(HEAD_SECONDS, self.abort)
        if len(self._held) > self._most:
            # The one that waits the longest for a request; at the end of them is this one.
            next(one for one in self._held if not one.busy).abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._held.pop(self, None)
        self.came()
        super().connection_lost(exc)

    def came(self) -> None:
        """The first request has begun."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def abort(self) -> None:
        """Ends it at once, whatever is still to be written."""
        self._held.pop(self, None)
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()

    def log_exception(self, *args: Any, **kw: Any) -> None:
        if isinstance(error := kw.get("exc_info"), _THEIRS):
            log.info("A request that makes no sense was refused: %s", type(error).__name__)
        else:
            super().log_exception(*args, **kw)


@web.middleware
async def _whole(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Has all of a request there before anything is done with it."""
    connection = request.protocol
    assert isinstance(connection, _Connection)
    connection.came()
    connection.busy = True
    try:
        try:
            await asyncio.wait_for(request.read(), BODY_SECONDS)
        except TimeoutError:
            return web.Response(status=408)
        except (*_THEIRS, ConnectionError):
            return web.Response(status=400)
        return await handler(request)
    finally:
        connection.busy = False


@asynccontextmanager
async def listening(setup: SlackSetup, routes: Sequence[web.RouteDef], grace: float) -> AsyncIterator[None]:
    """Serves `routes` until it is left; what is being answered then has `grace` seconds. The body of a request is read
    before its handler is called.

    Raises `ConfigError` if the port cannot be had.
    """
    host, port = setup.http_host, setup.http_port
    application = web.Application(client_max_size=MOST_BYTES, middlewares=[_whole])
    application.router.add_routes(routes)
    runner = web.AppRunner(application, shutdown_timeout=grace)
    await runner.setup()
    server = runner.server
    assert server is not None
    held: dict[_Connection, None] = {}
    most = _most_connections()
    listener: asyncio.Server | None = None
    try:
        try:
            listener = await asyncio.get_running_loop().create_server(
                lambda: _Connection(server, held, most), host, port
            )
        except (OSError, UnicodeError) as error:  # a name that no server of names would take
            why = (getattr(error, "strerror", "") or type(error).__name__).rpartition(": ")[2]
            raise ConfigError(
                f"SLACK_HTTP_HOST {host} with SLACK_HTTP_PORT {port} cannot be listened at ({why}): set another, "
                "or stop what has it."
            ) from error
        log.info("Listening for Slack at http://%s:%d", host, port)
        yield
    finally:
        if listener is not None:
            listener.close()
        await runner.cleanup()


def _most_connections() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return MOST_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else max(1, min(MOST_CONNECTIONS, files // 4))
