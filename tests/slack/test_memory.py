"""What is remembered of people on Slack: told to themselves alone, in their own questions alone."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from adapters import about_me
from adapters.ports import Person
from adapters.slack import actions, buttons
from adapters.slack.rendering import TRY_AGAIN
from core.errors import ModelUnavailable
from tests.dialogues.test_memories import fallbacks
from tests.slack.conftest import AT, Quill, TypingModel
from tests.slack.test_actions import ours, shown_to, told
from tests.slack_server import ASKER, SECOND, TEAM, SlackServer

OIL = "How much oil does the Kestrel pump take?"
ANSWER = "It takes 0.8 L of oil [1]."
FEDORA = "I run Fedora on my laptop."
PERSON = Person(platform="slack", workspace=TEAM, id=ASKER)


@pytest.fixture
async def quill(quill: Quill) -> Quill:
    """One that remembers."""
    quill.remembers = True
    await quill.restart()
    return quill


async def asks(
    quill: Quill, said: str = "", *, user: str = ASKER, channel: str = "C1", thread: str | None = None, picks: str = ""
) -> str:
    """The prompt of an answer, after what the model picks of `said` is stored."""
    quill.model.replies["generate"].append(ANSWER)
    if picks:
        quill.model.replies["remember"].append(picks)
    await quill.hears(f"{AT} {said} {OIL}", channel, thread, user)
    await quill.memories.idle()
    return quill.asked()[-1]


async def recalls(quill: Quill, user: str = ASKER) -> str:
    return await told(quill, quill.slack.command(user, "C1", "/memory"))


async def forgets(quill: Quill, what: str, user: str = ASKER) -> str:
    return await told(quill, quill.slack.command(user, "C1", "/forget", what))


async def test_a_fact_is_told_in_its_authors_next_thread_and_in_nobody_elses(quill: Quill):
    await asks(quill, FEDORA, picks="1")
    assert f"&gt; {FEDORA}\n" not in await asks(quill)
    assert f"> {FEDORA}\n" in await asks(quill)
    assert "Fedora" not in await asks(quill, user=SECOND)
    assert "Fedora" not in await asks(quill, channel="C2")


def _move_facts(quill: Quill) -> None:
    """In a thread: the bot may be in the middle of a write, which it ends on the event loop."""
    with closing(sqlite3.connect(quill.path, timeout=30)) as database, database:
        database.execute("UPDATE facts SET workspace = 'T2'")


async def test_a_fact_is_told_in_no_other_workspace(quill: Quill):
    await asks(quill, FEDORA, picks="1")
    assert FEDORA in await asks(quill)
    await asyncio.to_thread(_move_facts, quill)
    assert FEDORA not in await asks(quill)
    assert await recalls(quill) == about_me.NOTHING
    assert "Removed 0 facts" in await forgets(quill, "me")
    assert list((await quill.store.facts.of(replace(PERSON, workspace="T2"))).values()) == [FEDORA]


async def test_what_is_said_in_private_is_told_in_no_channel_and_what_is_said_in_a_channel_is_told_in_private(
    quill: Quill,
):
    await asks(quill, FEDORA, channel="D1", picks="1")
    await asks(quill, "I run Debian at work.", picks="1")
    assert "Fedora" not in await asks(quill)
    private = await asks(quill, channel="D1")
    assert f"> {FEDORA}" in private
    assert "> I run Debian at work." in private


async def test_nothing_is_picked_of_a_file_or_of_what_somebody_else_said(slack: SlackServer, quill: Quill):
    quill.model.replies["generate"].extend([ANSWER] * 2)
    slack.says(ASKER, "D1", f"{FEDORA} {OIL}", files=[slack.file("a.txt", b"I run Arch.")], subtype="file_share")
    await quill.at_rest()
    root = slack.says(SECOND, "C1", f"I run Debian at work. {OIL}")
    await quill.hears(AT, thread=root)
    await quill.memories.idle()
    assert len(quill.asked()) == 2
    assert "Debian" in quill.asked()[-1]
    assert quill.model.asked("remember") == []


async def test_memory_and_forget_me_are_for_the_person_alone(slack: SlackServer, quill: Quill):
    assert await recalls(quill) == about_me.NOTHING
    await asks(quill, "We run Fedora & Debian on our laptops.", picks="1")
    await asks(quill, FEDORA, picks="1")
    newest, oldest = (await recalls(quill)).splitlines()
    assert newest.endswith(FEDORA)
    assert oldest.endswith("Fedora &amp; Debian on our laptops.")
    assert await recalls(quill, SECOND) == about_me.NOTHING
    number = newest.partition(" ")[0]
    assert await forgets(quill, f"me {number}", SECOND) == about_me.NO_SUCH
    assert await forgets(quill, f"me {number}") == f"Removed for good: {FEDORA}"
    assert await recalls(quill) == oldest
    assert "Removed 0 facts" in await forgets(quill, "me", SECOND)
    assert "Removed 1 fact about you" in await forgets(quill, " Me ")
    assert await recalls(quill) == about_me.NOTHING
    assert "on our laptops" not in await asks(quill)
    assert not slack.calls_of("chat.postEphemeral")


@pytest.mark.parametrize("what", ["everything", "me please", "me -1", "me 1 2", f"me {'9' * 30}"])
async def test_a_word_that_forget_does_not_know_removes_nothing(quill: Quill, what: str):
    await asks(quill, FEDORA, picks="1")
    assert await forgets(quill, what) == actions.FORGET_WHAT
    assert FEDORA in await recalls(quill)
    assert len(await quill.store.threads("slack", 9)) == 1


@pytest.mark.parametrize("what", ["me 0", "me 00", "me #0"])
async def test_zero_is_the_number_of_no_fact(quill: Quill, what: str):
    await asks(quill, FEDORA, picks="1")
    assert await forgets(quill, what) == about_me.NO_SUCH
    assert FEDORA in await recalls(quill)


async def test_what_is_being_picked_when_its_author_is_forgotten_does_not_come_back(slack: SlackServer, quill: Quill):
    quill.model.replies["generate"].append(ANSWER)
    quill.model.replies["remember"].append([0.5, "1"])
    thread = await quill.hears(f"{AT} {FEDORA} {OIL}")
    await slack.until(lambda: bool(quill.model.asked("remember")), 5)
    assert "Removed 0 facts" in await forgets(quill, "me")
    await quill.memories.idle()
    assert await recalls(quill) == about_me.NOTHING
    # Nor by a button of an answer from before.
    quill.model.replies["generate"].append(ANSWER)
    slack.clicks(ASKER, "C1", ours(slack, thread), TRY_AGAIN)
    await quill.at_rest()
    await quill.memories.idle()
    assert shown_to(slack, ASKER) == [buttons.ASKED]
    assert len(quill.model.asked("generate")) == 2
    assert len(quill.model.asked("remember")) == 1


@pytest.mark.parametrize("broken", ["picking", "storing", "recalling"])
async def test_the_answer_comes_whatever_of_the_memory_is_broken(
    slack: SlackServer, quill: Quill, model: TypingModel, broken: str, monkeypatch: pytest.MonkeyPatch
):
    async def fails(*arguments: object) -> None:
        raise RuntimeError("the table of facts cannot be used")

    stage = "recall" if broken == "recalling" else "remember"
    before = fallbacks(stage)
    model.replies["remember"].append(ModelUnavailable() if broken == "picking" else "1")
    if broken != "picking":
        monkeypatch.setattr(quill.store.facts, "told" if broken == "recalling" else "add", fails)
    await asks(quill, FEDORA)
    (thread,) = await quill.store.threads("slack", 9)
    assert slack.shown("C1", thread.key.thread)[-1].startswith("It takes 0.8 L")
    assert fallbacks(stage) == before + 1


async def test_switched_off_nothing_is_stored_and_the_commands_say_so_in_one_line(quill: Quill):
    quill.remembers = False
    await quill.restart()
    await asks(quill, FEDORA)
    assert quill.model.asked("remember") == []
    assert await quill.store.facts.of(PERSON) == {}
    assert await recalls(quill) == about_me.OFF
    assert await forgets(quill, "me") == about_me.OFF


@pytest.mark.parametrize("edited", [False, True])
async def test_what_was_said_in_a_question_that_was_answered_again_goes_with_its_message(
    slack: SlackServer, quill: Quill, edited: bool
):
    quill.model.replies["rewrite"].extend([OIL] * 3)
    await asks(quill)
    (known,) = await quill.store.threads("slack", 1)
    thread = known.key.thread
    await asks(quill, FEDORA, thread=thread, picks="1")
    said = (await quill.store.turns(known.key))[-1].message_id
    quill.model.replies["generate"].append(ANSWER)
    quill.model.replies["remember"].append("1")
    slack.clicks(ASKER, "C1", ours(slack, thread), TRY_AGAIN)
    await quill.at_rest()
    await quill.memories.idle()
    assert FEDORA in await recalls(quill)
    if edited:
        slack.edits("C1", said, f"{AT} {OIL}")
    else:
        slack.deletes("C1", said)
    await quill.at_rest()
    assert [turn.typed for turn in await quill.store.turns(known.key)] == [OIL, *([OIL, OIL] if edited else ["", ""])]
    assert await recalls(quill) == about_me.NOTHING
    assert "Fedora" not in await asks(quill, thread=thread)
    assert len(quill.asked()) == 4


async def test_who_deletes_the_message_that_opened_a_thread_may_still_begin_it_afresh_and_forget_it(
    slack: SlackServer, quill: Quill
):
    await asks(quill)
    (known,) = await quill.store.threads("slack", 1)
    thread = known.key.thread
    for user in (ASKER, SECOND):
        await asks(quill, thread=thread, user=user)
    slack.deletes("C1", thread)
    await quill.at_rest()
    assert (await quill.store.turns(known.key))[0].typed == ""
    for command in ("/reset", "/forget"):
        assert await told(quill, slack.command(SECOND, "C1", command)) == actions.NOT_YOURS
    assert await told(quill, slack.command(ASKER, "C1", "/reset")) == actions.RESET
    assert "3 questions" in await forgets(quill, "")
    assert await quill.store.threads("slack", 9) == []
