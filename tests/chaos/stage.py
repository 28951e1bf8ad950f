"""A board, a scripted model, and the process between them, which is killed and started again."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.chaos.board import Board
from tests.chaos.checker import ENDED
from tests.servers.openai import OpenAIServer
from tests.servers.replies import Reply

ROOT: Final = Path(__file__).parents[2]
SLOTS: Final = 4
_QUESTION: Final = re.compile(r"^Question: (.*)$", re.MULTILINE)


def answer_to(body: dict[str, Any], pause: float = 0.02) -> Reply:
    """A rewrite for the rewriter; for the generator an answer of two messages that repeats the question."""
    asked = str(body["messages"][-1]["content"])
    if asked.endswith("\nQuery:"):
        return Reply(pieces=("how to install threadwise on a cluster",))
    question = asked_in(body)
    pieces: list[str | float] = [f"<{question}> is answered in the guide. "]
    for n in range(8):
        pieces += [pause, f"Step {n} of the answer says more. "]
    return Reply(pieces=(*pieces, "All of it stands there [1]."))


def asked_in(body: dict[str, Any]) -> str | None:
    """The question that a request wants an answer to; None for one of the rewriter."""
    found = _QUESTION.findall(str(body["messages"][-1]["content"]))
    return found[-1] if found else None


@dataclass
class Stage:
    """See the module."""

    board: Board
    model: OpenAIServer
    data_dir: Path
    process: asyncio.subprocess.Process | None = None
    starts: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    """Of the environment, beside the usual ones."""
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.data_dir / "process.log"

    @property
    def database(self) -> Path:
        return self.data_dir / "conversations.db"

    async def start(self, *, at: str = "", without: Sequence[str] = (), under: Sequence[str] = ()) -> None:
        """Starts the process, `under` another command; it begins to serve in its own time."""
        arguments = [*(["--at", at] if at else []), *(word for each in without for word in ("--without", each))]
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *under,
                sys.executable,
                "-m",
                "tests.chaos.process",
                self.board.url,
                *arguments,
                cwd=ROOT,
                env=environment(self.data_dir, self.model.base_url) | self.settings,
                stderr=log,
            )
        self.starts += 1

    async def ended(self, seconds: float = 30) -> int:
        """The exit code of the process, when it has ended."""
        assert self.process is not None
        return await asyncio.wait_for(self.process.wait(), seconds)

    async def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> float:
        """Ends the process in order; the seconds that took."""
        assert self.process is not None
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert await self.ended() == 0, self.log.read_text()[-2000:]
        return time.monotonic() - began

    async def until(self, is_so: Callable[[], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < deadline, f"not so within {seconds} s\n{self.log.read_text()[-3000:]}"
            assert self.process is None or self.process.returncode is None, self.log.read_text()[-3000:]
            await asyncio.sleep(0.01)

    def is_done(self) -> bool:
        """Whether everything was taken, and the database has nothing more to do for it."""
        if any(event.acknowledged_at is None for event in self.board.events):
            return False
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as connection:
            (left,) = connection.execute(f"SELECT count(*) FROM jobs WHERE state NOT IN {ENDED}").fetchone()
        return bool(left == 0)

    async def until_all_ended(self, seconds: float = 60) -> None:
        """Until it is, by the work of the process that was started last."""
        await self.until(self.is_done, seconds)


def environment(data_dir: Path, model: str) -> dict[str, str]:
    """Nothing of our own but what programs need."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
    return kept | {
        "HOME": str(data_dir),
        "DATA_DIR": str(data_dir),
        "LLM_BASE_URL": model,
        "LLM_PARALLEL": str(SLOTS),
        "LOG_LEVEL": "INFO",
        "REWRITER": "endpoint",
        "EMBEDDING_BASE_URL": model,
        "EMBEDDING_MODEL": "scripted",
        "RETRIEVAL_MIN_SIMILARITY": "0.01",
    }


@asynccontextmanager
async def stage(data_dir: Path, template: Path | None = None, seed: int = 0) -> AsyncIterator[Stage]:
    """A stage on the documents of `template`; the process is killed at the end if it is still there."""
    if template is not None:
        shutil.copytree(template, data_dir, dirs_exist_ok=True)
    async with Board(seed) as board, OpenAIServer(context_tokens=32_768) as model:
        model.default = answer_to
        made = Stage(board, model, data_dir)
        try:
            yield made
        finally:
            if made.process is not None and made.process.returncode is None:
                await made.kill()


async def ingest(data_dir: Path) -> None:
    """Puts a few lines of documents there, by the command."""
    documents = data_dir / "documents"
    documents.mkdir(parents=True)
    (documents / "guide.md").write_text(GUIDE, encoding="utf-8")
    async with OpenAIServer() as model:
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("threadwise"),
            "ingest",
            str(documents),
            cwd=ROOT,
            env=environment(data_dir, model.base_url),
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await process.communicate()
        assert process.returncode == 0, said.decode()


GUIDE: Final = """# The guide

## Install

To install threadwise on a cluster, question the chart: how many replicas, which answer, which guide.

## Remove

How to remove threadwise from a cluster again: delete the chart, then the data.
"""
