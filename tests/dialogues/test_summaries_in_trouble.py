"""Summaries that fail, hang, come late or are cut short: no turn is lost, and no answer waits."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from adapters.store import SqlConversationStore
from core.errors import DataDirError, ModelUnavailable
from core.pipeline import Limits
from tests.dialogues.chatter import (
    Chatter,
    chatting,
    marks,
    new_messages,
    question,
    questions,
    restarted,
    stored,
    whole,
)

FAILED = ModelUnavailable()


def fallbacks(reason: str) -> float:
    labels = {"stage": "summarize", "reason": reason}
    return REGISTRY.get_sample_value("rag_stage_fallbacks_total", labels) or 0.0


async def test_nothing_is_dropped_when_its_summary_fails(store: SqlConversationStore, caplog: pytest.LogCaptureFixture):
    """B46."""
    model = Chatter()
    model.replies["summarize"].append(FAILED)
    bot, before = chatting(store, model), fallbacks("ModelUnavailable")
    await bot.hears_at_leisure(*questions(1, 9))
    assert (len(model.asked("summarize")), await stored(bot)) == (1, (0, ""))
    assert len(await store.turns(bot.inbound("").thread)) == 9
    assert fallbacks("ModelUnavailable") == before + 1
    assert "summarize fell back: ModelUnavailable" in caplog.text
    assert await bot.hears(question(10)) == "It takes 0.8 L [1]."
    assert marks(whole(model.asked("generate")[-1])) == list(range(1, 11))
    await bot.summaries.idle()
    assert marks(new_messages(model.asked("summarize")[-1])) == list(range(1, 7))
    assert await stored(bot) == (6, "They talked about Kestrel oil.")


@pytest.mark.parametrize("garbage", ["", " \n", "<think>They want notes", "I'm sorry, but I can't help with that."])
async def test_garbage_does_not_replace_what_the_conversation_knew(store: SqlConversationStore, garbage: str):
    """B46."""
    model = Chatter()
    bot = chatting(store, model)
    await bot.hears_at_leisure(*questions(1, 9))
    model.replies["summarize"].append(garbage)
    await bot.hears_at_leisure(*questions(10, 14))
    assert len(model.asked("summarize")) == 2
    assert await stored(bot) == (5, "They talked about Kestrel oil.")
    assert marks(whole(model.asked("generate")[-1])) == list(range(6, 15))


async def test_a_backlog_is_worked_off_in_pieces_of_a_window(store: SqlConversationStore):
    """B46, B48: the model would not summarize for a while."""
    model = Chatter()
    model.replies["summarize"].extend([FAILED] * 12)
    bot = chatting(store, model)
    await bot.hears_at_leisure(*questions(1, 20))
    assert (await stored(bot))[0] == 0
    await bot.hears_at_leisure(question(21))
    pieces = [marks(new_messages(request)) for request in model.asked("summarize")[12:]]
    assert pieces == [list(range(1, 9)), list(range(9, 17))]
    assert (await stored(bot))[0] == 16


async def test_an_answer_is_not_held_up_by_a_summary_and_there_is_one_at_a_time(store: SqlConversationStore):
    """B46."""
    model = Chatter()
    bot = chatting(store, model)
    model.free.clear()
    async with asyncio.timeout(10):
        for text in questions(1, 12):
            assert await bot.hears(text) == "It takes 0.8 L [1]."
    assert len(model.asked("summarize")) == 1
    assert marks(whole(model.asked("generate")[-1])) == list(range(1, 13))
    model.free.set()
    await bot.summaries.idle()
    assert [marks(new_messages(r)) for r in model.asked("summarize")] == [[1, 2, 3, 4, 5]]
    await bot.hears_at_leisure(*questions(13, 14))
    assert marks(new_messages(model.asked("summarize")[-1])) == [6, 7, 8, 9, 10]


async def test_a_summary_is_not_begun_while_a_question_of_its_thread_waits(store: SqlConversationStore):
    model = Chatter()
    bot = chatting(store, model)
    await bot.hears_at_leisure(*questions(1, 8))
    await asyncio.gather(*(bot.hears(text) for text in questions(9, 11)))
    await bot.summaries.idle()
    assert [request.purpose for request in model.requests[-7:]] == [*["rewrite", "generate"] * 3, "summarize"]


async def test_a_summary_that_hangs_is_given_up_at_its_deadline(store: SqlConversationStore):
    model = Chatter()
    bot, before = chatting(store, model, Limits(summarize_seconds=0.1)), fallbacks("timeout")
    model.free.clear()
    async with asyncio.timeout(10):
        await bot.hears_at_leisure(*questions(1, 9))
    assert (fallbacks("timeout"), await stored(bot)) == (before + 1, (0, ""))


async def test_a_shutdown_ends_a_running_summary_and_the_next_start_makes_it_again(tmp_path: Path):
    """B46, B48: nothing is lost between the model's reply and the store."""
    model = Chatter()
    bot = chatting(await SqlConversationStore.open(tmp_path / "conversations.db"), model)
    model.free.clear()
    for text in questions(1, 9):
        await bot.hears(text)
    await asyncio.wait_for(model.begun.wait(), 5)
    async with asyncio.timeout(20):  # the model would not end
        await bot.summaries.close()
    assert not bot.summaries._running
    bot = await restarted(bot)
    model.free.set()
    assert await stored(bot) == (0, "")
    await bot.hears_at_leisure(question(10))
    assert marks(whole(model.asked("generate")[-1])) == list(range(1, 11))
    assert marks(new_messages(model.asked("summarize")[-1])) == [1, 2, 3, 4, 5, 6]
    await bot.store.close()


async def test_what_was_forgotten_while_it_was_summarized_does_not_come_back(store: SqlConversationStore):
    model = Chatter(lambda request: f"Kestrel: {new_messages(request)}")
    bot = chatting(store, model)
    model.free.clear()
    for text in questions(1, 9):
        await bot.hears(text)
    await asyncio.wait_for(model.begun.wait(), 5)
    assert await store.forget(bot.inbound("").thread) == 9
    await bot.hears(question(50))
    model.free.set()
    await bot.summaries.idle()
    assert await stored(bot) == (0, "")
    await bot.hears_at_leisure(question(51))
    assert marks(whole(model.asked("generate")[-1])) == [50, 51]


async def test_a_summary_that_cannot_be_stored_is_told_and_made_again(
    store: SqlConversationStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def full(*_: object) -> bool:
        raise DataDirError("the disk is full: free some space")

    bot, before = chatting(store, Chatter()), fallbacks("DataDirError")
    monkeypatch.setattr(store, "condense", full)
    await bot.hears_at_leisure(*questions(1, 9))
    assert fallbacks("DataDirError") == before + 1
    assert "the disk is full" in caplog.text
    monkeypatch.undo()
    await bot.hears_at_leisure(question(10))
    assert (await stored(bot))[0] == 6
