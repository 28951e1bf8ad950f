"""K0 to K13 and K15 on Discord: the real command and discord.py, killed at a named moment and started again."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from adapters.fault import KILL_POINTS
from adapters.notices import FAILED
from adapters.store import SqlConversationStore
from tests.chaos.checker import ENDED
from tests.chaos.stage import ROOT, SLOTS, environment
from tests.discord_server.gateway import until
from tests.discord_server.server import DiscordServer
from tests.discord_server.world import ASKER, GENERAL, SECOND, Json
from tests.servers.openai import CHAT, EMBEDDINGS, OpenAIServer
from tests.servers.replies import Reply

QUESTION: Final = "How do I install threadwise on a cluster?"
MADE: Final = "How to install threadwise on a cluster"
QUICK: Final = ("K3", "K12")
"""Those that every test run goes through; the others are `make chaos`."""
ARMED: Final = "from adapters.fault import arm; arm({at!r}); from bot.cli import main; main()"


def long_answer(body: dict[str, Any]) -> Reply:
    """Two messages."""
    if str(body["messages"][-1]["content"]).endswith("\nQuery:"):
        return Reply(pieces=(MADE,))
    steps = [piece for n in range(60) for piece in (0.01, f"Step {n} of the guide says a little more than this. ")]
    return Reply(pieces=("Install it ", *steps, "and that is all [1]."))


@dataclass
class OnDiscord:
    """The bot in a process of its own."""

    discord: DiscordServer
    model: OpenAIServer
    data_dir: Path
    process: asyncio.subprocess.Process | None = None

    async def start(self, at: str = "never") -> None:
        """With `at`, it kills itself when it passes that point; else returns when it listens."""
        known = len(self.discord.gateway.identifies)
        settings = environment(self.data_dir, self.model.base_url) | {
            "DISCORD_BOT_TOKEN": self.discord.token,
            "DISCORD_API_BASE_URL": self.discord.base_url,
        }
        with (self.data_dir / "process.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", ARMED.format(at=at), "run", cwd=ROOT, env=settings, stderr=log
            )
        gateway = self.discord.gateway
        await until(
            lambda: len(gateway.identifies) > known and any(session.told for session in gateway.connected), seconds=60
        )

    async def killed(self) -> None:
        assert self.process is not None
        assert await asyncio.wait_for(self.process.wait(), 60) == -signal.SIGKILL, "the point was not passed"
        self.discord.gateway.forget()

    async def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(self.process.wait(), 30) == 0

    async def all_ended(self, jobs: int = 1) -> None:
        await until(lambda: self._ended() == jobs, seconds=60)

    def jobs(self) -> int:
        with closing(sqlite3.connect(f"file:{self.data_dir / 'conversations.db'}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM jobs").fetchone()[0])

    def _ended(self) -> int:
        with closing(sqlite3.connect(f"file:{self.data_dir / 'conversations.db'}?mode=ro", uri=True)) as database:
            states = [row[0] for row in database.execute("SELECT state FROM jobs")]
        return len(states) if all(state in ENDED for state in states) else -1

    def story(self) -> str:
        """What happened, for a test that failed."""
        calls = [f"{call.status} {call.method} {call.path}" for call in self.discord.recorder.calls]
        posts = [f"{post['channel_id']}: {post['content'][:60]}" for post in self.discord.posts()]
        log = (self.data_dir / "process.log").read_text(encoding="utf-8")[-4000:]
        return "\n".join(["", *calls, *posts, log])

    def calls(self) -> int:
        return len([request for request in self.model.requests if request.path == CHAT])


@asynccontextmanager
async def on_discord(data_dir: Path, documents: Path) -> AsyncIterator[OnDiscord]:
    shutil.copytree(documents, data_dir, dirs_exist_ok=True)
    store = await SqlConversationStore.open(data_dir / "conversations.db")
    await store.lookups.mark("discord", datetime.now(UTC))
    await store.close()
    async with DiscordServer() as discord, OpenAIServer(context_tokens=32_768) as model:
        model.default = long_answer
        stage = OnDiscord(discord, model, data_dir)
        try:
            yield stage
        finally:
            if stage.process is not None and stage.process.returncode is None:
                stage.process.kill()
                await stage.process.wait()


def judge(on: OnDiscord, said: Json, parts: int = 2) -> str:
    """The whole answer to `said`; fails if it is not there once, whole and final."""
    posts = on.discord.posts(int(said["id"]))
    assert len(posts) == parts, on.story()
    assert len(on.discord.posts()) == parts, on.story()
    assert not [post for post in posts if "Stop" in on.discord.buttons(post)]
    assert not [call for call in on.discord.recorder.calls if call.status == 429]
    with closing(sqlite3.connect(on.data_dir / "conversations.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (most,) = database.execute("SELECT max(attempts) FROM jobs").fetchone()
    assert most <= 3
    return "".join(post["content"] for post in posts)


def point(name: str) -> Any:
    return pytest.param(name, marks=() if name in QUICK else pytest.mark.chaos)


HERE = [point(name) for name in KILL_POINTS if name not in ("K14", "K15")]


@pytest.mark.parametrize("at", HERE)
async def test_a_process_that_dies_at_a_point_costs_nothing(tmp_path: Path, documents: Path, at: str):
    async with on_discord(tmp_path / "data", documents) as on:
        await on.start(at)
        said = await on.discord.say(ASKER, GENERAL, f"<@9000> {QUESTION}")
        await on.killed()
        await on.start()
        await on.all_ended()
        await on.stop()
        text = judge(on, said)
        assert text.startswith("Install it Step 0")
        assert "and that is all [1]." in text
        if at in ("K10", "K11", "K12"):
            assert on.calls() == 1, "the answer was there"


@pytest.mark.parametrize("at", ["K0", point("K1")])
async def test_a_process_that_dies_after_it_acknowledged_a_command_answers_its_question_once(
    tmp_path: Path, documents: Path, at: str
):
    async with on_discord(tmp_path / "data", documents) as on:
        await on.start(at)
        await until(lambda: on.discord.rest.commands)
        interaction = await on.discord.command(ASKER, GENERAL, "ask", question=f"{QUESTION} *Really*")
        await on.killed()
        assert on.jobs() == (0 if at == "K0" else 1)
        assert interaction.message is not None
        await on.start()
        await on.all_ended()
        await on.stop()
        thread = int(interaction.message["id"])
        assert str(on.discord.world.channels[thread]["name"]).startswith(f"{QUESTION} *Really*")
        parts = [post["content"] for post in on.discord.posts(thread)]
        assert len(parts) == 2, on.story()
        assert len(on.discord.posts()) == 3, "the question and its answer"
        assert on.calls() == 1
        assert "and that is all [1]." in "".join(parts)


@pytest.mark.chaos
async def test_a_process_that_dies_while_it_catches_up_costs_nothing(tmp_path: Path, documents: Path):
    """K13."""
    async with on_discord(tmp_path / "data", documents) as on:
        said = on.discord.world.add_message(GENERAL, ASKER, f"<@9000> {QUESTION}")
        await on.start("K13")
        await on.killed()
        await on.start()
        await on.all_ended()
        await on.stop()
        judge(on, said)


@pytest.mark.chaos
@pytest.mark.parametrize(("path", "nth"), [(CHAT, 2), (EMBEDDINGS, 2), (CHAT, 3)], ids=["K5", "K6", "K7"])
async def test_a_process_that_dies_in_a_call_costs_nothing(tmp_path: Path, documents: Path, path: str, nth: int):
    """In the rewrite, in the search and before the first token of the second question."""
    async with on_discord(tmp_path / "data", documents) as on:
        await on.start()
        said = await on.discord.say(ASKER, GENERAL, f"<@9000> {QUESTION}")
        await on.all_ended()
        thread = int(said["id"])
        seen = [request.path for request in on.model.requests].count(EMBEDDINGS)

        def reply(body: dict[str, Any]) -> Reply:
            assert on.process is not None
            if path == CHAT and on.calls() == nth and on.process.returncode is None:
                on.process.kill()
            return long_answer(body)

        on.model.default = reply
        await on.discord.say(SECOND, thread, "and how many replicas?")
        if path == EMBEDDINGS:
            await until(lambda: [request.path for request in on.model.requests].count(EMBEDDINGS) > seen)
            assert on.process is not None
            on.process.kill()
        await on.killed()
        on.model.default = long_answer
        await on.start()
        await on.all_ended(2)
        await on.stop()
        judge(on, said, parts=4)


@pytest.mark.chaos
@pytest.mark.parametrize("many", [1, 50])
async def test_after_a_restart_all_that_was_left_ends_once(tmp_path: Path, documents: Path, many: int):
    """F8: queued, running and being delivered."""
    async with on_discord(tmp_path / "data", documents) as on:
        await on.start()
        said = []
        for number in range(many):
            on.discord.world.add_user(1000 + number, f"Person {number}")
            # Not all from one channel: only so many may wait there.
            place = on.discord.world.add_channel(2000 + number % 10, f"room-{number % 10}")
            await on.discord.gateway.dispatch("CHANNEL_CREATE", place)
            said.append(await on.discord.say(1000 + number, 2000 + number % 10, f"<@9000> {QUESTION} {number}"))
        await until(lambda: on.calls() > 0)
        assert on.process is not None
        on.process.kill()
        await on.killed()
        await on.start()
        await on.all_ended(many)
        await on.stop()
        for message in said:
            posts = on.discord.posts(int(message["id"]))
            assert len(posts) == 2, [post["content"][:60] for post in posts]
            assert not [post for post in posts if "Stop" in on.discord.buttons(post)]
        assert not [call for call in on.discord.recorder.calls if call.status == 429]


@pytest.mark.chaos
async def test_five_hundred_at_once_are_all_taken_and_all_get_their_ending(tmp_path: Path, documents: Path):
    """F23."""
    async with on_discord(tmp_path / "data", documents) as on:
        on.discord.gateway.heartbeat_ms = 1000
        for number in range(10):
            on.discord.world.add_channel(2000 + number, f"room-{number}")
        on.model.default = lambda body: Reply(pieces=("Install it ", 0.3, "so [1]."))
        await on.start()
        await asyncio.sleep(3)
        for number in range(500):
            on.discord.world.add_user(1000 + number, f"Person {number}")
            await on.discord.say(1000 + number, 2000 + number % 10, f"<@9000> {QUESTION} {number}")
            await asyncio.sleep(0.002)
        said_at = time.monotonic()
        await until(lambda: on.jobs() == 500, seconds=20)
        print("all taken after", round(time.monotonic() - said_at, 2), "s")  # noqa: T201
        await until(lambda: on._ended() == 500, seconds=120)
        print("all ended after", round(time.monotonic() - said_at, 2), "s")  # noqa: T201
        await on.stop()
        posts = on.discord.posts()
        assert len(posts) == 500
        assert not [post for post in posts if "Stop" in on.discord.buttons(post)]
        assert not (own := [call for call in on.discord.recorder.calls if call.status == 429]), own
        beats = on.discord.gateway.heartbeats
        assert max(after - before for before, after in pairwise(beats)) < 3.0
        assert on.model.max_in_flight <= SLOTS


@pytest.mark.chaos
async def test_a_question_that_kills_every_process_ends_with_a_notice(tmp_path: Path, documents: Path):
    """K15."""
    async with on_discord(tmp_path / "data", documents) as on:

        def reply(body: dict[str, Any]) -> Reply:
            assert on.process is not None
            on.process.kill()
            return long_answer(body)

        on.model.default = reply
        await on.start()
        said = await on.discord.say(ASKER, GENERAL, f"<@9000> {QUESTION}")
        for _ in range(3):
            await on.killed()
            await on.start()
        await on.all_ended()
        await on.stop()
        assert judge(on, said, parts=1) == FAILED


async def test_a_point_that_is_not_armed_kills_nothing(tmp_path: Path, documents: Path):
    """The proof that the tests above need their fault."""
    async with on_discord(tmp_path / "data", documents) as on:
        await on.start()
        said = await on.discord.say(ASKER, GENERAL, f"<@9000> {QUESTION}")
        await on.all_ended()
        assert on.process is not None
        assert on.process.returncode is None
        await on.stop()
        judge(on, said)
        assert on.calls() == 1
