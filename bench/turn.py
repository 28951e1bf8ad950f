"""Own time of a turn: everything but the model and the embedder, over real HTTP, a real store and a real index."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeVar

from adapters.dispatcher import Dispatcher
from adapters.store import SqlConversationStore
from adapters.store.database import Database
from bench.asking import Unseen, answered, inbound
from bench.figures import Figure, Result
from bench.process import scripted_settings
from bench.run import Run, settings_for
from bench.scripted import PIECES, scripted_server
from bench.texts import corpus
from bench.waiting import Meter, MeteredEmbedder, MeteredModel
from bot.wiring import App, in_line, open_app
from core.evaluation import quantile
from core.index.ingest import ingest_documents
from core.index.search import IndexRetriever
from core.pipeline import Pipeline
from core.types import Answer, QueryStatus
from core.window import MAX_TURNS

T = TypeVar("T")

GOAL_MS: Final = 5.0
PASSAGES: Final = 400
THREADS: Final = 30
TURNS: Final = 6
"""Of a thread. The first one is searched as typed, the others are rewritten."""
WARM_UP: Final = 3
"""Threads that do not count."""
COUNTED: Final = (
    f"own time is the wall time of a turn, from the message to the stored and shown answer, less the time for which a "
    f"call to the model or the embedder was awaited. It holds the store (SQLite, with its waits for the disk), both "
    f"searches, prompts, checks and the cleaning of {PIECES} streamed pieces; it does not hold what runs beside an "
    f"awaited call, such as the search for the typed words beside the rewrite. With HTTP clients and what runs beside "
    f"calls: only the time is taken off for which the event loop had nothing to do during a call. Model and embedder "
    f"are one scripted server in another process that answers at once. {PASSAGES} passages, {TURNS} turns a thread."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """Seconds of one turn."""

    first: bool
    wall: float
    in_calls: float
    asleep: float
    processor: float
    """Of this process, all threads, calls among it."""
    store: float

    @property
    def own(self) -> float:
        return self.wall - self.in_calls

    @property
    def pipeline(self) -> float:
        return self.own - self.store

    @property
    def awake(self) -> float:
        return self.wall - self.asleep


class _TimedDatabase(Database):
    """A database that keeps the seconds spent in its transactions."""

    seconds = 0.0

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        start = time.perf_counter()
        try:
            return await super().run(work)
        finally:
            self.seconds += time.perf_counter() - start


def measure(run: Run) -> Result:
    meter = Meter()
    with run.scratch() as scratch, asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(meter)) as runner:
        turns = runner.run(_measured(run, scratch, meter))
    follow_ups = [turn for turn in turns if not turn.first]
    return Result(
        figures=[
            Figure(name="own time, median", value=_ms(turns, "own"), unit="ms", goal=GOAL_MS),
            Figure(name="own time, p95", value=_ms(turns, "own", 0.95), unit="ms"),
            Figure(name="own time of a first turn", value=_ms([t for t in turns if t.first], "own"), unit="ms"),
            Figure(name="own time of a follow-up", value=_ms(follow_ups, "own"), unit="ms"),
            Figure(name="of it, the store", value=_ms(turns, "store"), unit="ms"),
            Figure(name="of it, the pipeline", value=_ms(turns, "pipeline"), unit="ms"),
            Figure(name="with HTTP clients and what runs beside calls", value=_ms(turns, "awake"), unit="ms"),
            Figure(name="whole turn with the scripted server", value=_ms(turns, "wall"), unit="ms"),
            Figure(name="processor time of the whole turn", value=_ms(turns, "processor"), unit="ms"),
        ],
        counted=COUNTED,
        details={"turns": len(turns), "passages": PASSAGES},
    )


def _ms(turns: Sequence[_Turn], name: str, share: float = 0.5) -> float:
    values = [float(getattr(turn, name)) for turn in turns]
    return 1000 * (median(values) if share == 0.5 else quantile(values, share))


async def _measured(run: Run, data_dir: Path, meter: Meter) -> list[_Turn]:
    texts = corpus(PASSAGES, (WARM_UP + THREADS) * TURNS, topics=20)
    async with scripted_server() as server:
        settings = settings_for(data_dir, **scripted_settings(server.url))
        async with open_app(settings, lambda _: None) as app:
            await ingest_documents(texts.documents, app.index)
            database = _TimedDatabase(app.store.database.path)
            await database.connect()
            dispatcher = Dispatcher(SqlConversationStore(database), in_line(_metered(app, meter)), app.gpu, MAX_TURNS)
            dispatcher.attach(channel := Unseen())
            turns = []
            for number, (thread, first, question) in enumerate(_questions(texts.questions)):
                turn = await _turn(dispatcher, channel, database, meter, thread, question, first=first)
                if number >= WARM_UP * TURNS:
                    turns.append(turn)
                run.advance("turns", number + 1, len(texts.questions))
            await dispatcher.close()
            await database.close()
    return turns


def _metered(app: App, meter: Meter) -> Pipeline:
    """The pipeline of `app` with its calls to the model and the embedder metered."""
    retriever = IndexRetriever(app.index.catalog, app.index.vectors, MeteredEmbedder(app.index.embedder, meter))
    return replace(app.pipeline, model=MeteredModel(app.pipeline.model, meter), retriever=retriever)


def _questions(asked: Sequence[str]) -> Iterator[tuple[str, bool, str]]:
    for number, question in enumerate(asked):
        thread, place = divmod(number, TURNS)
        yield str(thread), place == 0, question


async def _turn(
    dispatcher: Dispatcher,
    channel: Unseen,
    database: _TimedDatabase,
    meter: Meter,
    thread: str,
    question: str,
    *,
    first: bool,
) -> _Turn:
    message = inbound(thread, question)
    in_store = database.seconds
    asleep, in_calls = meter.asleep, meter.in_calls
    wall, processor = time.perf_counter(), time.process_time()
    answer = await answered(dispatcher, channel, message)
    turn = _Turn(
        first=first,
        wall=time.perf_counter() - wall,
        in_calls=meter.in_calls - in_calls,
        asleep=meter.asleep - asleep,
        processor=time.process_time() - processor,
        store=database.seconds - in_store,
    )
    _check(answer, first=first)
    return turn


def _check(answer: Answer, *, first: bool) -> None:
    """A turn that fell back somewhere would be measured without its work."""
    wanted = QueryStatus.SKIPPED if first else QueryStatus.REWRITTEN
    if answer.degraded or not answer.citations or answer.query.status is not wanted:
        found = answer.query, answer.degraded, answer.text[:80]
        raise RuntimeError(f"a scripted turn did not go as planned: {found}")
