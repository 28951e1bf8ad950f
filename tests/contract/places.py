"""Where people ask: each place is a platform with its own client, and says what they see."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final, Protocol

from rich.console import Console

from adapters.discord.setup import DiscordSetup
from adapters.discord_gateway import DiscordGateway
from adapters.slack import actions
from adapters.slack.channel import SlackChannel
from adapters.slack.setup import SlackSetup
from adapters.slack_socket import SlackSocket
from adapters.terminal import TerminalChannel
from tests.contract.desk import Desk
from tests.discord_server import world as discord
from tests.discord_server.gateway import until
from tests.discord_server.server import DiscordServer
from tests.slack.conftest import HASTY
from tests.slack_server import ASKER, BOT_USER, SlackServer
from tests.slack_server.server import APP_TOKEN, BOT_TOKEN


class Place(Protocol):
    """One person, one conversation."""

    platform: str

    async def ask(self, text: str) -> str:
        """Opens the conversation, or goes on in it; what is seen in answer, in the end."""
        ...

    async def rewrite(self) -> str:
        """What `/rewrite` shows."""
        ...

    async def reset(self) -> None: ...

    async def forget(self) -> None: ...

    def pings(self) -> int:
        """How many people were notified by what the bot said."""
        ...


class Chat(Place, Protocol):
    """A place in which messages can be changed."""

    async def edit(self, text: str) -> None:
        """Of the last question."""
        ...

    async def delete(self) -> None:
        """Of the last question."""
        ...


class OnDiscord:
    platform = "discord"

    def __init__(self, server: DiscordServer, desk: Desk) -> None:
        self._server, self._desk = server, desk
        self._thread = 0
        self._asked: dict[str, Any] = {}

    async def ask(self, text: str) -> str:
        place, mention = (self._thread, "") if self._thread else (discord.GENERAL, f"<@{discord.BOT}> ")
        taken, before = self._desk.dispatcher.taken, len(self._server.posts())
        self._asked = await self._server.say(discord.ASKER, place, mention + text)
        self._thread = self._thread or int(self._asked["id"])
        await self._desk.answered(taken + 1)
        return "\n".join(str(post["content"]) for post in self._server.posts()[before:])

    async def _command(self, name: str) -> str:
        interaction = await self._server.command(discord.ASKER, self._thread, name)
        await until(lambda: interaction.shown)
        return interaction.shown

    async def rewrite(self) -> str:
        return await self._command("rewrite")

    async def reset(self) -> None:
        await self._command("reset")

    async def forget(self) -> None:
        await self._command("forget")

    async def edit(self, text: str) -> None:
        mention = f"<@{discord.BOT}> " if int(self._asked["id"]) == self._thread else ""
        await self._server.change(self._asked, mention + text)

    async def delete(self) -> None:
        await self._server.take_back(self._asked)

    def pings(self) -> int:
        return sum(len(post["mentions"]) + post["mention_everyone"] for post in self._server.posts())


class OnSlack:
    platform = "slack"

    def __init__(self, server: SlackServer, desk: Desk) -> None:
        self._server, self._desk = server, desk
        self._thread = self._asked = ""

    async def ask(self, text: str) -> str:
        mention, taken = "" if self._thread else f"<@{BOT_USER}> ", self._desk.dispatcher.taken
        before = len(self._server.shown("C1", self._thread)) if self._thread else 0
        typed = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        self._asked = self._server.says(ASKER, "C1", mention + typed, self._thread or None)
        self._thread = self._thread or self._asked
        await self._desk.answered(taken + 1)
        return "\n".join(self._server.shown("C1", self._thread)[before:])

    async def _command(self, name: str) -> str:
        delivery = self._server.command(ASKER, "C1", name)
        await asyncio.wait_for(delivery.done.wait(), 5)
        return str((delivery.response or {}).get("text"))

    async def rewrite(self) -> str:
        return await self._command("/rewrite")

    async def reset(self) -> None:
        assert await self._command("/reset") == actions.RESET

    async def forget(self) -> None:
        assert "Removed" in await self._command("/forget")

    async def edit(self, text: str) -> None:
        mention = f"<@{BOT_USER}> " if self._asked == self._thread else ""
        self._server.edits("C1", self._asked, mention + text)

    async def delete(self) -> None:
        self._server.deletes("C1", self._asked)

    def pings(self) -> int:
        return len(self._server.pings())


class AtATerminal:
    platform = "terminal"
    _END: Final = "/end"
    """No command: what is said to it shows that all before it is done."""

    def __init__(self, lines: int, out: io.StringIO) -> None:
        self._lines, self._out, self._ends = lines, out, 0

    async def _type(self, line: str) -> str:
        self._ends += 1
        before, end = len(self._out.getvalue()), f"{self._END}{self._ends} is no command"
        os.write(self._lines, f"{line}\n{self._END}{self._ends}\n".encode())
        await until(lambda: end in self._out.getvalue(), 20)
        return self._out.getvalue()[before:].partition(f"> {self._END}")[0]

    async def ask(self, text: str) -> str:
        return (await self._type(text)).partition("\n")[2]  # without its echo

    async def rewrite(self) -> str:
        return await self._type("/rewrite")

    async def reset(self) -> None:
        await self._type("/new")

    async def forget(self) -> None:
        assert "Removed" in await self._type("/forget")

    def pings(self) -> int:
        return 0


@asynccontextmanager
async def _on_discord(desk: Desk) -> AsyncIterator[OnDiscord]:
    async with DiscordServer() as server:
        gateway = DiscordGateway(
            DiscordSetup(token=server.token, api_base_url=server.base_url), desk.dispatcher, desk.store
        )
        desk.dispatcher.attach(gateway.channel)
        await desk.dispatcher.start()
        running = asyncio.create_task(gateway.run())
        try:
            await until(lambda: running.done() or gateway.ready.is_set())
            yield OnDiscord(server, desk)
        finally:
            running.cancel()
            await asyncio.wait({running})


@asynccontextmanager
async def _on_slack(desk: Desk) -> AsyncIterator[OnSlack]:
    async def topics() -> list[str]:
        return []

    async with SlackServer() as server:
        setup = SlackSetup(bot_token=BOT_TOKEN, app_token=APP_TOKEN, api_base_url=server.api_url)
        socket = SlackSocket(setup, desk.dispatcher, desk.store, topics, HASTY)
        assert isinstance(socket.channel, SlackChannel)
        socket.channel.shortest_pace = 0.02
        desk.dispatcher.attach(socket.channel)
        await desk.dispatcher.start()
        running = asyncio.create_task(socket.run())
        try:
            await server.until(lambda: running.done() or socket.connected, 10)
            yield OnSlack(server, desk)
        finally:
            running.cancel()
            await asyncio.wait({running})


@asynccontextmanager
async def _at_a_terminal(desk: Desk) -> AsyncIterator[AtATerminal]:
    reader, writer = os.pipe()
    out = io.StringIO()
    with os.fdopen(reader, encoding="utf-8") as stdin:
        channel = TerminalChannel(desk.dispatcher, desk.store, stdin=stdin, console=Console(file=out, width=200))
        running = asyncio.create_task(channel.run())
        try:
            yield AtATerminal(writer, out)
        finally:
            os.close(writer)
            with suppress(asyncio.CancelledError):
                await asyncio.wait_for(running, 5)


Open = Callable[[Desk], AbstractAsyncContextManager[Place]]
PLACES: Final[dict[str, Open]] = {"discord": _on_discord, "slack": _on_slack, "terminal": _at_a_terminal}
CHATS: Final = ("discord", "slack")
"""Where messages can be changed."""
