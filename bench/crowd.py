"""500 threads at once in front of four slots: the queue of the one GPU under load, beside the bare endpoint."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Final

import httpx

from adapters.ports import Phase, Post
from adapters.rules import Rules
from bench.asking import Unseen, inbound, taken
from bench.figures import Figure, Json, Result
from bench.process import own_megabytes, scripted_settings
from bench.run import Run, settings_for
from bench.scripted import MODEL, scripted_server
from bench.texts import corpus
from bot.wiring import open_app
from core.evaluation import quantile
from core.gpu import QueueLimits
from core.index.ingest import ingest_documents

THREADS: Final = 500
PEOPLE: Final = 20
SLOTS: Final = 4
SECONDS: Final = {"": 1.5, "quick endpoint: ": 0.5}
"""Of an answer of sixty pieces, by round. In the first the slots write 160 tokens a second together, as one GPU does;
in the second three times as many, where what the bot itself does for a piece counts three times as much."""
BARE_CALLS: Final = 100
TICK: Final = 0.01
LIMITS: Final = QueueLimits(total=THREADS, per_asker=THREADS, per_place=THREADS)
COUNTED: Final = (
    f"{THREADS} first questions of {PEOPLE} people, each in a thread of its own, admitted in the same moment. The "
    "endpoint is a scripted server in another process whose answers take 1.5 s, on the quick endpoint 0.5 s, half of "
    f"it until the first of sixty pieces; its ceiling is what {SLOTS} bare clients get from it, {BARE_CALLS} calls, "
    "just before. Store, index and queue are real, the channel is in memory and takes no time. The wait of a person is "
    "the time between two of their answers. Memory is that of the bot's process alone."
)


class _Clocked(Unseen):
    """Keeps when each answer was there to be seen."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: dict[str, float] = {}

    async def open(self, post: Post) -> str:
        self._note(post)
        return await super().open(post)

    async def edit(self, message_id: str, post: Post) -> None:
        self._note(post)

    def _note(self, post: Post) -> None:
        if post.phase is Phase.FINAL:
            self.ends[post.thread.thread] = time.perf_counter()


def measure(run: Run) -> Result:
    if not Path("/proc/self/smaps_rollup").exists():
        raise RuntimeError("memory is measured on Linux only")
    figures: list[Figure] = []
    details: dict[str, Json] = {}
    for name, seconds in SECONDS.items():
        with run.scratch() as scratch:
            found, details[f"{seconds} s"] = asyncio.run(_measured(run, scratch, seconds))
        figures += [replace(figure, name=name + figure.name) for figure in found]
    return Result(figures=figures, counted=COUNTED, details=details)


async def _measured(run: Run, data_dir: Path, seconds: float) -> tuple[Sequence[Figure], Json]:
    texts = corpus(400, THREADS, topics=20)
    async with scripted_server(seconds) as server:
        run.advance("the bare endpoint", 0, 0)
        ceiling = await _bare(server.url)
        settings = settings_for(data_dir, **scripted_settings(server.url), LLM_PARALLEL=str(SLOTS))
        async with open_app(settings, lambda _: None, waits=(LIMITS, Rules())) as app:
            await ingest_documents(texts.documents, app.index)
            app.dispatcher.attach(channel := _Clocked())
            await app.dispatcher.start()
            before = own_megabytes()
            async with _sampled() as sampled:
                began = time.perf_counter()

                async def ask(number: int) -> float:
                    job = await taken(app.dispatcher, inbound(str(number), texts.questions[number], _person(number)))
                    stored = time.perf_counter() - began
                    await app.dispatcher.ended(job)
                    run.advance(f"answers of {seconds} s", len(channel.ends), THREADS)
                    return stored

                stored = await asyncio.gather(*(ask(number) for number in range(THREADS)))
            ends = sorted(channel.ends.values())
    waits = _waits(began, channel.ends)
    throughput = THREADS / (ends[-1] - began)
    share = 100 * throughput / ceiling
    return [
        Figure(name="answers, of the endpoint's ceiling", value=share, unit="%", goal=97, at_least=True),
        Figure(name="the endpoint's ceiling", value=ceiling, unit="a second"),
        Figure(name="longest wait to be on the disk", value=max(stored), unit="s", goal=3),
        Figure(name="lag of the event loop, p99", value=1000 * quantile(sampled.lags, 0.99), unit="ms", goal=250),
        Figure(name="lag of the event loop, longest", value=1000 * max(sampled.lags), unit="ms"),
        Figure(name="growth of the memory", value=max(sampled.megabytes) - before, unit="MB", goal=300),
        Figure(name="most calls in flight", value=server.most_in_flight, unit="", goal=SLOTS),
        Figure(name="longest wait of a person, of the average", value=max(waits) / mean(waits), unit="x", goal=1.5),
        Figure(name="questions answered", value=len(ends), unit=f"of {THREADS}"),
    ], {"seconds": ends[-1] - began, "first_answer": ends[0] - began}


def _person(number: int) -> str:
    return f"person {number % PEOPLE}"


def _waits(began: float, ends: dict[str, float]) -> list[float]:
    """Seconds between two answers of the same person, of all."""
    theirs: defaultdict[str, list[float]] = defaultdict(lambda: [began])
    for thread, at in sorted(ends.items(), key=lambda item: item[1]):
        theirs[_person(int(thread))].append(at)
    return [after - before for times in theirs.values() for before, after in pairwise(times)]


async def _bare(url: str) -> float:
    """Answers a second of `SLOTS` clients that do nothing else."""
    left = iter(range(BARE_CALLS))
    body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "Question: what?"}]}

    async def ask(client: httpx.AsyncClient) -> None:
        for _ in left:
            async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
                async for _ in response.aiter_bytes():
                    pass

    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        began = time.perf_counter()
        await asyncio.gather(*(ask(client) for _ in range(SLOTS)))
        return BARE_CALLS / (time.perf_counter() - began)


class _Samples:
    def __init__(self) -> None:
        self.lags: list[float] = []
        self.megabytes: list[float] = []

    async def run(self) -> None:
        while True:
            due = time.perf_counter() + TICK
            await asyncio.sleep(TICK)
            self.lags.append(time.perf_counter() - due)
            if len(self.lags) % 50 == 1:
                self.megabytes.append(own_megabytes())


@asynccontextmanager
async def _sampled() -> AsyncIterator[_Samples]:
    samples = _Samples()
    task = asyncio.create_task(samples.run())
    try:
        yield samples
    finally:
        task.cancel()
