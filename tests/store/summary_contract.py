"""What any store of running summaries must do, on top of `contract`."""

from __future__ import annotations

from adapters.ports import Backlog, TurnState
from adapters.store import SqlConversationStore
from tests.store.builders import history, key
from tests.store.contract import Reopen, asked, pair


async def backlog(store: SqlConversationStore) -> Backlog:
    found = await store.backlog(key())
    assert found is not None
    return found


class SummaryStoreContract:
    async def test_text_and_watermark_move_together_and_the_history_begins_after_them(self, reopen: Reopen):
        """B48, B49: neither a turn in both, nor one in neither."""
        store = await reopen()
        for n in range(6):
            await pair(store, f"m{n}", f"q{n}", "a", TurnState.FAILED if n == 1 else TurnState.ANSWERED)
        before = await backlog(store)
        assert (before.summary, before.covered, [seq for seq, _ in before.turns]) == ("", 0, [1, 3, 4, 5, 6])
        assert await store.condense(before, 4, "They asked q0 to q3.")
        store = await reopen()
        after = await backlog(store)
        assert (after.summary, after.covered) == ("They asked q0 to q3.", 4)
        held = await history(store, await asked(store, "now"), 8)
        assert [turn.question for turn in held.turns] == [turn.question for _, turn in after.turns] == ["q4", "q5"]
        assert held.summary == after.summary
        assert len(await store.turns(key())) == 7

    async def test_a_summary_that_comes_late_does_not_replace_the_one_that_was_faster(self, reopen: Reopen):
        store = await reopen()
        for n in range(6):
            await pair(store, f"m{n}", f"q{n}", "a")
        read_by_both = await backlog(store)
        assert await store.condense(read_by_both, 4, "The faster one.")
        assert not await store.condense(read_by_both, 2, "The late one.")
        left = await backlog(store)
        assert (left.summary, left.covered) == ("The faster one.", 4)

    async def test_a_summary_of_a_forgotten_conversation_does_not_come_back_in_the_next_one(self, reopen: Reopen):
        store = await reopen()
        await pair(store, "m1", "my secret", "a")
        forgotten = await backlog(store)
        await store.forget(key())
        await pair(store, "m2", "something else", "a")
        assert not await store.condense(forgotten, 1, "The secret.")
        left = await backlog(store)
        assert (left.summary, left.covered, [turn.question for _, turn in left.turns]) == ("", 0, ["something else"])

    async def test_there_is_no_backlog_where_there_is_no_thread(self, reopen: Reopen):
        assert await (await reopen()).backlog(key("never")) is None
