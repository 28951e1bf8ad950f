"""What people say and what they are answered, through the dispatcher and a real database."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from adapters.store import SqlConversationStore
from core.errors import ModelRejected
from core.outcome import MODEL_DOWN, NO_ANSWER
from core.types import QueryStatus
from tests.dialogues.conftest import Bot
from tests.fakes import HERON, KESTREL, LEAVE, ScriptedModel, ScriptedRetriever

OIL = "What oil does the Kestrel take?"
FILTER = "and how often the filter?"


def script(bot: Bot, *, rewrite=(), generate=()):
    bot.model.replies["rewrite"].extend(rewrite)
    bot.model.replies["generate"].extend(generate)


async def test_a_follow_up_is_rewritten_and_answered_in_the_light_of_the_thread(bot: Bot):
    script(bot, generate=["It takes 0.8 L [1].", "Every 90 days [1]."], rewrite=["Kestrel filter interval"])
    assert await bot.hears(OIL) == "It takes 0.8 L [1]."
    assert await bot.hears(FILTER) == "Every 90 days [1]."
    first, second = await bot.store.turns(bot.inbound("").thread)
    assert (first.query_status, first.searched) == (QueryStatus.SKIPPED, OIL)
    assert (second.typed, second.searched, second.answered) == (FILTER, "Kestrel filter interval", "Every 90 days [1].")
    assert [c.source for c in second.citations] == ["d1.md"]
    rewrite, generate = bot.model.asked("rewrite")[-1], bot.model.asked("generate")[-1]
    assert OIL in rewrite.messages[0].content
    assert "0.8 L" in rewrite.messages[0].content
    assert generate.messages[-1].content.endswith(FILTER)


async def test_the_next_turns_history_shows_what_was_typed_and_never_the_rewrite(bot: Bot):
    script(
        bot,
        generate=["0.8 L [1].", "Every 90 days [1].", "6 bar [1]."],
        rewrite=["Kestrel filter interval", "Kestrel rated pressure"],
    )
    for text in (OIL, FILTER, "and the pressure?"):
        await bot.hears(text)
    for request in bot.model.asked("generate"):
        assert all("Kestrel filter interval" not in message.content for message in request.messages)
    assert FILTER in bot.model.asked("rewrite")[-1].messages[0].content


async def test_a_turn_that_failed_is_no_history_and_counts_as_no_first_pair(bot: Bot):
    script(bot, generate=[ModelRejected(), "It takes 0.8 L [1]."])
    assert str(await bot.hears(OIL)).startswith(MODEL_DOWN)
    assert await bot.hears(OIL) == "It takes 0.8 L [1]."
    assert bot.model.asked("rewrite") == []
    assert MODEL_DOWN not in bot.model.requests[-1].messages[0].content


async def test_a_blank_reply_does_not_poison_the_thread(bot: Bot):
    script(bot, generate=["", "Sources: [1]", "\u200b", "It takes 0.8 L [1]."])
    assert [await bot.hears(OIL) for _ in range(4)] == [NO_ANSWER, NO_ANSWER, NO_ANSWER, "It takes 0.8 L [1]."]
    assert all(message.content.strip() for message in bot.model.requests[-1].messages)


async def test_a_message_that_comes_twice_is_answered_once(bot: Bot):
    script(bot, generate=["It takes 0.8 L [1]."])
    assert await bot.hears(OIL, id_="same") == "It takes 0.8 L [1]."
    assert await bot.hears(OIL, id_="same") is None
    assert len(bot.model.requests) == 1


async def test_two_messages_in_one_thread_are_answered_in_order_and_another_thread_is_not_held_up(bot: Bot):
    started: list[str] = []

    class Timed(ScriptedModel):
        async def stream(self, request):
            started.append(request.messages[-1].content.rsplit("Question: ")[-1])
            await asyncio.sleep(0.1)
            async for delta in super().stream(request):
                yield delta

    bot = Bot(bot.store, Timed(generate=["0.8 L [1]."] * 3, rewrite=["Kestrel filter interval"]), bot.retriever)
    replies = await asyncio.gather(
        bot.hears(OIL, "t1"), bot.hears(FILTER, "t1"), bot.hears("At what pressure does the Heron valve open?", "t2")
    )
    assert all(replies)
    assert set(started[:2]) == {OIL, "At what pressure does the Heron valve open?"}
    assert "0.8 L" in bot.model.asked("rewrite")[0].messages[0].content
    async with asyncio.timeout(5):
        while len(bot.dispatcher._lanes) or bot.dispatcher._tickets or bot.gpu.jobs:  # noqa: ASYNC110 - tells of nothing
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "other",
    [{"thread": "t2"}, {"channel": "c2"}, {"workspace": "w2"}, {"platform": "slack"}],
    ids=lambda o: next(iter(o)),
)
async def test_what_is_said_in_one_conversation_is_in_no_prompt_of_another(bot: Bot, other: dict[str, str]):
    script(bot, generate=["Noted.", "I could not find this in the documents."])
    await bot.hears("My Kestrel code is ZEBRA-9.")
    await bot.hears("What oil is the code?", **other)
    last = bot.model.requests[-1]
    assert last.purpose == "generate"
    assert all("ZEBRA-9" not in message.content for message in last.messages)


async def test_a_conversation_goes_on_after_a_restart(bot: Bot, tmp_path: Path):
    script(bot, generate=["It takes 0.8 L [1]."])
    await bot.hears(OIL)
    await bot.store.close()
    store = await SqlConversationStore.open(tmp_path / "conversations.db")
    try:
        model = ScriptedModel(generate=["Every 90 days [1]."], rewrite=["Kestrel filter interval"])
        again = Bot(store, model, ScriptedRetriever(KESTREL, HERON, LEAVE))
        assert await again.hears(FILTER, id_="later") == "Every 90 days [1]."
        assert "0.8 L" in model.asked("rewrite")[0].messages[0].content
    finally:
        await store.close()
