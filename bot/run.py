"""`threadwise run`: answers on every chat platform that has a token, until it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol

from pydantic import SecretStr
from rich.console import Console

from adapters.discord.setup import DiscordSetup
from adapters.ports import Channel
from adapters.slack.setup import SlackSetup
from bot.commands import NO_DOCUMENTS, serve_metrics, telling
from bot.config import Settings
from bot.liveness import watched
from bot.shutdown import until_asked_to_stop
from bot.wiring import IN_THREADS, App, open_app, outdated_index
from core.errors import ConfigError
from core.index.index import Index
from core.types import PUBLIC_SCOPE

if TYPE_CHECKING:
    from adapters.slack_http import SlackHttp
    from adapters.slack_socket import SlackSocket

NO_TOKEN: Final = (
    "No chat platform has a token: set DISCORD_BOT_TOKEN (see docs/discord.md), or SLACK_BOT_TOKEN and "
    "SLACK_APP_TOKEN or SLACK_SIGNING_SECRET (see docs/slack.md)."
)


MOST_TOPICS: Final = 100
"""Titles of documents that a platform is told to show what there is to ask about."""


class Platform(Protocol):
    """A chat platform that the bot is on."""

    @property
    def channel(self) -> Channel:
        """Where answers go."""
        ...

    async def run(self) -> None:
        """Takes questions until it is cancelled. Raises `ThreadwiseError` when that cannot go on."""
        ...


async def run(settings: Settings) -> int:
    """Until SIGINT or SIGTERM: 0. Raises `ThreadwiseError` with one line on what is wrong."""
    if settings.discord_bot_token is None and slack_setup(settings) is None:
        raise ConfigError(NO_TOKEN)
    if settings.metrics_port is not None:
        serve_metrics(settings.metrics_port)
    await until_asked_to_stop(_run(settings))
    return 0


async def _run(settings: Settings) -> None:
    console = Console(stderr=True, highlight=False)
    with telling(console) as tell:
        async with open_app(settings, tell, waits=IN_THREADS) as app:
            tell("")
            await _report(app, console)
            platforms = _platforms(settings, app)
            for platform in platforms:
                app.dispatcher.attach(platform.channel)
            await app.dispatcher.start()
            with watched():
                await _serve(app, platforms)


def _platforms(settings: Settings, app: App) -> list[Platform]:
    platforms: list[Platform] = []
    if settings.discord_bot_token is not None:
        # Late: it takes a third of a second.
        from adapters.discord_gateway import DiscordGateway

        setup = discord_setup(settings, settings.discord_bot_token.get_secret_value())
        platforms.append(DiscordGateway(setup, app.dispatcher, app.store))
    if (on_slack := slack_setup(settings)) is not None:
        platforms.append(_slack(on_slack)(on_slack, app.dispatcher, app.store, public_titles(app.index)))
    return platforms


def _slack(setup: SlackSetup) -> type[SlackHttp | SlackSocket]:
    """The way in which events come from Slack. Late: as above."""
    if setup.signing_secret:
        from adapters.slack_http import SlackHttp

        return SlackHttp
    from adapters.slack_socket import SlackSocket

    return SlackSocket


def public_titles(index: Index) -> Callable[[], Awaitable[list[str]]]:
    """What tells the titles of the documents that everybody may see."""

    async def titles() -> list[str]:
        return await index.catalog.titles(frozenset({PUBLIC_SCOPE}), MOST_TOPICS)

    return titles


def slack_setup(settings: Settings) -> SlackSetup | None:
    """What the settings say about Slack; None if they have no token."""
    if settings.slack_bot_token is None and settings.slack_client_secret is None:
        return None
    return SlackSetup(
        bot_token=_secret(settings.slack_bot_token),
        client_id=settings.slack_client_id,
        client_secret=_secret(settings.slack_client_secret),
        teams=settings.slack_teams,
        app_token=_secret(settings.slack_app_token),
        signing_secret=_secret(settings.slack_signing_secret),
        http_host=settings.slack_http_host,
        http_port=settings.slack_http_port,
        api_base_url=settings.slack_api_base_url,
        follow_ups=settings.follow_ups,
        channels=settings.slack_channels,
        staff=settings.slack_staff,
        direct_messages=settings.slack_direct_messages,
        name=settings.bot_name,
    )


def _secret(value: SecretStr | None) -> str:
    return value.get_secret_value() if value is not None else ""


def discord_setup(settings: Settings, token: str) -> DiscordSetup:
    """What the settings say about Discord."""
    return DiscordSetup(
        token=token,
        api_base_url=settings.discord_api_base_url,
        message_content=settings.discord_message_content,
        shards=settings.discord_shards,
        follow_ups=settings.follow_ups,
        servers=settings.discord_servers,
        channels=settings.discord_channels,
        roles=settings.discord_roles,
        staff_roles=settings.discord_staff_roles,
        forums=settings.discord_forums,
        private_messages=settings.discord_private_messages,
    )


async def _report(app: App, console: Console) -> None:
    state = await app.index.catalog.state()
    documents = f"Index: {state.documents} documents, {state.total} passages."
    console.print(f"{app.about} {documents}", style="dim", markup=False, soft_wrap=True)
    if not state.total:
        console.print(NO_DOCUMENTS, style="yellow", soft_wrap=True)
    if warning := await outdated_index(app.index):
        console.print(warning, style="yellow", soft_wrap=True)


async def _serve(app: App, platforms: list[Platform]) -> None:
    """Until it is cancelled. Raises `ThreadwiseError` as soon as a platform cannot go on."""
    running = [asyncio.ensure_future(platform.run()) for platform in platforms]
    try:
        ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        # While the platforms are still there to show what is answered within the grace.
        await app.dispatcher.close()
        for task in running:
            task.cancel()
        await asyncio.wait(running)
