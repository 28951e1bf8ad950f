"""Getting to the gateway and staying there: what discord.py leaves to its user.

Its default address of the gateway is a constant, a first connection that is refused ends it, and an intent that was
not granted does too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

import aiohttp
import discord
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route

from adapters.discord.pacing import Pacer
from adapters.discord.setup import DiscordSetup
from core.certificate import advice, why_refused
from core.errors import ConfigError

log = logging.getLogger(__name__)
# Of libraries for voice, which is not used.
discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False

_strictly = discord.utils._from_json


def _read(text: Any) -> Any:
    """JSON in which half a surrogate pair, whoever wrote it, becomes U+FFFD: orjson refuses all of it for that, and
    discord.py would end on it."""
    try:
        return _strictly(text)
    except json.JSONDecodeError:
        whole = json.dumps(json.loads(text), ensure_ascii=False)
        return json.loads(whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


discord.utils._from_json = _read

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
WRONG_TOKEN: Final = (
    "Discord does not take the bot's token: copy it again from the Bot page of https://discord.com/developers and set "
    "DISCORD_BOT_TOKEN."
)
NO_CONTENT: Final = (
    "The Message Content intent is not switched on for this bot, so in servers Threadwise reads only messages that "
    "mention it or reply to it: follow-ups in its threads need a mention. Switch it on on the Bot page of "
    "https://discord.com/developers, or set DISCORD_MESSAGE_CONTENT=false."
)
FINAL: Final = MappingProxyType(
    {
        4004: WRONG_TOKEN,
        4010: "Discord refuses the number of this connection (4010): check DISCORD_SHARDS.",
        4011: "The bot is on too many servers for one connection (4011): set DISCORD_SHARDS, see `threadwise doctor`.",
        4012: "Discord does not speak this version of its gateway any more (4012): update Threadwise.",
        4013: "Discord does not know the intents that are asked for (4013): update Threadwise.",
    }
)
"""Codes with which Discord closes a connection for good. Trying on would use up the sessions of a day."""
UNREACHABLE: Final = (OSError, aiohttp.ClientError, TimeoutError, discord.HTTPException, discord.GatewayNotFound)

NOT_DISCORD: Final = "What answers is not Discord: check the network, the proxy and DISCORD_API_BASE_URL"

MakeClient = Callable[[discord.Intents], discord.Client]


class NotDiscord(Exception):
    """A web page, or somebody else's JSON, where Discord's API should be."""


@contextmanager
def from_discord() -> Iterator[None]:
    """Around the first calls with a token: a login page of a network answers them, too. Raises `NotDiscord`."""
    try:
        yield
    except (KeyError, TypeError, discord.NotFound) as error:
        raise NotDiscord from error


def unreachable(error: Exception) -> str:
    """One line on one of `UNREACHABLE`."""
    if (why := why_refused(error)) is not None:
        return f"Discord cannot be reached: {advice(why, 'DISCORD_API_BASE_URL and the proxy')}"
    return f"Discord cannot be reached ({type(error).__name__}): check the network, the proxy and DISCORD_API_BASE_URL."


class Connection:
    """Keeps one client connected, until it is cancelled."""

    def __init__(self, setup: DiscordSetup, pacer: Pacer, make: MakeClient) -> None:
        self._setup, self._pacer, self._make = setup, pacer, make
        self._content = setup.message_content
        self.client: discord.Client | None = None
        """Logged in; its gateway may be away."""

    async def run(self) -> None:
        """Returns never. Raises `ConfigError` if Discord does not want this bot."""
        if self._setup.api_base_url:
            Route.BASE = self._setup.api_base_url
        pause = FIRST_PAUSE
        while True:
            client = self._make(_intents(content=self._content))
            try:
                await self._once(client)
            except discord.PrivilegedIntentsRequired:
                if not self._content:
                    raise ConfigError("Discord refuses the bot's intents (4014).") from None
                log.warning(NO_CONTENT)
                self._content = False
                continue
            except discord.LoginFailure:
                raise ConfigError(WRONG_TOKEN) from None
            except discord.ConnectionClosed as closed:
                if closed.code in FINAL:
                    raise ConfigError(FINAL[closed.code]) from None
                log.warning("Discord closed the connection for good (%s); a new one is made", closed.code)
            except NotDiscord:
                log.warning("%s; tried again", NOT_DISCORD)
            except UNREACHABLE as error:
                log.warning("%s It is tried again.", unreachable(error))
            except ConfigError:
                raise
            except (
                Exception
            ):  # discord.py's own, on what it did not expect: other platforms go on, and so does this one
                log.exception("The connection to Discord ended on an unexpected error; a new one is made")
            finally:
                self.client = None
                await _closed(client)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(LONGEST_PAUSE, pause * 2)

    async def _once(self, client: discord.Client) -> None:
        with from_discord():
            await client.login(self._setup.token)
            told = await client.http.request(Route("GET", "/gateway"))
            DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(told["url"])
        self.client = client
        connected = asyncio.ensure_future(client.connect())
        refused = asyncio.ensure_future(self._pacer.unauthorized.wait())
        try:
            await asyncio.wait({connected, refused}, return_when=asyncio.FIRST_COMPLETED)
            if refused.done():
                raise ConfigError(WRONG_TOKEN)
            await _survived(connected, client)
        finally:
            refused.cancel()
            connected.cancel()
            # A shard that is just connecting swallows the cancellation, and then only this ends it (seen with 2.7.1).
            await client.close()
            await asyncio.wait({connected, refused})


async def _survived(connected: asyncio.Future[None], client: discord.Client) -> None:
    try:
        await connected
    except AttributeError as error:
        # discord.py looks for the session of a connection that never was (seen with 2.7.1).
        if getattr(client, "ws", None) is not None:
            raise
        raise ConnectionRefusedError("The gateway refused the first connection.") from error


async def _closed(client: discord.Client) -> None:
    await client.close()
    # Without a login that went well, `close` leaves the session open.
    await client.http.close()


def _intents(*, content: bool) -> discord.Intents:
    intents = discord.Intents.none()
    intents.guilds = intents.guild_messages = intents.dm_messages = True
    intents.message_content = content
    return intents
