"""F30: one platform is down, and the other one does not notice. One process on both, with the real clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from adapters.store import SqlConversationStore
from tests.chaos.board import FINAL
from tests.discord_server.server import DiscordServer
from tests.discord_server.world import GENERAL, Json
from tests.servers.replies import Reply
from tests.slack.stage import Stage, answer_to, stage

MANY = 5


def slowly(body: dict[str, Any]) -> Reply:
    """The same answer, in two seconds."""
    reply = answer_to(body)
    return replace(reply, pieces=tuple(0.25 if isinstance(piece, float) else piece for piece in reply.pieces))


class Both:
    """A process on Discord and on Slack."""

    def __init__(self, on: Stage, discord: DiscordServer) -> None:
        self.on, self.discord = on, discord

    async def ask_discord(self, number: int) -> int:
        user = 3000 + number
        self.discord.world.add_user(user, f"Person {number}")
        said = await self.discord.say(user, GENERAL, f"<@9000> question {number}")
        return int(said["id"])

    def ask_slack(self, number: int) -> str:
        self.on.slack.workspace.names[f"U{number}"] = f"Person {number}"
        return self.on.say(f"question {number}", user=f"U{number}")

    def under(self, question: int) -> list[Json]:
        """The bot's messages for a question; before Discord has told of a channel, they are replies in it."""
        return [
            post
            for post in self.discord.posts()
            if str(question) in (post["channel_id"], (post.get("message_reference") or {}).get("message_id"))
        ]

    def on_discord(self, question: int) -> bool:
        """Whether the answer is there in full."""
        posts = self.under(question)
        return bool(posts) and not [post for post in posts if "Stop" in self.discord.buttons(post)]

    def on_slack(self, question: str) -> bool:
        shown = self.on.under(question)
        return bool(shown) and {message.phase for message in shown} == {FINAL}

    async def until_all(self, slack: list[str], discord: list[int], seconds: float = 60) -> None:
        def all_there() -> bool:
            return all(map(self.on_slack, slack)) and all(map(self.on_discord, discord))

        try:
            await self.on.slack.until(all_there, seconds)
        except AssertionError:
            there = [*map(self.on_slack, slack), *map(self.on_discord, discord)]
            raise AssertionError(f"{there}\n{self.discord.posts()}\n{self.on.log.read_text()[-4000:]}") from None


@asynccontextmanager
async def both(data_dir: Path, documents: Path) -> AsyncIterator[Both]:
    async with stage(data_dir, documents) as on, DiscordServer() as discord:
        # What is said before Discord has told of all channels is then found by the catch-up.
        store = await SqlConversationStore.open(on.database)
        await store.lookups.mark("discord", datetime.now(UTC))
        await store.close()
        on.settings = {"DISCORD_BOT_TOKEN": discord.token, "DISCORD_API_BASE_URL": discord.base_url}
        await on.start()
        made = Both(on, discord)
        await on.slack.until(lambda: bool(on.slack.sockets.hellos and discord.gateway.connected), 60)
        await made.until_all([made.ask_slack(0)], [await made.ask_discord(0)])
        yield made
        assert on.process is not None
        assert on.process.returncode is None, on.log.read_text()[-4000:]


@pytest.mark.chaos
async def test_slack_is_answered_while_discord_is_down_in_the_middle_of_answers(tmp_path: Path, documents: Path):
    async with both(tmp_path / "data", documents) as place:
        place.on.model.default = slowly
        left = [await place.ask_discord(number) for number in range(1, MANY)]
        await place.on.slack.until(lambda: all(map(place.under, left)), 40)
        await place.discord.stop_listening()
        place.discord.recorder.arm("*", 10**6, status=503)
        place.on.model.default = answer_to
        asked = [place.ask_slack(number) for number in range(1, MANY)]
        await place.until_all(asked, [])
        assert not any(map(place.on_discord, left)), "Discord was there"
        place.discord.recorder.faults.clear()
        await place.discord.listen_again()
        await place.until_all(asked, left, 90)
        await place.until_all([], [await place.ask_discord(99)], 90)


@pytest.mark.chaos
async def test_discord_is_answered_while_slack_is_down_in_the_middle_of_answers(tmp_path: Path, documents: Path):
    async with both(tmp_path / "data", documents) as place:
        place.on.model.default = slowly
        left = [place.ask_slack(number) for number in range(1, MANY)]
        await place.on.slack.until(lambda: all(place.on.slack.shown("C1", question) for question in left), 40)
        await place.on.slack.stop()
        place.on.model.default = answer_to
        asked = [await place.ask_discord(number) for number in range(1, MANY)]
        await place.until_all([], asked)
        assert not any(map(place.on_slack, left)), "Slack was there"
        await place.on.slack.start()
        await place.until_all(left, asked, 90)
        await place.until_all([place.ask_slack(99)], [], 90)
