"""What the store of conversations must do. A subclass gives the fixture `reopen`; nothing here knows SQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, timedelta

import pytest

from adapters.jobs import Job
from adapters.ports import Memory, TurnState
from adapters.store import SqlConversationStore
from core.errors import LeaseLost
from core.types import QueryStatus
from tests.store.builders import NOON, answer, ask, finish, history, key, now, said

Reopen = Callable[[], Awaitable[SqlConversationStore]]
"""The store over the same data, as after a restart: what was open before is closed."""


async def asked(store: SqlConversationStore, *args, **kwargs) -> Job:
    job = await ask(store, said(*args, **kwargs))
    assert job is not None
    return job


async def pair(
    store: SqlConversationStore, message_id: str, text: str, reply: str, state=TurnState.ANSWERED, thread=None
):
    job = await asked(store, message_id, text, thread)
    await finish(store, job, answer(reply), state)
    return job


class AsksAndAnswers:
    async def test_a_question_is_stored_before_it_is_answered(self, reopen: Reopen):
        store = await reopen()
        job = await asked(store, "m1", "How?")
        (turn,) = await store.turns(key())
        assert (turn.id, turn.seq, turn.message_id, turn.typed) == (job.turn, 1, "m1", "How?")
        assert (turn.author_id, turn.author, turn.state) == ("u1", "Ada", TurnState.ASKED)
        assert (turn.searched, turn.answered, turn.query_status, turn.answered_at) == ("", "", None, None)

    async def test_typed_searched_answered_cited_and_degraded_come_back_apart(self, reopen: Reopen):
        store = await reopen()
        before = now()
        job = await asked(store, "m1", "and on ARM?")
        await finish(store, job, answer("With pip [1].", "install on ARM"), TurnState.ANSWERED)
        turn = await (await reopen()).last_turn(key())
        assert turn is not None
        assert (turn.typed, turn.searched, turn.answered) == ("and on ARM?", "install on ARM", "With pip [1].")
        assert (turn.query_status, turn.query_reason) == (QueryStatus.REWRITTEN, "ok")
        assert (turn.citations, turn.degraded) == (answer().citations, answer().degraded)
        assert (turn.kept, turn.state) == (answer().kept, TurnState.ANSWERED)
        assert turn.answered_at is not None
        assert before <= turn.answered_at <= now()

    async def test_times_come_back_as_the_same_moment_with_a_time_zone(self, reopen: Reopen):
        await asked(await reopen(), "m1", sent_at=NOON)
        (turn,) = await (await reopen()).turns(key())
        assert turn.asked_at == NOON
        assert turn.asked_at.utcoffset() == timedelta(0)

    async def test_a_message_makes_one_turn_however_often_it_is_delivered(self, reopen: Reopen):
        store = await reopen()
        jobs = await asyncio.gather(*(ask(store, said("m1")) for _ in range(10)))
        assert len([job for job in jobs if job is not None]) == 1
        assert await ask(await reopen(), said("m1", "edited")) is None
        assert await ask(await reopen(), said("m1", thread=key("elsewhere"))) is None
        assert [turn.typed for turn in await (await reopen()).turns(key())] == ["How do I install it?"]

    async def test_the_same_message_id_elsewhere_is_another_message(self, reopen: Reopen):
        store = await reopen()
        places = [key(), key(channel="c2"), key(workspace="w2"), key(platform="slack")]
        jobs = [await asked(store, "m1", thread=place) for place in places]
        assert len({job.turn for job in jobs}) == 4
        assert [len(await store.turns(place)) for place in places] == [1, 1, 1, 1]

    async def test_questions_keep_the_order_of_the_calls(self, reopen: Reopen):
        store = await reopen()
        await asyncio.gather(*(ask(store, said(f"m{n}")) for n in range(50)))
        turns = await store.turns(key())
        assert [turn.message_id for turn in turns] == [f"m{n}" for n in range(50)]
        assert [turn.seq for turn in turns] == list(range(1, 51))

    async def test_three_turns_a_restart_and_one_turn_make_four(self, reopen: Reopen):
        """B55: the loaded history was saved again with each turn."""
        store = await reopen()
        for n in range(3):
            job = await asked(store, f"m{n}")
            await history(store, job, 8)
            await finish(store, job, answer(), TurnState.ANSWERED)
        store = await reopen()
        job = await asked(store, "m3")
        await history(store, job, 8)
        await finish(store, job, answer(), TurnState.ANSWERED)
        turns = await store.turns(key())
        assert [turn.message_id for turn in turns] == ["m0", "m1", "m2", "m3"]
        assert len({turn.id for turn in turns}) == 4

    async def test_nothing_is_stored_for_a_job_that_is_not_ours(self, reopen: Reopen):
        store = await reopen()
        job = await asked(store, "m1")
        for foreign in (replace(job, id=4711), replace(job, fence=job.fence + 1)):
            with pytest.raises(LeaseLost):
                await finish(store, foreign, answer(), TurnState.ANSWERED)
        (turn,) = await store.turns(key())
        assert (turn.answered, turn.state) == ("", TurnState.ASKED)

    @pytest.mark.parametrize("kind", ["typed", "author", "answer", "thread"])
    async def test_text_that_is_no_unicode_is_stored_all_the_same(self, reopen: Reopen, kind: str):
        """B103: half a surrogate pair, NUL, a byte order mark, 10 kB of combining marks."""
        bad, kept = "ok \ud83d\x00\ufeff" + "\u0301" * 5000, "ok \ufffd\ufffd\ufeff" + "\u0301" * 5000
        text = {name: bad if name == kind else "fine" for name in ("typed", "author", "answer")}
        thread = key(bad if kind == "thread" else "t1")
        store = await reopen()
        job = await asked(store, "m1", text["typed"], thread, author=text["author"])
        await finish(store, job, answer(text["answer"], text["answer"]), TurnState.ANSWERED)
        turn = await (await reopen()).last_turn(thread)
        assert turn is not None
        got = {"typed": turn.typed, "author": turn.author, "answer": turn.answered}
        assert got == {name: kept if name == kind else "fine" for name in got}
        assert turn.searched == got["answer"]


class Remembers:
    async def test_history_holds_answered_pairs_oldest_first(self, reopen: Reopen):
        store = await reopen()
        await pair(store, "m1", "one", "first")
        await pair(store, "m2", "two", "second")
        now_asked = await asked(store, "m3", "three")
        held = await history(store, now_asked, 8)
        assert [(turn.question, turn.answer, turn.author) for turn in held.turns] == [
            ("one", "first", "Ada"),
            ("two", "second", "Ada"),
        ]
        assert held.turns[0].at == NOON
        assert held.turns[0].at.tzinfo == UTC
        assert [turn.searched for turn in held.turns] == ["install threadwise"] * 2
        assert held.summary == ""

    async def test_history_is_cut_at_its_old_end_and_at_the_given_turn(self, reopen: Reopen):
        store = await reopen()
        jobs = []
        for n in range(6):
            jobs.append(await asked(store, f"m{n}", f"q{n}"))
            if n != 4:
                await finish(store, jobs[n], answer("a"), TurnState.ANSWERED)
        held = await history(store, jobs[4], 3)
        assert [turn.question for turn in held.turns] == ["q1", "q2", "q3"]
        for none in (0, -1):
            assert await history(store, jobs[4], none) == Memory()

    @pytest.mark.parametrize("state", [TurnState.FAILED, TurnState.ASKED])
    async def test_what_was_not_answered_is_no_history(self, reopen: Reopen, state: TurnState):
        """B53, B54: a failed turn, or an error text, was replayed to the model."""
        store = await reopen()
        await pair(store, "m1", "one", "first")
        await pair(store, "m2", "two", "Sorry, the model is not reachable.", state)
        held = await history(store, await asked(store, "m3"), 8)
        assert [turn.question for turn in held.turns] == ["one"]
        assert [turn.typed for turn in await store.turns(key())][:2] == ["one", "two"]

    @pytest.mark.parametrize("blank", ["", "  \n\t", "\u200b\ufeff", "\x01"])
    async def test_a_blank_answer_is_no_history(self, reopen: Reopen, blank: str):
        """B23, B28: a blank answer that was replayed made every later request fail."""
        store = await reopen()
        await pair(store, "m1", "one", "first")
        await pair(store, "m2", "two", blank)
        held = await history(store, await asked(store, "m3"), 1)
        assert [turn.question for turn in held.turns] == ["one"]

    async def test_a_partial_answer_is_kept_for_people_and_what_was_seen_of_it_is_history(self, reopen: Reopen):
        """B52: when the stream was not read to its end, the whole turn vanished."""
        store = await reopen()
        await pair(store, "m1", "one", "half an ans", TurnState.INCOMPLETE)
        turn = await store.last_turn(key())
        assert turn is not None
        assert (turn.typed, turn.answered, turn.state) == ("one", "half an ans", TurnState.INCOMPLETE)
        held = await history(store, await asked(store, "m2"), 8)
        assert [(turn.question, turn.answer) for turn in held.turns] == [("one", "half an ans …")]

    async def test_threads_do_not_see_each_other(self, reopen: Reopen):
        """T31: also with equal names in other channels, workspaces and platforms."""
        store = await reopen()
        places = [key(), key("t2"), key(channel="c2"), key(workspace="w2"), key(platform="slack")]
        for n, place in enumerate(places):
            await pair(store, f"m{n}", f"canary {n}", "a", thread=place)
        for n, place in enumerate(places):
            held = await history(store, await asked(store, f"now {n}", thread=place), 8)
            assert [turn.question for turn in held.turns] == [f"canary {n}"]
        assert await store.last_turn(key("never")) is None
        assert await history(store, await asked(store, "now", thread=key("never")), 8) == Memory()

    async def test_threads_are_listed_newest_first_by_their_first_question(self, reopen: Reopen):
        store = await reopen()
        await pair(store, "m1", "about one", "a", thread=key("t1"))
        await pair(store, "m2", "about two", "a", thread=key("t2"))
        await asked(store, "m3", "more on one", key("t1"), sent_at=NOON - timedelta(days=1))
        await asked(store, "m4", thread=key(platform="slack"))
        listed = await store.threads("terminal", 10)
        assert [(info.key.thread, info.title, info.turns) for info in listed] == [
            ("t1", "about one", 2),
            ("t2", "about two", 1),
        ]
        assert listed[0].last_at == NOON - timedelta(days=1)
        assert listed[1].last_at.utcoffset() == timedelta(0)
        assert len(await store.threads("terminal", 1)) == 1


class Ends:
    async def test_a_channel_that_does_not_go_on_ends_what_a_killed_process_left_unanswered(self, reopen: Reopen):
        store = await reopen()
        await pair(store, "m1", "one", "first")
        await asked(store, "m2", "two")
        store = await reopen()
        assert await store.abandon("slack") == []
        assert await store.abandon("terminal") == ["two"]
        assert await store.abandon("terminal") == []
        assert [turn.state for turn in await store.turns(key())] == [TurnState.ANSWERED, TurnState.FAILED]

    async def test_a_forgotten_conversation_is_gone_and_no_other_is(self, reopen: Reopen):
        store = await reopen()
        await pair(store, "m1", "one", "first")
        await pair(store, "m2", "two", "second")
        await pair(store, "m3", "other", "third", thread=key("t2"))
        assert await store.forget(key()) == 2
        assert await store.forget(key()) == 0
        store = await reopen()
        assert await store.turns(key()) == []
        assert [info.key.thread for info in await store.threads("terminal", 10)] == ["t2"]

    async def test_an_answer_to_a_forgotten_question_reaches_no_other_turn(self, reopen: Reopen):
        store = await reopen()
        forgotten = await asked(store, "m1", "secret")
        await store.forget(key())
        store = await reopen()
        await asked(store, "m2", "next")
        with pytest.raises(LeaseLost):
            await finish(store, forgotten, answer("about the secret"), TurnState.ANSWERED)
        (turn,) = await store.turns(key())
        assert (turn.seq, turn.answered, turn.state) == (1, "", TurnState.ASKED)


class ConversationStoreContract(AsksAndAnswers, Remembers, Ends):
    """All of it, for one subclass per store."""
