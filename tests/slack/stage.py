"""A local Slack, a scripted model, and the real process between them, which is killed and started again."""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

from tests.chaos import checker
from tests.chaos.board import FINAL
from tests.chaos.stage import ROOT, environment
from tests.servers.openai import OpenAIServer
from tests.servers.replies import Reply
from tests.slack_server import ASKER, BOT_USER, SlackServer
from tests.slack_server.faults import Json
from tests.slack_server.server import APP_TOKEN, BOT_TOKEN

PARTS = 2
"""Messages of an answer of the scripted model."""
_QUESTION = re.compile(r"^Question: (.*)$", re.MULTILINE)


def answer_to(body: dict[str, Any]) -> Reply:
    """A rewrite for the rewriter; for the generator an answer of two messages that repeats the question."""
    asked = str(body["messages"][-1]["content"])
    if asked.endswith("\nQuery:"):
        return Reply(pieces=("how to install threadwise on a cluster",))
    pieces: list[str | float] = [f"({_QUESTION.findall(asked)[-1]}) is answered in the guide. "]
    for n in range(8):
        pieces += [0.02, " ".join(f"word{n}-{m}" for m in range(50)) + ". "]
    return Reply(pieces=(*pieces, "All of it stands there [1]."))


@dataclass(frozen=True)
class Shown:
    """A message of the bot's."""

    part: int
    phase: str
    body: str


@dataclass
class Stage:
    """See the module."""

    slack: SlackServer
    model: OpenAIServer
    data_dir: Path
    questions: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """More of the process."""
    process: asyncio.subprocess.Process | None = None

    @property
    def log(self) -> Path:
        return self.data_dir / "process.log"

    @property
    def database(self) -> Path:
        return self.data_dir / "conversations.db"

    async def start(self, *, at: str = "", as_it_is: bool = False) -> None:
        """`as_it_is`: with the limits and waits that people have."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.slack.process",
                *(["--at", at] if at else []),
                *(["--as-it-is"] if as_it_is else []),
                cwd=ROOT,
                env=environment(self.data_dir, self.model.base_url)
                | {
                    "SLACK_BOT_TOKEN": BOT_TOKEN,
                    "SLACK_APP_TOKEN": APP_TOKEN,
                    "SLACK_API_BASE_URL": self.slack.api_url,
                }
                | self.settings,
                stderr=log,
            )

    def say(self, text: str, thread: str | None = None, *, user: str = ASKER, channel: str = "C1") -> str:
        """A question; its `ts`."""
        ts = self.slack.says(user, channel, f"<@{BOT_USER}> {text}", thread)
        self.questions[ts] = text
        return ts

    async def ended(self) -> int:
        assert self.process is not None
        return await asyncio.wait_for(self.process.wait(), 40)

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def until_all_ended(self, seconds: float = 60) -> None:
        """Until all is acknowledged, and the database has nothing more to do for it."""
        try:
            await self.slack.until(self._is_done, seconds)
        except AssertionError:
            raise AssertionError(self.log.read_text()[-4000:]) from None

    def _is_done(self) -> bool:
        return all(delivery.acked for delivery in self.slack.sockets.deliveries) and self.all_ended()

    def all_ended(self) -> bool:
        """Whether there is a job for each question, and nothing more to do for it."""
        if not self.database.exists():
            return False
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            query = f"SELECT count(*), sum(state NOT IN {checker.ENDED}) FROM jobs"
            jobs, left = connection.execute(query).fetchone()
        return bool(jobs == len(self.questions) and not left)

    def under(self, question: str) -> list[Shown]:
        """The bot's messages for a question, oldest first."""
        places = self.slack.workspace.places.values()
        own = [message for place in places for message in place.messages.values() if "metadata" in message]
        ours = [m for m in own if m["metadata"]["event_payload"]["reply_to"] == question]
        return [Shown(m["metadata"]["event_payload"]["part"], _phase(m), _section(m)) for m in ours]

    def judge(self) -> list[str]:
        """What is wrong, in words."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            query = "SELECT i.message_id, i.thread, j.* FROM jobs j JOIN inbox i ON i.id = j.inbox_id"
            jobs = checker._rows(connection, query)
            turns = checker._rows(connection, "SELECT * FROM turns ORDER BY thread_id, seq")
            wrong = [*checker._sound(connection), *checker._bounded(jobs), *checker._remembered_once(turns)]
        stored = {turn["message_id"]: turn["answered"] for turn in turns}
        for question, text in self.questions.items():
            shown = self.under(question)
            if [message.part for message in shown] != list(range(len(shown))) or not shown:
                wrong.append(f"{text} has the parts {[message.part for message in shown]}")
            wrong += [f"{text} still shows {message.body}" for message in shown if message.phase != FINAL]
            if [job["message_id"] for job in jobs].count(question) != 1:
                wrong.append(f"{text} has not one job")
            if stored[question] and " ".join(" ".join(m.body for m in shown).split()) != " ".join(
                stored[question].split()
            ):
                wrong.append(f"{text} shows something else than is stored")
        return wrong + [f"{call.method} pings" for call in self.slack.pings()]


def _section(message: Json) -> str:
    return unescape(message["blocks"][0]["text"]["text"])


def _phase(message: Json) -> str:
    return str(message["blocks"][0]["block_id"]).rpartition(":")[2]


@asynccontextmanager
async def stage(data_dir: Path, template: Path) -> AsyncIterator[Stage]:
    """A stage on the documents of `template`; the process is killed at the end if it is still there."""
    shutil.copytree(template, data_dir, dirs_exist_ok=True)
    async with SlackServer() as slack, OpenAIServer(context_tokens=32_768) as model:
        slack.sockets.ack_seconds, slack.sockets.retries = 1.0, (0.2,) * 60
        slack.echoes = False
        model.default = answer_to
        made = Stage(slack, model, data_dir)
        try:
            yield made
        finally:
            await made.kill()
