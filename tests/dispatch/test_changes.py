"""Questions that their askers edit or delete (class J): never answered twice, never remembered."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from adapters.jobs import Edited
from adapters.ports import Person, Phase, Readers, TurnState
from core.types import Turn
from tests.dispatch.conftest import Desk, MakeDesk, message, opened, seen

BADGE = "My badge is Quokka-5512."


def on_disk(desk: Desk) -> bool:
    """Whether any file has it. Four digits alone are there by chance: in times, and in the names of processes."""
    return b"Quokka" in b"".join(file.read_bytes() for file in desk.store.database.path.parent.iterdir())


def held(desk: Desk, text: str = "5512") -> bool:
    """Whether the newest question to the model has it anywhere."""
    question = desk.questions[-1]
    return text in question.summary + "".join(turn.question + turn.answer + turn.searched for turn in question.history)


class Gate:
    """An answer that takes as long as the test wants."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.go, self.cancelled = desk, asyncio.Event(), 0
        desk.answering = self

    async def __call__(self, question, show) -> str:
        await show("half")
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return f"re {question.text}"

    async def reached(self, times: int = 1) -> None:
        await self.desk.until(lambda: len(self.desk.asked) == times)


async def test_a_deleted_question_is_in_no_later_prompt(desk: Desk):
    """B98."""
    said = message("1", BADGE)
    await desk.hears(said)
    await desk.dispatcher.deleted(said.thread, "1")
    for id_ in ("2", "3"):
        await desk.hears(message(id_))
        assert not held(desk)
    turn = await desk.turn(said)
    assert (turn.typed, turn.answered, turn.author, turn.author_id) == ("", "", "", "")
    assert turn.state is TurnState.DELETED
    assert not on_disk(desk)


async def test_a_deleted_question_is_in_the_next_prompt_if_nobody_deletes_it(desk: Desk):
    """The proof that the test above sees it."""
    await desk.hears(message("1", BADGE))
    await desk.hears(message("2"))
    assert held(desk)
    assert on_disk(desk)


async def test_a_question_deleted_while_it_waits_is_never_asked_and_its_message_is_gone(desk: Desk):
    gate = Gate(desk)
    first = await desk.admits(message("1"))
    await gate.reached()
    second = await desk.admits(message("2", BADGE))
    await desk.until(lambda: bool(seen(desk.wall, "2")))
    await desk.dispatcher.deleted(message("2").thread, "2")
    gate.go.set()
    await desk.ends(first, second)
    await desk.until(lambda: not seen(desk.wall, "2"))
    assert desk.asked == ["question 1"]
    assert (await desk.states())["2"] == "cancelled"


async def test_a_question_deleted_while_it_is_answered_stops_the_model_and_takes_the_message_away(desk: Desk):
    """B98, O8."""
    gate = Gate(desk)
    job = await desk.admits(message("1", BADGE))
    await gate.reached()
    await desk.until(lambda: bool(desk.wall.seen(Phase.GROWING)))
    await desk.dispatcher.deleted(message("1").thread, "1")
    await desk.ends(job)
    await desk.until(lambda: not seen(desk.wall, "1"))
    assert gate.cancelled == 1
    gate.go.set()
    await desk.hears(message("2"))
    assert not held(desk)


