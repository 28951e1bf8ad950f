"""The terminal channel with questions in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from adapters.jobs import Job
from adapters.ports import Inbound
from adapters.terminal import TerminalChannel
from core.errors import DataDirError
from tests.dialogues.conftest import Bot


async def piped(bot: Bot, said: str) -> tuple[bool, str]:
    out = io.StringIO()
    channel = TerminalChannel(bot.dispatcher, bot.store, stdin=io.StringIO(said), console=Console(file=out, width=200))
    return await channel.run(), out.getvalue()


async def test_a_question_that_cannot_be_stored_is_said_in_one_line_and_the_next_is_answered(
    bot: Bot, monkeypatch: pytest.MonkeyPatch
):
    bot.model.replies["generate"].extend(["It takes 0.8 L [1]."])

    admit, full = bot.store.jobs.admit, [True]

    async def full_once(inbound: Inbound) -> Job | None:
        if full.pop() if full else False:
            raise DataDirError("the disk is full: free some space, then ask again")
        return await admit(inbound)

    monkeypatch.setattr(bot.store.jobs, "admit", full_once)
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
    out = io.StringIO()
    said = io.StringIO("/rewrite\n")
    inbound = bot.inbound("What oil?", channel="chat")
    admitted = await bot.dispatcher.admit(inbound)
    assert admitted is not None
    assert admitted.job is not None
    bot.dispatcher.stop(admitted.job)
    await bot.dispatcher.ended(admitted.job)
    channel = TerminalChannel(bot.dispatcher, bot.store, stdin=said, console=Console(file=out, width=200))
    channel._thread = inbound.thread
    assert await channel.run()
    assert "Status:       stopped before it was searched" in out.getvalue()
    assert "Searched for: (not kept)" in out.getvalue()
    assert "failed" not in out.getvalue()
