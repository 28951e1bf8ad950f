"""Prompt tokens that a llama.cpp server computes anew over a conversation, by slots and by who rewrites.

The conversation is the scripted one of `bench.peers`, so the figures are the same on every run and machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from bench.figures import Figure, Result
from bench.peers.conversation import conversation
from bench.peers.server import Call, Recorder
from bench.peers.systems import CONTEXT_TOKENS, SYSTEMS, Searched, Served
from bench.run import Run
from bot.engine import PROMPT_CACHE_MIB, start

APART: Final = {"rewrite": 0, "answer": 1}
COUNTED: Final = (
    "prompt tokens that the server of the answers computed, as its timings tell them, over the first turns of the "
    "conversation with their rewrites; the rewriter of one's own is another server, whose tokens are not in the sum."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a server is set up, and how it is asked."""

    name: str
    slots: int = 1
    own_rewriter: bool = False
    """`REWRITER=local`: rewrites are made by the embedded rewriter; else by the model that answers."""
    slot_for: Mapping[str, int] = field(default_factory=dict)
    """By purpose, the slot that requests name; without one the server chooses."""
    cache_mib: int = PROMPT_CACHE_MIB
    """Memory for prompts that left their slot."""


TURNS: Final = 6
"""Of the conversation; no summary is made before the ninth."""
LAYOUTS: Final = (
    Layout(name="endpoint, 1 slot, no cache in memory", cache_mib=0),
    Layout(name="endpoint, 1 slot"),
    Layout(name="endpoint, 2 slots", slots=2),
    Layout(name="endpoint, 2 slots, id_slot", slots=2, slot_for=APART),
    Layout(name="local, 1 slot", own_rewriter=True),
)


def measure(run: Run) -> Result:
    return asyncio.run(_measured(run))


async def _measured(run: Run) -> Result:
    figures: list[Figure] = []
    details: dict[str, Any] = {}
    for number, layout in enumerate(LAYOUTS):
        calls = await _calls(run, layout)
        figures.append(Figure(name=layout.name, value=sum(call.prefilled_tokens for call in calls), unit="tokens"))
        details[layout.name] = {
            purpose: sum(call.prefilled_tokens for call in calls if call.purpose == purpose) for purpose in APART
        }
        run.advance(layout.name, number + 1, len(LAYOUTS))
    return Result(figures=figures, counted=COUNTED, details=details)


async def _calls(run: Run, layout: Layout) -> list[Call]:
    async with AsyncExitStack() as stack:

        async def recorder(slots: int, adapter: str, slot_for: Mapping[str, int]) -> Recorder:
            engine = await start(
                run.data_dir,
                embeddings=False,
                slots=slots,
                context_tokens=CONTEXT_TOKENS,
                prompt_cache_mib=layout.cache_mib,
            )
            stack.push_async_callback(engine.close)
            return await stack.enter_async_context(Recorder(engine, adapter, slot_for).running())

        answering = await recorder(layout.slots, "summarize", layout.slot_for)
        rewriting = await recorder(2, "rewrite", {}) if layout.own_rewriter else None
        searched = Searched()
        served = Served(model=answering.model, url=answering.url, rewriter_url=rewriting.url if rewriting else "")
        ask = await stack.enter_async_context(SYSTEMS["threadwise"](served, searched))
        for turn, exchange in enumerate(conversation()[:TURNS]):
            answering.turn = turn
            if rewriting:
                rewriting.turn = turn
            searched.exchange = exchange
            await ask(exchange)
        return answering.calls
