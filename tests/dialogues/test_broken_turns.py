"""Turns that fail, stop or come again: what of them later prompts hold, and what the database does."""

from __future__ import annotations

import asyncio

from adapters import notices
from adapters.ports import Phase, Post, TurnState
from adapters.present import AT_LIMIT, CARRIED, CUT_OFF, NO_SOURCE, remarks, source_lines
from adapters.store import SqlConversationStore
from core.errors import ModelCut, ModelRejected
from core.outcome import MODEL_DOWN, MODEL_DOWN_NOTHING, NO_ANSWER
from core.types import Answer, QueryStatus
from tests.dialogues.chatter import Chatter, chatting, is_safe_for_gemma, question, questions, restarted, whole
from tests.dialogues.conftest import Bot
from tests.fakes import ScriptedModel
from tests.wall import Wall

OIL = "What oil does the Kestrel take?"
OTHER = "and the other one?"


class RemarkingWall(Wall):
    """A channel whose messages end with remarks and sources."""

    def bodies(self, answer: Answer) -> list[str]:
        return ["\n".join([answer.text, *remarks(answer), "Sources:", *source_lines(answer.citations)])]


class WallWithAnEye(Wall):
    def __init__(self) -> None:
        super().__init__()
        self.third = asyncio.Event()

    async def edit(self, message_id: str, post: Post) -> None:
        await super().edit(message_id, post)
        if len(self.seen(Phase.GROWING)) == 3:
            self.third.set()


def slow(*pieces: str) -> ScriptedModel:
    class Slow(ScriptedModel):
        async def stream(self, request):
            async for delta in super().stream(request):
                yield delta
                await asyncio.sleep(0.05)

    return Slow(generate=[list(pieces), "The Heron valve."], rewrite=["Kestrel oil"])


async def stopped_at_the_third_piece(bot: Bot) -> str:
    """What was to be seen of the answer when its asker stopped it."""
    bot.dispatcher.attach(wall := WallWithAnEye())
    inbound = bot.inbound(OIL)
    admitted = await bot.dispatcher.admit(inbound)
    assert admitted is not None
    assert admitted.job is not None
    (turn,) = await bot.store.turns(inbound.thread)
    assert (turn.typed, turn.state) == (OIL, TurnState.ASKED)
    await asyncio.wait_for(wall.third.wait(), 5)
    bot.dispatcher.stop(admitted.job)
    await bot.dispatcher.ended(admitted.job)
    return wall.final(inbound.message_id)


async def test_a_stopped_answer_is_kept_marked_and_the_follow_up_knows_its_question(store: SqlConversationStore):
    """B52: the question is in the store before the model is asked, and what was shown of the answer after."""
    bot = chatting(store, slow(*["Change the ", "filter every ", "ninety days ", "or so "] * 20))
    shown = await stopped_at_the_third_piece(bot)
    (turn,) = await store.turns(bot.inbound("").thread)
    assert (turn.typed, turn.answered, turn.state) == (OIL, shown, TurnState.INCOMPLETE)
    assert shown.startswith("Change the filter every")
    await bot.hears(OTHER)
    (rewrite,) = bot.model.asked("rewrite")
    assert OIL in whole(rewrite)
    prompt = bot.model.asked("generate")[-1]
    assert is_safe_for_gemma(prompt)
    assert OIL in prompt.messages[0].content
    assert prompt.messages[1].content == f"{shown} …"
    await bot.close()


async def test_a_cut_off_answer_is_history_without_its_mark(bot: Bot):
    """B28, B52, B54."""
    bot.model.replies["generate"].extend([["Change it every ", ModelCut()], "Every 90 days [1]."])
    bot.model.replies["rewrite"].append("Kestrel filter interval")
    await bot.hears(OIL)
    (turn,) = await bot.store.turns(bot.inbound("").thread)
    assert (turn.state, turn.answered) == (TurnState.INCOMPLETE, "Change it every")
    await bot.hears(OTHER)
    assert [m.content for m in bot.model.requests[-1].messages[1:2]] == ["Change it every …"]
    assert is_safe_for_gemma(bot.model.requests[-1])
    assert all(CUT_OFF not in whole(request) for request in bot.model.requests)


async def test_a_question_that_was_refused_does_not_break_the_next_one(bot: Bot):
    """B53: no lone question before another, and no completed pair for the rewriter."""
    bot.model.replies["generate"].extend([ModelRejected(), "It takes 0.8 L [1]."])
    assert str(await bot.hears("What oil does the poisoned Kestrel take?")).startswith(MODEL_DOWN)
    assert await bot.hears(OIL) == "It takes 0.8 L [1]."
    prompt = bot.model.asked("generate")[-1]
    assert is_safe_for_gemma(prompt)
    assert "poisoned" not in whole(prompt)
    assert bot.model.asked("rewrite") == []
    refused, answered = await bot.store.turns(bot.inbound("").thread)
    assert (refused.state, answered.state) == (TurnState.FAILED, TurnState.ANSWERED)
    assert answered.query_status is QueryStatus.SKIPPED


async def test_what_the_bot_says_of_itself_is_in_no_later_request(store: SqlConversationStore):
    """B54: error texts, placeholders, marks and source footers; numbers of passages are in no summary."""
    model = Chatter()
    model.replies["generate"].extend(
        [
            ModelRejected(),
            ["It takes ", ModelCut()],
            "",
            "It takes 0.8 L [1].\n\nSources:\n[1] Page d1 (d1.md)",
            "No source.",
        ]
    )
    bot = chatting(store, model)
    bot.wall = RemarkingWall()
    bot.dispatcher.attach(bot.wall)
    shown = []
    for n in range(1, 15):
        shown.append(str(await bot.hears(question(n))))
        await bot.summaries.idle()
    assert notices.WORKING in bot.wall.seen(Phase.WAITING)
    for words in (MODEL_DOWN, CUT_OFF, NO_ANSWER, "(d1.md)", NO_SOURCE):
        assert any(words in text for text in shown), words
    unwanted = (MODEL_DOWN, MODEL_DOWN_NOTHING, NO_ANSWER, notices.WORKING, CUT_OFF, AT_LIMIT, NO_SOURCE, CARRIED)
    assert {request.purpose for request in model.requests} == {"rewrite", "generate", "summarize"}
    for request in model.requests:
        said = whole(request)
        assert not [words for words in (*unwanted, "Sources:", "d1.md") if words in said], request.purpose
        assert request.purpose != "summarize" or "[1]" not in said


async def test_three_turns_a_restart_and_one_turn_are_eight_messages_in_order(store: SqlConversationStore):
    """B55: the loaded history was saved again with each turn."""
    bot = chatting(store, Chatter())
    await bot.hears_at_leisure(*questions(1, 3))
    again = await restarted(bot)
    await again.hears(question(4))
    turns = await again.store.turns(again.inbound("").thread)
    assert [turn.typed for turn in turns] == questions(1, 4)
    assert [turn.answered for turn in turns] == ["It takes 0.8 L [1]."] * 4
    assert len({turn.message_id for turn in turns}) == len({turn.id for turn in turns}) == 4
    assert [turn.seq for turn in turns] == [1, 2, 3, 4]
    await again.store.close()
