"""Whether the bot can do its work on Discord: token, intents, permissions, connections."""

from __future__ import annotations

from typing import Any, Final

import discord
from discord.http import Route

from adapters.checkup import Finding
from adapters.discord.connection import (
    NO_CONTENT,
    NOT_DISCORD,
    UNREACHABLE,
    WRONG_TOKEN,
    NotDiscord,
    from_discord,
    unreachable,
)
from adapters.discord.setup import DiscordSetup

NEEDED: Final = {
    "view_channel": "View Channels",
    "send_messages": "Send Messages",
    "create_public_threads": "Create Public Threads",
    "send_messages_in_threads": "Send Messages in Threads",
    "read_message_history": "Read Message History",
}
FEW_SESSIONS: Final = 20
"""Discord resets the token of a bot that begins more than 1,000 sessions a day."""
NO_SERVER: Final = (
    "The bot is on no server: invite it with the address from OAuth2, URL Generator (scopes bot and "
    "applications.commands), see docs/discord.md."
)
ENDPOINT_SET: Final = (
    "An Interactions Endpoint URL is set, so commands and buttons go there: empty it under General Information."
)


async def look(setup: DiscordSetup) -> list[Finding]:
    """What was found; nothing is changed, and no session is begun."""
    if setup.api_base_url:
        Route.BASE = setup.api_base_url
    # Without the intent for servers discord.py warns of what is not so: the intents of `threadwise run` are others.
    client = discord.Client(intents=discord.Intents(guilds=True))
    try:
        with from_discord():
            await client.login(setup.token)
            return [
                Finding(good=True, text=f"Discord: the token is that of {client.user}."),
                *_application(client, setup),
                *_connections(await client.http.request(Route("GET", "/gateway/bot")), setup),
                *_servers(await client.http.request(Route("GET", "/users/@me/guilds"))),
            ]
    except NotDiscord:
        return [Finding(good=False, text=f"{NOT_DISCORD}.")]
    except discord.LoginFailure:
        return [Finding(good=False, text=WRONG_TOKEN)]
    except UNREACHABLE as error:
        return [Finding(good=False, text=unreachable(error))]
    finally:
        await client.close()
        await client.http.close()


def _application(client: discord.Client, setup: DiscordSetup) -> list[Finding]:
    found = []
    flags = client.application_flags
    allowed = flags.gateway_message_content or flags.gateway_message_content_limited
    if setup.message_content and not allowed:
        found.append(Finding(good=False, text=NO_CONTENT))
    elif setup.message_content:
        found.append(Finding(good=True, text="Discord: the Message Content intent is on."))
    application = client.application
    if application is not None and application.interactions_endpoint_url:
        found.append(Finding(good=False, text=ENDPOINT_SET))
    return found


def _connections(told: dict[str, Any], setup: DiscordSetup) -> list[Finding]:
    found = []
    if (left := told["session_start_limit"]["remaining"]) < FEW_SESSIONS:
        text = f"Only {left} new sessions are left today: find out why it connects so often before you start it again."
        found.append(Finding(good=False, text=text))
    if told["shards"] > setup.shards:
        found.append(
            Finding(good=False, text=f"Discord wants {told['shards']} connections: set DISCORD_SHARDS to that.")
        )
    return found


def _servers(told: list[dict[str, Any]]) -> list[Finding]:
    if not told:
        return [Finding(good=False, text=NO_SERVER)]
    return [_server(guild["name"], discord.Permissions(int(guild["permissions"]))) for guild in told]


def _server(name: str, permissions: discord.Permissions) -> Finding:
    missing = [words for flag, words in NEEDED.items() if not (permissions.administrator or getattr(permissions, flag))]
    if missing:
        return Finding(good=False, text=f"On {name} the bot's role lacks: {', '.join(missing)}. See docs/discord.md.")
    return Finding(good=True, text=f"Discord: all permissions on {name} (a channel may still take some away).")
