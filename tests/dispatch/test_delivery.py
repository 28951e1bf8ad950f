"""Exactly one visible ending (P3), whatever the platform does with the requests (F3 to F5)."""

from __future__ import annotations

import asyncio

import pytest

from adapters.ports import Phase, Post
from core.errors import ChannelBusy, ChannelError, ChannelGone
from tests.dispatch.conftest import Desk, MakeDesk, message, opened, seen
from tests.wall import Wall


class Nemesis(Wall):
    """A wall that fails as told: each request takes one from the list of its kind, until there is none."""

    def __init__(self, **faults: list[Exception | str]) -> None:
        super().__init__()
        self.faults = faults
        self.failed = 0

    def _fault(self, call: str) -> Exception | str | None:
        kind = self.faults.get(call)
        fault = kind.pop(0) if kind else None
        self.failed += fault is not None
        if isinstance(fault, Exception):
            raise fault
        return fault

    async def open(self, post: Post) -> str:
        if self._fault("open") == "lost":
            await super().open(post)
            raise ChannelError("the reply was lost")
        return await super().open(post)

    async def edit(self, message_id: str, post: Post) -> None:
        if self._fault("edit_final" if post.phase is Phase.FINAL else "edit") == "lost":
            await super().edit(message_id, post)
            raise ChannelError("the reply was lost")
        await super().edit(message_id, post)

    async def find(self, post: Post) -> list[str]:
        self._fault("find")
        return list(await super().find(post))


class TwoParts(Nemesis):
    def bodies(self, answer) -> list[str]:
        return [f"{answer.text} (1)", f"{answer.text} (2)"]


async def make(make_desk: MakeDesk, wall: Wall, **rules: float) -> Desk:
    desk = await make_desk(wall, **rules)
    await desk.dispatcher.start()
    return desk


@pytest.mark.parametrize("lost", [["lost"], ["lost", "lost"]])
async def test_a_message_whose_creation_was_not_confirmed_is_found_and_not_made_again(
    make_desk: MakeDesk, lost: list[Exception | str]
):
    """K3, F4: applied, and the reply lost."""
    wall = Nemesis(open=list(lost))
    desk = await make(make_desk, wall)
    assert await desk.hears(message("1")) == "re question 1"
    assert wall.failed == 1, "after that it was found"
    assert len(opened(wall)) == 1


async def test_a_message_that_was_not_created_is_created_again(make_desk: MakeDesk):
    wall = Nemesis(open=[ChannelError("refused"), ChannelError("refused")])
    desk = await make(make_desk, wall)
    assert await desk.hears(message("1")) == "re question 1"
    assert (wall.failed, len(opened(wall))) == (2, 1)


async def test_a_creation_that_has_its_effect_late_leaves_one_message(make_desk: MakeDesk):
    """The request timed out, a second one was made, and then the first one arrived as well."""

    class Late(Nemesis):
        async def open(self, post: Post) -> str:
            if not opened(self):
                asyncio.get_running_loop().call_later(0.15, lambda: asyncio.ensure_future(Wall.open(self, post)))
                self.calls.append(("open", post))
                raise ChannelError("timed out")
            return await Wall.open(self, post)

    wall = Late()
    desk = await make(make_desk, wall, settling=0.3)
    await desk.ends(await desk.admits(message("1")))
    assert len(opened(wall)) == 3
    assert seen(wall, "1") == [("re question 1", Phase.FINAL)]


async def test_an_old_text_that_arrives_late_does_not_stay(make_desk: MakeDesk):
    """An edit timed out; it arrives after the final one."""

    class Late(Wall):
        late: Post | None = None

        async def edit(self, message_id: str, post: Post) -> None:
            if post.phase is Phase.GROWING and self.late is None:
                self.late = post
                raise ChannelError("timed out")
            await super().edit(message_id, post)
            if post.phase is Phase.FINAL and self.late is not None and self.late.key:
                late, self.late = (
                    self.late,
                    Post(thread=post.thread, reply_to="", key="", part=0, body="", phase=Phase.WAITING),
                )
                await super().edit(message_id, late)

    wall = Late()
    desk = await make(make_desk, wall)

    async def slow(question, show) -> str:
        await show("half")
        await asyncio.sleep(0.05)
        return "whole"

    desk.answering = slow
    assert await desk.hears(message("1")) == "whole"
    assert [post.body for call, post in wall.calls if call == "edit"].count("whole") == 2


