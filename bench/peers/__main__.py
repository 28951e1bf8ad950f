"""`python -m bench.peers`: asks the conversation of each system and prints a table. docs/benchmarks.md explains it."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import httpx
from rich.console import Console
from rich.table import Table

from bench.embedded import tokens
from bench.peers.conversation import conversation
from bench.peers.server import Call, Recorder
from bench.peers.systems import CONTEXT_TOKENS
from bench.run import ROOT
from bot.config import from_environment
from bot.engine import Engine, start

RESULTS: Final = Path(__file__).parents[1] / "results-peers.json"
PURPOSES: Final = ("rewrite", "answer", "summary")
SECONDS: Final = 300.0
"""For one turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A system, and whether its rewrites are made by Threadwise's own rewriter, beside the model that answers."""

    system: str
    own_rewriter: bool = False


OURS: Final = {
    "threadwise": Asked(system="threadwise", own_rewriter=True),
    "REWRITER=endpoint": Asked(system="threadwise"),
    "core": Asked(system="core", own_rewriter=True),
}
"""As it is installed; with one model for all; and as a library."""
PEERS: Final = {"langchain": Asked(system="langchain"), "llamaindex": Asked(system="llamaindex")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """One system's conversation."""

    calls: Sequence[Call]
    """To the model that answers."""
    rewriter_calls: Sequence[Call]
    """To the rewriter, where that is another."""
    first_token: float
    """Seconds from the last question to its first piece of answer."""
    processor: Sequence[float]
    """Seconds of the system's process, a turn."""

    def prefilled(self, purpose: str = "") -> int:
        return sum(call.prefilled_tokens for call in self.calls if purpose in ("", call.purpose))

    @property
    def asked(self) -> int:
        return sum(call.prompt_tokens for call in self.calls)


async def main(slots: int) -> None:
    data_dir = from_environment().data_dir.resolve()
    talks: dict[str, Talk] = {}
    floor = 0
    for name, asked in (OURS | PEERS).items():
        print(f"asking {name}", file=sys.stderr)  # noqa: T201 - a command's output
        # A new server each time: nobody finds in its cache what another has asked.
        async with _engine(data_dir, slots) as engine, _rewriter(data_dir, on=asked.own_rewriter) as rewriter:
            talks[name] = await _talked(asked.system, Recorder(engine), rewriter)
            floor = floor or await _floor(engine)
    _print(talks, floor, slots)
    kept = {name: asdict(talk) for name, talk in talks.items()} | {"floor": floor}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


@asynccontextmanager
async def _engine(data_dir: Path, slots: int) -> AsyncIterator[Engine]:
    engine = await start(data_dir, embeddings=False, slots=slots, context_tokens=CONTEXT_TOKENS)
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def _rewriter(data_dir: Path, *, on: bool) -> AsyncIterator[Recorder | None]:
    """The embedded model with the adapter for rewrites, on a server of its own."""
    if not on:
        yield None
        return
    async with _engine(data_dir, 2) as engine:
        recorder = Recorder(engine, "rewrite")
        async with recorder.running():
            yield recorder


async def _talked(system: str, recorder: Recorder, rewriter: Recorder | None) -> Talk:
    async with recorder.running():
        urls = [recorder.url, *([rewriter.url] if rewriter else [])]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.peers.systems", system, recorder.model, *urls),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        processor, began = [], 0.0
        try:
            for turn in range(len(conversation())):
                for each in (recorder, rewriter):
                    if each:
                        each.turn = turn
                began = time.perf_counter()
                process.stdin.write(f"{turn}\n".encode())
                line = await asyncio.wait_for(process.stdout.readline(), SECONDS)
                if not line:
                    raise RuntimeError(f"{system} gave up at turn {turn + 1}")
                processor.append(float(line))
        finally:
            process.stdin.close()
            await process.wait()
    first = next(call.first_token for call in recorder.calls if call.turn == turn and call.purpose == "answer")
    calls = rewriter.calls if rewriter else []
    return Talk(calls=recorder.calls, rewriter_calls=calls, first_token=first - began, processor=processor)


async def _floor(engine: Engine) -> int:
    """Tokens of what cannot be in any cache: the passages of each turn, and each question and answer once.

    The last answer is in no prompt.
    """
    turns = conversation()
    texts = [passage.text for turn in turns for passage in turn.passages]
    texts += [turn.question for turn in turns] + [turn.answer for turn in turns[:-1]]
    assert engine.chat is not None
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return sum([await tokens(client, engine.chat, text) for text in texts])


def _print(talks: dict[str, Talk], floor: int, slots: int) -> None:
    title = f"{len(conversation())} turns, {slots} slot{'s' if slots > 1 else ''} of llama.cpp"
    table = Table(title=title, title_justify="left")
    for column in ("", *talks):
        table.add_column(column, justify="right" if column else "left")
    rows: dict[str, Callable[[Talk], str]] = {
        "model calls": lambda talk: f"{len(talk.calls)}",
        "prompt tokens asked": lambda talk: f"{talk.asked}",
        "prompt tokens prefilled": lambda talk: f"{talk.prefilled()}",
        **{f"  for {purpose}": partial(_prefilled, purpose=purpose) for purpose in PURPOSES},
        "times the floor": lambda talk: f"{talk.prefilled() / floor:.2f}",
        "prefilled by the own rewriter": lambda talk: f"{sum(call.prefilled_tokens for call in talk.rewriter_calls)}",
        "first token of the last turn, s": lambda talk: f"{talk.first_token:.2f}",
        "processor time a turn, ms": lambda talk: f"{1000 * median(talk.processor):.0f}",
    }
    for name, value in rows.items():
        table.add_row(name, *map(value, talks.values()))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(table)
    peers = [talks[name] for name in PEERS]
    best, least = min(peer.prefilled() for peer in peers), min(median(peer.processor) for peer in peers)
    for name in OURS:
        talk = talks[name]
        console.print(
            f"{name}: prefilled {100 * talk.prefilled() / best:.0f} % of the better peer (goal: at most 60 %) and "
            f"{talk.prefilled() / floor:.2f} times the floor of {floor} (goal: at most 1.15); "
            f"processor time {100 * median(talk.processor) / least:.0f} % of the better peer (goal: at most 50 %)",
            soft_wrap=True,
        )


def _prefilled(talk: Talk, purpose: str) -> str:
    return f"{talk.prefilled(purpose)}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.peers")
    parser.add_argument("--slots", type=int, default=1, help="slots of the server, 1 unless told otherwise")
    asyncio.run(main(parser.parse_args().slots))
