"""Two hundred threads that stream at once on Discord: what the limits say, and whether the heart still beats."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

from adapters.discord.setup import DiscordSetup
from adapters.discord_gateway import DiscordGateway
from adapters.dispatcher import Dispatcher
from adapters.ports import Show
from adapters.store import SqlConversationStore
from bench.figures import Figure, Result
from bench.run import Run
from core.seat import JobLine
from core.types import Answer, Query, QueryStatus, Question
from core.window import MAX_TURNS
from tests.discord_server.gateway import until
from tests.discord_server.server import DiscordServer
from tests.discord_server.world import GENERAL
from tests.open_line import OpenLine

THREADS: Final = 200
STREAM_SECONDS: Final = 20.0
HEARTBEAT_MS: Final = 1000
COUNTED: Final = (
    f"{THREADS} people mention the bot within a second, and {THREADS} answers grow for {STREAM_SECONDS:.0f} s at the "
    f"same time: the real discord.py, dispatcher and database against the local Discord server, in one process, so the "
    f"server's work is in the figures. Limits as Discord's: 50 requests a second, 5 in 5 s for the messages of a "
    f"channel. A heartbeat is due every second. The last edit is waited for from the end of the answer."
)


def measure(run: Run) -> Result:
    with run.scratch() as scratch:
        return asyncio.run(_measured(run, scratch))


async def _measured(run: Run, scratch: Path) -> Result:
    ended: dict[str, float] = {}

    async def answer(question: Question, show: Show, seat: JobLine) -> Answer:
        text = ""
        for step in range(int(STREAM_SECONDS * 5)):
            text += f"word {step} "
            await show(text)
            await asyncio.sleep(0.2)
        ended[question.text] = time.monotonic()
        return Answer(text=text, query=Query(text="", status=QueryStatus.SKIPPED))

    store = await SqlConversationStore.open(scratch / "conversations.db")
    async with DiscordServer() as server:
        server.gateway.heartbeat_ms = HEARTBEAT_MS
        dispatcher = Dispatcher(store, answer, OpenLine(), MAX_TURNS)
        gateway = DiscordGateway(DiscordSetup(token=server.token, api_base_url=server.base_url), dispatcher, store)
        dispatcher.attach(gateway.channel)
        await dispatcher.start()
        running = asyncio.create_task(gateway.run())
        await until(gateway.ready.is_set, 30)
        said = {}
        for number in range(THREADS):
            server.world.add_user(10_000 + number, f"Person {number}")
            said[f"Question {number}"] = await server.say(10_000 + number, GENERAL, f"<@9000> Question {number}")
            await asyncio.sleep(1 / THREADS)
        finals: dict[str, float] = {}
        while len(finals) < THREADS:
            for text, message in said.items():
                posts = server.posts(int(message["id"]))
                if text not in finals and posts and "Stop" not in server.buttons(posts[0]):
                    finals[text] = time.monotonic()
            run.advance("final answers", len(finals), THREADS)
            await asyncio.sleep(0.05)
        await dispatcher.close(1)
        running.cancel()
        await asyncio.wait({running})
        await store.close()
    return _result(server, [finals[text] - ended[text] for text in said])


def _result(server: DiscordServer, waits: list[float]) -> Result:
    beats = server.gateway.heartbeats
    late = [after - before - HEARTBEAT_MS / 1000 for before, after in pairwise(beats)]
    calls = [call for call in server.recorder.calls if not call.route.startswith("/gateway")]
    seconds = calls[-1].at - calls[0].at
    edits = len(server.recorder.to("PATCH /channels/{channel}/messages/{message}"))
    return Result(
        figures=(
            Figure(name="requests refused with 429", value=sum(call.status == 429 for call in calls), unit="", goal=0),
            Figure(name="latest heartbeat", value=max(late), unit="s", goal=1.0),
            Figure(name="last edit after the answer, median", value=median(waits), unit="s"),
            Figure(name="last edit after the answer, slowest", value=max(waits), unit="s"),
            Figure(name="requests a second", value=len(calls) / seconds, unit="/s"),
            Figure(name="edits of an answer", value=edits / THREADS, unit=""),
        ),
        counted=COUNTED,
        details={
            "refused": Counter(call.route for call in calls if call.status == 429),
            "waits": [round(wait, 2) for wait in waits],
        },
    )
