"""Seconds of a rewrite by the embedded rewriter with six turns before it, cold and after the turn before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

import httpx

from bench.embedded import engine
from bench.figures import Figure, Result
from bench.prefix import QUESTIONS
from bench.run import DOCS, Run
from bot.engine import Endpoint
from core.evaluation import quantile
from core.prompts import TRAINED, rewrite_request
from core.trained_prompts import ANSWER_CHARS
from core.types import ChatRequest, Turn

GOAL_SECONDS: Final = 0.4
TURNS: Final = 6
REPEATED: Final = 3
COUNTED: Final = (
    f"wall time of the call to the embedded server for a question after {TURNS} turns; {len(QUESTIONS)} conversations, "
    f"{REPEATED} times each. Cold: nothing of the prompt is in the cache. Warm: the turn before was rewritten just "
    f"before. The answers are beginnings of pages of docs/. Nothing else asks the server."
)


def measure(run: Run) -> Result:
    return asyncio.run(_measured(run))


async def _measured(run: Run) -> Result:
    async with engine(run, chat=True) as started, httpx.AsyncClient(timeout=60, trust_env=False) as client:
        assert started.chat is not None
        cold, warm, written = await _timed(client, started.chat, conversations())
    return Result(
        figures=[
            Figure(name="cold, median", value=quantile(cold, 0.5), unit="s", goal=GOAL_SECONDS),
            Figure(name="cold, p95", value=quantile(cold, 0.95), unit="s"),
            Figure(name="warm, median", value=quantile(warm, 0.5), unit="s", goal=GOAL_SECONDS),
            Figure(name="warm, p95", value=quantile(warm, 0.95), unit="s"),
        ],
        counted=COUNTED,
        details={"cold": cold, "warm": warm, "tokens_written": written},
    )


def conversations() -> list[list[Turn]]:
    """Conversations of `TURNS` turns and one more, whose answer does not count."""
    pages = [" ".join(page.read_text(encoding="utf-8").split()) for page in sorted(DOCS.glob("*.md"))]
    turns = [
        Turn(question=question, answer=pages[n % len(pages)][:ANSWER_CHARS]) for n, question in enumerate(QUESTIONS)
    ]
    return [[*turns[n:], *turns[:n]][: TURNS + 1] for n in range(len(turns))]


async def _timed(
    client: httpx.AsyncClient, endpoint: Endpoint, talks: Sequence[Sequence[Turn]]
) -> tuple[list[float], list[float], list[int]]:
    cold: list[float] = []
    warm: list[float] = []
    written: list[int] = []
    for talk in list(talks) * REPEATED:
        before = rewrite_request(talk[-2].question, talk[:-2], "", TRAINED)
        now = rewrite_request(talk[-1].question, talk[:-1], "", TRAINED)
        seconds, tokens = await _asked(client, endpoint, now, cache_prompt=False)
        cold.append(seconds)
        written.append(tokens)
        await _asked(client, endpoint, before)
        warm.append((await _asked(client, endpoint, now))[0])
    return cold, warm, written


async def _asked(
    client: httpx.AsyncClient, endpoint: Endpoint, request: ChatRequest, **fields: Any
) -> tuple[float, int]:
    """Seconds, and tokens of the reply."""
    body = {
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "stop": list(request.stop),
        **endpoint.fields_for[request.purpose],
        **fields,
    }
    started = time.monotonic()
    response = await client.post(
        f"{endpoint.base_url}/chat/completions", json=body, headers={"Authorization": f"Bearer {endpoint.api_key}"}
    )
    response.raise_for_status()
    return time.monotonic() - started, int(response.json()["usage"]["completion_tokens"])
