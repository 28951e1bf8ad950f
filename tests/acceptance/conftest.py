"""The real command as a process of its own, beside a scripted OpenAI-style server."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.openai import OpenAIServer
from tests.servers.replies import Reply

COMMAND = (sys.executable, "-c", "from bot.cli import main; main()")


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


class Threadwise:
    """Runs `threadwise` in a working directory of its own."""

    def __init__(self, directory: Path, server: OpenAIServer) -> None:
        self.directory = directory
        self.settings = {
            "DATA_DIR": str(directory / "data"),
            "LLM_BASE_URL": server.base_url,
            "REWRITER": "endpoint",
            "EMBEDDING_BASE_URL": server.base_url,
            "EMBEDDING_MODEL": "test-embedder",
            # The scripted embedder counts words: texts that share few are far apart.
            "RETRIEVAL_MIN_SIMILARITY": "0.05",
        }

    def environment(self, changes: dict[str, str]) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
        return (
            kept | {"PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(self.directory)} | self.settings | changes
        )

    async def start(self, *arguments: str, **changes: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *COMMAND,
            *arguments,
            cwd=self.directory,
            env=self.environment(changes),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
        )

    async def run(self, *arguments: str, said: str = "", **changes: str) -> Ended:
        process = await self.start(*arguments, **changes)
        out, err = await asyncio.wait_for(process.communicate(said.encode()), 60)
        return Ended(process.returncode or 0, out.decode(), err.decode())


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        server.default = lambda body: Reply(pieces=("It takes 0.8 L of oil [1].",))
        yield server


@pytest.fixture
def threadwise(tmp_path: Path, server: OpenAIServer) -> Threadwise:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "kestrel.md").write_text(
        "# Kestrel pump\n\n## Oil\n\nThe Kestrel pump takes 0.8 L of oil.\n\n"
        "## Filter\n\nChange the Kestrel filter every 90 days.\n"
    )
    (docs / "heron.md").write_text("# Heron valve\n\nThe Heron valve opens at 4 bar. Its seal kit is HV-12.\n")
    return Threadwise(tmp_path, server)