async def test_a_deletion_in_the_middle_of_a_heartbeat_stops_the_model_too(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    """The heartbeat has extended the leases, then comes the deletion, then it takes over what is free."""
    gate = Gate(desk)
    job = await desk.admits(message("1", BADGE))
    await gate.reached()
    extend = desk.store.jobs.extend

    async def then_deleted() -> set[int]:
        ours = await extend()
        await desk.store.changes.delete(message("1").thread, "1")
        return ours

    monkeypatch.setattr(desk.store.jobs, "extend", then_deleted)
    await desk.ends(job)
    await desk.until(lambda: not seen(desk.wall, "1"))
    assert gate.cancelled == 1


async def test_another_question_that_is_being_answered_begins_anew_without_what_was_deleted(desk: Desk):
    await desk.hears(message("1", BADGE))
    gate = Gate(desk)
    job = await desk.admits(message("2"))
    await gate.reached(2)
    assert held(desk)
    await desk.dispatcher.deleted(message("1").thread, "1")
    await gate.reached(3)
    assert not held(desk)
    gate.go.set()
    await desk.ends(job)
    assert seen(desk.wall, "2") == [("re question 2", Phase.FINAL)]
    assert await desk.sql("SELECT attempts FROM jobs ORDER BY id DESC LIMIT 1") == [(1,)], "that was no failure"


async def test_a_deletion_that_comes_before_its_message_is_kept_in_mind(desk: Desk):
    """F2."""
    said = message("1", BADGE)
    await desk.dispatcher.deleted(said.thread, "1")
    assert await desk.dispatcher.admit(said) is None
    assert desk.asked == []


async def test_a_summary_that_covers_a_deleted_question_is_made_anew_without_it(make_desk: MakeDesk):
    """B98: it was already under the summary."""
    asked: list[str] = []

    async def summarize(earlier: str, turns: list[Turn]) -> str:
        asked.append(earlier + " ".join(turn.question for turn in turns))
        return f"They said: {asked[-1]}"

    desk = await make_desk(summaries=summarize)
    await desk.dispatcher.start()
    said = message("1", BADGE)
    for id_ in range(1, 12):
        await desk.hears(message(str(id_), BADGE if id_ == 1 else ""))
        await desk.summaries.idle()
    backlog = await desk.store.backlog(said.thread)
    assert backlog is not None
    assert "5512" in backlog.summary
    before = len(asked)
    await desk.dispatcher.deleted(said.thread, "1")
    await desk.summaries.idle()
    await desk.hears(message("12"))
    assert not held(desk)
    assert desk.questions[-1].summary or len(desk.questions[-1].history) == 10
    assert not [text for text in asked[before:] if "5512" in text]
    backlog = await desk.store.backlog(said.thread)
    assert backlog is not None
    assert "5512" not in backlog.summary


async def test_a_summary_that_is_being_made_of_a_deleted_question_is_not_used(make_desk: MakeDesk):
    go, seen_by_model = asyncio.Event(), asyncio.Event()
    first = [True]

    async def summarize(earlier: str, turns: list[Turn]) -> str:
        if first.pop() if first else False:
            seen_by_model.set()
            await go.wait()
        return " ".join(turn.question for turn in turns)

    desk = await make_desk(summaries=summarize)
    await desk.dispatcher.start()
    said = message("1", BADGE)
    for id_ in range(1, 10):
        await desk.hears(message(str(id_), BADGE if id_ == 1 else ""))
    await seen_by_model.wait()
    await desk.dispatcher.deleted(said.thread, "1")
    go.set()
    await desk.summaries.idle()
    backlog = await desk.store.backlog(said.thread)
    assert backlog is not None
    assert "5512" not in backlog.summary + "".join(turn.question for _, turn in backlog.turns)


async def test_an_edit_of_a_question_that_waits_is_what_is_answered(desk: Desk):
    gate = Gate(desk)
    first = await desk.admits(message("1"))
    await gate.reached()
    second = await desk.admits(message("2", "What about the vlave?"))
    edited = await desk.dispatcher.edited(message("2", "What about the valve?"))
    assert edited is Edited.REPLACED
    gate.go.set()
    await desk.ends(first, second)
    assert desk.asked == ["question 1", "What about the valve?"]
    assert len(opened(desk.wall)) == 2


async def test_an_edit_of_a_question_that_is_being_answered_begins_its_answer_anew(desk: Desk):
    """The answer to the old words must not be stored beside the new ones."""
    gate = Gate(desk)
    said = message("1", "What about the vlave?")
    job = await desk.admits(said)
    await gate.reached()
    assert await desk.dispatcher.edited(message("1", "What about the valve?")) is Edited.REPLACED
    await gate.reached(2)
    gate.go.set()
    await desk.ends(job)
    assert seen(desk.wall, "1") == [("re What about the valve?", Phase.FINAL)]
    turn = await desk.turn(said)
    assert (turn.typed, turn.searched, turn.answered) == (
        "What about the valve?",
        "What about the valve?",
        "re What about the valve?",
    )
    assert await desk.sql("SELECT attempts FROM jobs") == [(1,)], "that was no failure"


async def test_an_edit_of_an_answered_question_is_remembered_and_not_answered_again(desk: Desk):
    """F2: the channel may offer to."""
    said = message("1", BADGE)
    desk.answering = lambda question, show: asyncio.sleep(0, "Noted.")
    await desk.hears(said)
    assert await desk.dispatcher.edited(replace(said, text="My badge is gone.")) is Edited.STORED
    assert await desk.dispatcher.admit(replace(said, text="My badge is gone.")) is None
    assert desk.asked == [BADGE]
    await desk.hears(message("2"))
    assert desk.questions[-1].history[0].question == "My badge is gone."
    assert not held(desk)


@pytest.mark.parametrize("text", [BADGE, "something else"])
async def test_edits_without_a_change_or_of_somebody_elses_message_are_none_of_ours(desk: Desk, text: str):
    """Previews of links are edits, too."""
    assert await desk.dispatcher.edited(message("7", text)) is Edited.UNKNOWN
    await desk.hears(message("1", BADGE))
    assert await desk.dispatcher.edited(message("1", BADGE)) is Edited.UNCHANGED
    await desk.dispatcher.deleted(message("1").thread, "1")
    assert await desk.dispatcher.edited(message("1", text)) is Edited.UNKNOWN


@pytest.mark.parametrize("first", [True, False])
async def test_a_deleted_question_is_gone_as_often_as_it_was_asked(desk: Desk, first: bool):
    """Again, or for the first time by somebody who was pointed to it."""
    said = message("1", BADGE)
    others = [message("7-11", "one"), message("8", "two"), message("9-2", "three"), message("9-1", "four", thread="t2")]
    others[3] = replace(others[3], thread=replace(others[3].thread, channel="c2"))
    for inbound in [
        *([said] if first else []),
        replace(said, message_id="5-1"),
        replace(said, message_id="6-1"),
        *others,
    ]:
        await desk.hears(inbound)
    await desk.hears(message("12"))
    assert held(desk)
    await desk.dispatcher.deleted(said.thread, "1")
    await desk.hears(message("13"))
    assert not held(desk)
    for again in ("5-1", "6-1"):
        turn = await desk.turn(replace(said, message_id=again))
        assert (turn.typed, turn.answered, turn.author_id, turn.state) == ("", "", "", TurnState.DELETED)
    assert [(await desk.turn(other)).typed for other in others] == ["one", "two", "three", "four"]
    assert not on_disk(desk)


@pytest.mark.parametrize("known", [True, False])
async def test_what_was_read_to_be_asked_again_before_its_deletion_is_not_taken_after_it(desk: Desk, known: bool):
    """Its words, and their author, were on the way. It may never have been a question before, too."""
    said = message("1", BADGE)
    if known:
        await desk.hears(said)
    await desk.dispatcher.deleted(said.thread, "1")
    assert await desk.dispatcher.admit(replace(said, message_id="5-1")) is None
    assert await desk.dispatcher.admit(replace(said, message_id="6-2")) is not None, "of another message"
    await desk.until(lambda: len(desk.asked) == 1 + known)
    assert "5-1" not in [turn.message_id for turn in await desk.store.turns(said.thread)]


async def test_what_was_read_to_be_asked_again_before_its_edit_is_asked_as_edited(desk: Desk):
    said = message("1", BADGE)
    await desk.hears(said)
    await desk.dispatcher.edited(replace(said, text="My badge is gone."))
    await desk.hears(replace(said, message_id="5-1"))
    assert desk.asked[-1] == "My badge is gone."


async def test_what_was_read_to_be_asked_again_before_its_author_was_forgotten_is_not_remembered(desk: Desk):
    said = replace(message("1", BADGE), readers=Readers.CHANNEL)
    await desk.hears(said)
    thread = said.thread
    await desk.dispatcher.forget_about(Person(platform=thread.platform, workspace=thread.workspace, id=said.author_id))
    await desk.hears(replace(said, message_id="5-1"))
    assert (await desk.turn(replace(said, message_id="5-1"))).readers is Readers.UNKNOWN


async def test_a_question_that_is_answered_again_when_it_is_deleted_is_stopped(desk: Desk):
    await desk.hears(message("1", BADGE))
    gate = Gate(desk)
    jobs = [await desk.admits(message("5-1", BADGE)), await desk.admits(message("6-1", BADGE))]
    await gate.reached(2)
    await desk.until(lambda: bool(seen(desk.wall, "6-1")))
    await desk.dispatcher.deleted(message("1").thread, "1")
    await desk.ends(*jobs)
    await desk.until(lambda: not seen(desk.wall, "5-1") + seen(desk.wall, "6-1"))
    assert gate.cancelled == 1
    assert desk.asked == [BADGE, BADGE]


@pytest.mark.parametrize("first", [True, False])
async def test_an_edited_question_reads_otherwise_as_often_as_it_was_asked(desk: Desk, first: bool):
    said = message("1", BADGE)
    desk.answering = lambda question, show: asyncio.sleep(0, "Noted.")
    for inbound in [*([said] if first else []), replace(said, message_id="5-1"), message("7-11", "one")]:
        await desk.hears(inbound)
    assert await desk.dispatcher.edited(replace(said, text="My badge is gone.")) is Edited.STORED
    await desk.hears(message("12"))
    assert not held(desk)
    assert [turn.question for turn in desk.questions[-1].history] == ["My badge is gone."] * (1 + first) + ["one"]


async def test_an_edit_of_a_question_that_is_answered_again_begins_that_answer_anew(desk: Desk):
    said = message("1", BADGE)
    await desk.hears(said)
    gate = Gate(desk)
    job = await desk.admits(replace(said, message_id="5-1"))
    await gate.reached(2)
    assert await desk.dispatcher.edited(replace(said, text="My badge is gone.")) is Edited.REPLACED
    await gate.reached(3)
    gate.go.set()
    await desk.ends(job)
    assert desk.asked[-1] == "My badge is gone."
    assert seen(desk.wall, "5-1") == [("re My badge is gone.", Phase.FINAL)]


async def test_forgetting_a_thread_ends_what_is_under_way_in_it(desk: Desk):
    gate = Gate(desk)
    said = message("1", BADGE)
    job = await desk.admits(said)
    other = await desk.admits(message("2", thread="t2"))
    await gate.reached(2)
    assert await desk.dispatcher.forget(said.thread) == 1
    await desk.ends(job)
    await desk.until(lambda: not seen(desk.wall, "1"))
    gate.go.set()
    await desk.ends(other)
    assert gate.cancelled == 1
    assert await desk.store.turns(said.thread) == []
    assert await desk.dispatcher.admit(said) is None, "and it is not answered when it comes again"
    assert not on_disk(desk)
