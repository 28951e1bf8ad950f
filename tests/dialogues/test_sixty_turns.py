"""A conversation of sixty turns on a real database: what is said at its start is known at its end."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from adapters.store import SqlConversationStore
from core.pipeline import Limits
from core.types import ChatRequest, Delta
from core.window import MARGIN, estimate_tokens
from tests.dialogues.chatter import (
    Chatter,
    chatting,
    earlier_notes,
    is_safe_for_gemma,
    marks,
    new_messages,
    question,
    restarted,
    stored,
    whole,
)

TURNS = 60
FACT = "ours bears the number ZEBRA-2"
UNKNOWN = "Nobody has told me."
NONCE = re.compile(r"(?<=>>> )[a-z]{8}")
ROOMY, TIGHT = Limits(), Limits(context_tokens=1_800, answer_tokens=256)


def notes(request: ChatRequest) -> str:
    """The fact, as long as the request holds it, and no more: notes are written anew each time."""
    read = earlier_notes(request) + new_messages(request)
    return ("They said that ours bears the number ZEBRA-2. " if FACT in read else "") + "They talked about Kestrel oil."


class Recalling(Chatter):
    """Tells the number if its prompt does."""

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        if request.purpose == "generate" and "which number" in request.messages[-1].content:
            self.replies["generate"].append("ZEBRA-2 [1]." if FACT in whole(request) else UNKNOWN)
        async with aclosing(super().stream(request)) as stream:
            async for delta in stream:
                yield delta


@dataclass(kw_only=True)
class Told:
    """What became of a conversation."""

    model: Chatter
    covered: list[int] = field(default_factory=list)
    """How many turns the summary held before each turn."""
    summary: str = ""
    last: str | None = None
    """The answer to the last question."""

    def prompts(self) -> list[str]:
        """Of the answers, without what is fresh in each."""
        return [NONCE.sub("", whole(request)) for request in self.model.asked("generate")]


async def converse(
    path: Path, *, limits: Limits = ROOMY, restart_after: int = 0, summaries: bool = True, more: str = ""
) -> Told:
    told = Told(model=Recalling(notes if summaries else lambda _: ""))
    bot = chatting(await SqlConversationStore.open(path / "conversations.db"), told.model, limits)
    for n in range(1, TURNS + 1):
        told.covered.append((await stored(bot))[0] if n > 1 else 0)
        asked = {2: f" I ask since {FACT}.", TURNS: " And which number does ours bear?"}.get(n, more)
        told.last = await bot.hears(question(n, asked))
        await bot.summaries.idle()
        if n == restart_after:
            bot = await restarted(bot, limits)
    told.summary = (await stored(bot))[1]
    await bot.close()
    await bot.store.close()
    return told


@pytest.mark.parametrize("restart_after", [0, 30])
async def test_each_of_sixty_turns_is_in_the_window_or_in_the_summary_and_in_one_of_them(
    tmp_path: Path, restart_after: int
):
    told = await converse(tmp_path, restart_after=restart_after)
    prompts = told.model.asked("generate")
    assert len(prompts) == TURNS
    for n, (prompt, covered) in enumerate(zip(prompts, told.covered, strict=True), 1):
        assert marks(whole(prompt)) == list(range(covered + 1, n + 1))
        assert is_safe_for_gemma(prompt)
    condensed = [mark for request in told.model.asked("summarize") for mark in marks(new_messages(request))]
    assert condensed == list(range(1, len(condensed) + 1))
    assert len(condensed) >= max(told.covered) > TURNS - 10


@pytest.mark.parametrize(("limits", "more"), [(ROOMY, ""), (TIGHT, " It hums and drips, and nobody knows why." * 9)])
async def test_a_fact_of_the_second_turn_is_told_at_the_sixtieth_and_no_prompt_is_over_the_budget(
    tmp_path: Path, limits: Limits, more: str
):
    told = await converse(tmp_path, limits=limits, more=more)
    assert told.last is not None
    assert told.last.startswith("ZEBRA-2")
    assert FACT in told.summary
    budget = limits.context_tokens * (1 - MARGIN) - limits.answer_tokens
    sizes = [estimate_tokens(prompt) for prompt in told.prompts()]
    assert max(sizes) <= budget
    if more:
        assert max(sizes) > 0.7 * budget, "the budget was never put to the test"


async def test_without_summaries_the_fact_is_lost(tmp_path: Path):
    """So the test above does show that the summary carries it."""
    told = await converse(tmp_path, summaries=False)
    assert told.last == UNKNOWN
    assert told.summary == ""


async def test_a_restart_in_the_middle_changes_no_prompt(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole_life = await converse(tmp_path / "a")
    two_lives = await converse(tmp_path / "b", restart_after=30)
    assert two_lives.prompts() == whole_life.prompts()
    assert two_lives.summary == whole_life.summary
    assert two_lives.last == whole_life.last
