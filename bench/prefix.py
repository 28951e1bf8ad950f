"""How much of its prompts the embedded server has in its cache already, over a conversation of twelve turns."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx

from adapters.dispatcher import Dispatcher
from adapters.summaries import Summaries
from bench.asking import Unseen, answered, inbound
from bench.embedded import engine, tokens
from bench.figures import Figure, Result
from bench.run import DOCS, Run, settings_for
from bot.engine import Engine
from bot.wiring import in_line, open_app
from core.index.ingest import ingest
from core.load import in_background
from core.ports import ChatModel
from core.prompts import CONTEXT_CLOSE, CONTEXT_OPEN
from core.types import Answer, ChatRequest, Delta, Usage
from core.window import MAX_TURNS

GOAL_PERCENT: Final = 60.0
QUESTIONS: Final = (
    "Which files can be read?",
    "and how do I update the index after they have changed?",
    "what happens with files that could not be read?",
    "How do I point Threadwise at my own model?",
    "and with Ollama?",
    "does it need a key?",
    "Where are conversations stored?",
    "how do I remove one of them?",
    "and how do I back everything up?",
    "What does /rewrite show?",
    "and where do I see the sources?",
    "How many passages are put into a prompt?",
)
COUNTED: Final = (
    f"cached_tokens of prompt_tokens, as the server's usage tells them, summed over {len(QUESTIONS)} turns about docs/ "
    f"in one thread, the first turn with an empty cache among them; turns are asked one after the other and the window "
    f"of verbatim turns slides once. Outside the passages: the tokens between the delimiters of the context, which are "
    f"other ones each turn, are taken off prompt_tokens; they are not counted as cached, although a first one that "
    f"stays the same can be. A reply that the bot cuts off (a loop, a time-out) has no usage and is not in the sums."
)

_CONTEXT: Final = re.compile(rf"{re.escape(CONTEXT_OPEN)}\n(.*)\n{re.escape(CONTEXT_CLOSE)}", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to the chat model, and what it cost."""

    request: ChatRequest
    usage: Usage

    @property
    def cached(self) -> int:
        if self.usage.cached_tokens is None:
            raise RuntimeError("the server does not tell how much of a prompt was in its cache")
        return self.usage.cached_tokens

    @property
    def passages(self) -> str:
        """What stands between the delimiters of the context."""
        found = _CONTEXT.search(self.request.messages[-1].content)
        return found.group(1) if found else ""


class _Recording:
    """A `ChatModel` that keeps each request that was answered, with its usage."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.calls: list[Call] = []

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        async with aclosing(self._model.stream(request)) as deltas:
            async for delta in deltas:
                if delta.usage is not None:
                    self.calls.append(Call(request=request, usage=delta.usage))
                yield delta

    def of(self, purpose: str) -> list[Call]:
        return [call for call in self.calls if call.request.purpose == purpose]


def measure(run: Run) -> Result:
    with run.scratch() as scratch:
        return asyncio.run(_measured(run, scratch))


async def _measured(run: Run, data_dir: Path) -> Result:
    async with engine(run, chat=True) as started:
        model, answers = await _talk(run, data_dir, started)
        generations, rewrites = model.of("generate"), model.of("rewrite")
        passages = await _passage_tokens(started, generations)
    outside = sum(call.usage.prompt_tokens for call in generations) - sum(passages)
    answered = sum(answer.complete for answer in answers)
    return Result(
        figures=[
            Figure(
                name="generator, outside the passages",
                value=100 * sum(call.cached for call in generations) / outside,
                unit="%",
                goal=GOAL_PERCENT,
                at_least=True,
            ),
            Figure(name="generator, whole prompts", value=_share(generations), unit="%"),
            Figure(name="rewriter, whole prompts", value=_share(rewrites), unit="%"),
            Figure(name="turns that became history", value=answered, unit=f"of {len(QUESTIONS)}"),
            Figure(name="generations with a usage", value=len(generations), unit=f"of {len(QUESTIONS)}"),
            Figure(name="rewrites with a usage", value=len(rewrites), unit=f"of {len(QUESTIONS) - 1}"),
        ],
        counted=COUNTED,
        details={"generate": _rows(generations, passages), "rewrite": _rows(rewrites, [0] * len(rewrites))},
    )


async def _talk(run: Run, data_dir: Path, started: Engine) -> tuple[_Recording, list[Answer]]:
    async with open_app(settings_for(data_dir), lambda _: None, started) as app:
        await ingest([DOCS], app.index, on_progress=lambda step: run.advance("reading docs", step.done, step.total))
        model = _Recording(app.pipeline.model)
        pipeline = replace(app.pipeline, model=model)
        summaries = Summaries(app.store, in_background(pipeline, app.gpu.background()).summarize)
        dispatcher = Dispatcher(app.store, in_line(pipeline), app.gpu, MAX_TURNS, summaries)
        dispatcher.attach(channel := Unseen())
        for number, question in enumerate(QUESTIONS):
            await answered(dispatcher, channel, inbound("t", question))
            # Somebody who reads an answer before asking on gives the summary its time.
            await summaries.idle()
            run.advance("turns", number + 1, len(QUESTIONS))
        await dispatcher.close()
    return model, channel.answers


async def _passage_tokens(started: Engine, calls: Sequence[Call]) -> list[int]:
    assert started.chat is not None
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return [await tokens(client, started.chat, call.passages) for call in calls]


def _share(calls: Sequence[Call]) -> float:
    return 100 * sum(call.cached for call in calls) / max(1, sum(call.usage.prompt_tokens for call in calls))


def _rows(calls: Sequence[Call], passages: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {"prompt_tokens": call.usage.prompt_tokens, "cached_tokens": call.cached, "passage_tokens": of_passages}
        for call, of_passages in zip(calls, passages, strict=True)
    ]
