"""A model and an embedder behind real HTTP, in a process of its own: they answer at once, or in a given time.

    async with scripted_server() as server:
        ...                                  # server.url is good for LLM_BASE_URL and EMBEDDING_BASE_URL
    server.most_in_flight                    # chat requests that it had to do at a time, known at the end

The server is the one that the tests use. It answers with some sixty pieces of text and a citation, and it
rewrites a follow-up into the typed words with a word of the conversation, so that every stage has its work.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from bench.run import ROOT
from tests.servers.openai import OpenAIServer
from tests.servers.replies import Reply

MODEL: Final = "scripted"
WIDTH: Final = 384
"""Numbers in a vector, as in those of the embedded embedder."""
PIECES: Final = 60
"""Pieces of an answer: a few sentences, a token a piece."""
_ANSWER: Final = tuple(f"point{number} " for number in range(PIECES - 1)) + ("as it says [1].",)
_FOLLOW_UP: Final = re.compile(r"> User: ([^\n]*)\n(?:> [^\n]*\n)*Last message: ([^\n]*)\nQuery:$")


def reply_to(body: dict[str, Any]) -> Reply:
    """A rewrite for the rewriter, an answer for everything else."""
    asked = str(body["messages"][-1]["content"])
    if not asked.endswith("\nQuery:"):
        return Reply(pieces=_ANSWER)
    *_, (before, last) = _FOLLOW_UP.findall(asked)
    subject = max(re.findall(r"\w+", before), key=len)
    return Reply(pieces=(f"{last.rstrip(' ?')} {subject}",))


@dataclass
class Scripted:
    """A server that runs, or did."""

    url: str
    most_in_flight: int = 0


@asynccontextmanager
async def scripted_server(pause: float = 0.0) -> AsyncIterator[Scripted]:
    """A running server; it ends with the block, and with this process. Answers take `pause` seconds."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.scripted",
        f"--pause={pause}",
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip()
        if not url:
            raise RuntimeError("the scripted server did not start")
        yield (server := Scripted(url))
        process.stdin.close()
        server.most_in_flight = int(await process.stdout.readline())
    finally:
        process.stdin.close()
        await process.wait()


def _paced(reply: Reply, seconds: float) -> Reply:
    """`reply` over `seconds`: half of them before its first piece, as a prompt is read, half between its pieces."""
    if not seconds:
        return reply
    between = seconds / 2 / len(reply.pieces)
    return replace(reply, delay=seconds / 2, pieces=tuple(part for piece in reply.pieces for part in (between, piece)))


async def _serve(pause: float) -> None:
    """Serves until the standard input ends."""
    async with OpenAIServer(model=MODEL, context_tokens=32_768) as server:
        server.width = WIDTH
        server.count = lambda text: len(text) // 3 + 1
        server.default = lambda body: _paced(reply_to(body), pause)
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)
        sys.stdout.write(f"{server.max_in_flight}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pause", type=float, default=0.0)
    asyncio.run(_serve(parser.parse_args().pause))