async def test_a_platform_that_asks_to_wait_is_waited_for_and_sees_the_final_text(make_desk: MakeDesk):
    """F3."""
    wall = Nemesis(open=[ChannelBusy("wait", retry_after=0.2)], edit_final=[ChannelBusy("wait", retry_after=0.2)])
    desk = await make(make_desk, wall)
    began = asyncio.get_running_loop().time()
    assert await desk.hears(message("1")) == "re question 1"
    assert asyncio.get_running_loop().time() - began >= 0.4
    assert len(opened(wall)) == 1
    assert not [post for call, post in wall.calls if call == "find"], "nothing was in doubt"


async def test_a_long_wait_ends_the_edits_in_between_but_not_the_last(make_desk: MakeDesk):
    wall = Nemesis(edit=[ChannelBusy("wait", retry_after=3600)])
    desk = await make(make_desk, wall)

    async def grows(question, show) -> str:
        for n in range(5):
            await show(f"{n} ")
            await asyncio.sleep(0.02)
        return "whole"

    desk.answering = grows
    assert await desk.hears(message("1")) == "whole"
    assert not wall.seen(Phase.GROWING)


async def test_edits_come_at_the_pace_of_the_platform_and_the_newest_text_wins(make_desk: MakeDesk):
    wall = Wall()
    wall.pace = 0.1
    desk = await make(make_desk, wall)

    async def grows(question, show) -> str:
        for n in range(40):
            await show("x" * n)
            await asyncio.sleep(0.01)
        return "whole"

    desk.answering = grows
    assert await desk.hears(message("1")) == "whole"
    shown = wall.seen(Phase.GROWING)
    assert 2 <= len(shown) <= 6
    assert shown == sorted(shown, key=len)


async def test_an_answer_in_parts_is_whole_and_in_order(make_desk: MakeDesk):
    wall = TwoParts(open=["lost", "lost"])
    desk = await make(make_desk, wall)
    await desk.ends(await desk.admits(message("1")))
    assert seen(wall, "1") == [("re question 1 (1)", Phase.FINAL), ("re question 1 (2)", Phase.FINAL)]
    assert len(opened(wall)) == 2
    assert await desk.sql("SELECT part, delivered FROM outbox ORDER BY part") == [(0, 1), (1, 1)]


@pytest.mark.parametrize("call", ["open", "edit_final"])
async def test_a_place_that_is_gone_ends_the_job_without_a_storm_of_requests(make_desk: MakeDesk, call: str):
    """F5."""
    faults: list[Exception | str] = [ChannelGone("the thread was deleted") for _ in range(50)]
    wall = Nemesis(**{call: faults})
    desk = await make(make_desk, wall)
    await desk.ends(await desk.admits(message("1")))
    assert await desk.states() == {"1": "undeliverable"}
    assert wall.failed == 1
    assert await desk.hears(message("2", thread="t2")) if call == "edit" else True


async def test_an_error_that_nobody_thought_of_is_tried_again(make_desk: MakeDesk, caplog: pytest.LogCaptureFixture):
    wall = Nemesis(open=[ValueError("a bug")], edit_final=[KeyError("another")])
    desk = await make(make_desk, wall)
    assert await desk.hears(message("1")) == "re question 1"
    assert "unexpected" in caplog.text


async def test_what_is_shown_is_what_is_stored(desk: Desk):
    """I4."""
    said = message("1")
    shown = await desk.hears(said)
    assert (await desk.turn(said)).answered == shown
    assert await desk.sql("SELECT body, delivered FROM outbox") == [(shown, 1)]


async def test_an_answer_does_not_wait_until_the_id_of_its_message_is_stored(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
):
    """In a crowd, ids of messages are stored after all that is more urgent. A further message does wait."""
    desk = await make(make_desk, wall := Wall())
    jobs, stored, may = desk.store.jobs, [], asyncio.Event()
    posted = jobs.posted

    async def late(*arguments: object) -> None:
        await may.wait()
        stored.append(arguments[1:])
        await posted(*arguments)  # type: ignore[arg-type] # as it was called

    monkeypatch.setattr(jobs, "posted", late)
    await asyncio.wait_for(desk.hears(message("1", "How much oil?")), 10)
    assert [phase for _, phase in seen(wall, "1")] == [Phase.FINAL]
    assert not stored
    may.set()
    await desk.until(lambda: bool(stored))
