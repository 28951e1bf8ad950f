"""The terminal channel with questions in a pipe."""

from __future__ import annotations

import asyncio
import io

import pytest
from rich.console import Console

from adapters.dispatcher import Dispatcher
from adapters.terminal import TerminalChannel
from core.errors import DataDirError
from core.window import MAX_TURNS
from tests.dialogues.conftest import Bot, RecordedReply


async def piped(bot: Bot, said: str) -> tuple[bool, str]:
    out = io.StringIO()
    channel = TerminalChannel(bot.dispatcher, bot.store, stdin=io.StringIO(said), console=Console(file=out, width=200))
    return await channel.run(), out.getvalue()


async def test_a_question_that_cannot_be_stored_is_said_in_one_line_and_the_next_is_answered(bot: Bot):
    bot.model.replies["generate"].extend(["It takes 0.8 L [1]."])

    class FullOnce:
        """The store, on a disk that is full for the first question."""

        full = True

        async def ask(self, inbound):
            if self.full:
                self.full = False
                raise DataDirError("the disk is full: free some space, then ask again")
            return await bot.store.ask(inbound)

        finish, history = bot.store.finish, bot.store.history

    answer = bot.dispatcher._answer
    bot.dispatcher = Dispatcher(FullOnce(), answer, MAX_TURNS)
    ok, out = await piped(bot, "What oil does the Kestrel take?\nWhat oil does the Kestrel take?\n")
    assert not ok
    assert out.count("the disk is full: free some space") == 1
    assert "It takes 0.8 L [1]." in out


async def test_blank_lines_are_no_questions_and_commands_work_in_any_case(bot: Bot):
    ok, out = await piped(bot, "\n   \n/HELP\n/Quit\nnever\n")
    assert ok
    assert "/forget" in out
    assert bot.model.requests == []


async def test_rewrite_shows_why_the_typed_words_were_searched(bot: Bot):
    bot.model.replies["generate"].extend(["It takes 0.8 L [1].", "Every 90 days [1]."])
    bot.model.replies["rewrite"].extend(["Sorry, I can't."])
    _, out = await piped(bot, "What oil does the Kestrel take?\nand the filter?\n/rewrite\n")
    assert "Searched for: and the filter?" in out
    assert "rejected" in out
    assert "(refusal)" in out


async def test_an_answer_without_a_source_says_so_and_one_cut_off_too(bot: Bot):
    bot.model.replies["generate"].extend(["Yes."])
    _, out = await piped(bot, "What oil does the Kestrel take?\n")
    assert "Yes.\n(no source was cited: check this answer)" in out


async def test_a_question_stopped_before_its_answer_is_called_stopped_and_not_failed(bot: Bot):
    async def never(question, show):
        raise asyncio.CancelledError

    bot.dispatcher = Dispatcher(bot.store, never, MAX_TURNS)
    out = io.StringIO()
    said = io.StringIO("/rewrite\n")
    channel = TerminalChannel(bot.dispatcher, bot.store, stdin=said, console=Console(file=out, width=200))
    with pytest.raises(asyncio.CancelledError):
        await bot.dispatcher.submit(bot.inbound("What oil?", channel="chat"), RecordedReply())
    channel._thread = bot.inbound("", channel="chat").thread
    assert await channel.run()
    assert "Status:       stopped before it was searched" in out.getvalue()
    assert "Searched for: (not kept)" in out.getvalue()
    assert "failed" not in out.getvalue()
