"""A crowd's events: in order, so many at a time, each message once, and nothing looked up that there is no time for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from adapters.jobs import Admitted
from adapters.ports import Inbound
from adapters.slack import line
from tests.slack.conftest import AT, Quill, TypingModel
from tests.slack_server import ASKER, SlackServer
from tests.slack_server.faults import Fault
from tests.slack_server.state import Place

AT_ONCE = 5


class Counter:
    """A desk that takes its time, and tells how many stood there at once, and who in what order."""

    def __init__(self, behind: Any) -> None:
        self.behind, self.here, self.most = behind, 0, 0
        self.came: list[str] = []
        self.open = asyncio.Event()

    async def admit(self, inbound: Inbound) -> Admitted | None:
        self.came.append(inbound.message_id)
        self.here += 1
        self.most = max(self.most, self.here)
        await self.open.wait()
        self.here -= 1
        return await self.behind.admit(inbound)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return getattr(self.behind, name)  # type: ignore[no-any-return]


async def crowd(slack: SlackServer, quill: Quill, many: int) -> Counter:
    """Questions that wait at the desk."""
    for number in range(many):
        slack.workspace.places[f"C{10 + number}"] = Place(f"C{10 + number}", f"room-{number}")
        slack.workspace.names[f"U{number}"] = f"Person {number}"
    desks: list[Counter] = []

    def desk(dispatcher: Any) -> Counter:
        desks.append(Counter(dispatcher))
        return desks[-1]

    quill.desk = desk
    await quill.restart()
    return desks[-1]


async def test_so_many_events_are_dealt_with_at_a_time_in_order_and_each_message_once(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(line, "AT_ONCE", AT_ONCE)
    desk = await crowd(slack, quill, 20)
    slack.sockets.ack_seconds, slack.sockets.retries = 0.5, (0.0,) * 20
    asked = [slack.says(f"U{number}", f"C{10 + number}", f"{AT} question {number}") for number in range(20)]
    await slack.until(lambda: desk.here == AT_ONCE)
    # Slack tells all of them again.
    await slack.until(lambda: all(len(delivery.sent) > 1 for delivery in slack.sockets.deliveries))
    assert (desk.here, desk.came) == (AT_ONCE, asked[:AT_ONCE])
    desk.open.set()
    await quill.at_rest()
    assert desk.most == AT_ONCE
    assert desk.came == asked
    assert all(delivery.acked for delivery in slack.sockets.deliveries)


async def test_in_a_crowd_the_names_are_not_asked_for(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(line, "AT_ONCE", AT_ONCE)
    desk = await crowd(slack, quill, 20)
    desk.open.set()
    for number in range(20):
        slack.says(f"U{number}", f"C{10 + number}", f"{AT} question {number}")
    await quill.at_rest()
    assert len(slack.calls_of("users.info")) <= AT_ONCE
    assert len(desk.came) == 20


SHOWN = ("chat.postMessage", "chat.update", "assistant.threads.setStatus")
"""What can wait until the questions of others are stored."""


async def rush(slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch, seconds: float) -> Counter:
    """A crowd that is held up at the desk, one of it in a direct message, when the first five are let in."""
    monkeypatch.setattr(line, "AT_ONCE", AT_ONCE)
    monkeypatch.setattr(line, "RUSH_SECONDS", seconds)
    desk = await crowd(slack, quill, 20)
    slack.says(ASKER, "D1", "question")
    for number in range(19):
        slack.says(f"U{number}", f"C{10 + number}", f"{AT} question {number}")
    await slack.until(lambda: desk.here == AT_ONCE)
    return desk


async def test_while_a_crowd_comes_in_nothing_is_said_that_can_wait(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch
):
    desk = await rush(slack, quill, monkeypatch, 60.0)
    desk.open.set()
    await quill.at_rest()
    acked = max(delivery.acked[0] for delivery in slack.sockets.deliveries[:39])
    assert min(call.at for call in slack.calls_of(*SHOWN)) > acked
    assert {call.method for call in slack.calls_of(*SHOWN)} == set(SHOWN), "afterwards all of it is"
    assert [len(slack.shown(f"C{10 + n}", ts)) for n, ts in enumerate(desk.came[1:])] == [1] * 19


async def test_a_crowd_that_takes_too_long_holds_nothing_up(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch
):
    desk = await rush(slack, quill, monkeypatch, 0.3)
    # Those that are there are let in, and the next ones held up.
    desk.open.set()
    desk.open.clear()
    await slack.until(lambda: bool(slack.calls_of("chat.postMessage")) and desk.here == AT_ONCE, 10)
    desk.open.set()
    await quill.at_rest()


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_question_is_stored_when_its_time_is_over_whatever_was_not_found_out_by_then(
    slack: SlackServer, quill: Quill, model: TypingModel, monkeypatch: pytest.MonkeyPatch, *, in_thread: bool
):
    monkeypatch.setattr(line, "LOOK_UP_SECONDS", 0.3)
    thread = str(slack.workspace.add("C1", user="U1", text="The pump is dry.")["ts"]) if in_thread else None
    slack.script("users.info", *[Fault(delay=5.0)] * 20)
    slack.script("conversations.replies", *[Fault(delay=5.0)] * 20)
    names = " ".join(f"<@U{number}>" for number in range(2, 9))
    asked = slack.says(ASKER, "C1", f"{AT} Who of {names} knows the Kestrel pump?", thread)
    deliveries = list(slack.sockets.deliveries)
    await slack.until(lambda: all(delivery.acked for delivery in deliveries), 4)
    (turn,) = await quill.store.turns(quill.key(thread or asked))
    assert "@U2 @U3" in turn.typed
