"""Cut off or restarted for so long that Slack has given up: each question is answered once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from adapters.slack import catch_up
from tests.slack.conftest import AT, Quill
from tests.slack_server import ASKER, SECOND, Fault, SlackServer, busy

QUESTION = f"{AT} How much oil does the Kestrel pump take?"
ANSWER = "It takes 0.8 L of oil [1]."
FOLLOW_UP = "and how often the filter?"


async def unheard(slack: SlackServer, user: str, channel: str, text: str, thread: str | None = None) -> str:
    """Said while nobody listens, and given up by Slack; its `ts`."""
    assert not slack.sockets.connected
    slack.sockets.retries, before = (), slack.sockets.retries
    told = len(slack.sockets.deliveries)
    ts = slack.says(user, channel, text, thread)
    await asyncio.gather(*(delivery.done.wait() for delivery in slack.sockets.deliveries[told:]))
    assert all(delivery.given_up for delivery in slack.sockets.deliveries[told:])
    slack.sockets.retries = before
    return ts


async def marked(quill: Quill, since: datetime | None = None) -> None:
    """Until all that was missed before `since` has been read."""
    async with asyncio.timeout(10):
        while True:
            mark = await quill.store.lookups.heard_until("slack")
            if mark is not None and (since is None or mark >= since):
                return
            await asyncio.sleep(0.01)


async def stopped(quill: Quill) -> None:
    await marked(quill)
    await quill.stop()
    await quill.slack.until(lambda: not quill.slack.sockets.connected)


async def back(quill: Quill) -> None:
    started = datetime.now(UTC)
    await quill.start()
    await quill.connected()
    await marked(quill, started)
    await quill.at_rest()


async def test_what_was_said_during_a_long_cut_is_answered_once(slack: SlackServer, quill: Quill):
    await marked(quill)
    slack.sockets.refused = True
    await slack.sockets.cut()
    await slack.until(lambda: not slack.sockets.connected and not quill.socket.connected)
    quill.model.replies["generate"] += [ANSWER, ANSWER]
    asked = [await unheard(slack, ASKER, channel, QUESTION) for channel in ("C1", "G1")]
    slack.sockets.refused = False
    await quill.connected()
    await slack.until(lambda: len(quill.asked()) == 2, 10)
    await quill.at_rest()
    assert [len(slack.shown("C1", asked[0])), len(slack.shown("G1", asked[1]))] == [1, 1]


async def test_a_restart_finds_questions_in_channels_threads_and_direct_messages(slack: SlackServer, quill: Quill):
    quill.model.replies["generate"] += [ANSWER] * 2
    asked, direct = await quill.hears(QUESTION), await quill.hears("How much oil does the Kestrel pump take?", "D1")
    old = slack.says(ASKER, "C1", "a thread of people")
    await stopped(quill)
    quill.model.replies["rewrite"] += ["Kestrel filter"] * 3
    quill.model.replies["generate"] += [ANSWER] * 5
    found = [
        ("C1", asked, await unheard(slack, SECOND, "C1", FOLLOW_UP, asked)),
        ("D1", direct, await unheard(slack, ASKER, "D1", FOLLOW_UP, direct)),
        ("C1", old, await unheard(slack, "U7", "C1", QUESTION, old)),
    ]
    new = await unheard(slack, SECOND, "C1", QUESTION)
    for text, thread in (("not for the bot", None), ("nor this", old)):
        await unheard(slack, SECOND, "C1", text, thread)
    await back(quill)
    assert len(quill.asked()) == 6
    assert [len(slack.shown(channel, thread)) for channel, thread, _ in found] == [2, 2, 1]
    assert len(slack.shown("C1", new)) == 1


async def test_what_was_answered_is_not_answered_again(slack: SlackServer, quill: Quill):
    quill.model.replies["generate"] += [ANSWER] * 9
    quill.model.replies["rewrite"] += ["Kestrel filter"] * 9
    asked = await quill.hears(QUESTION)
    await quill.hears(FOLLOW_UP, thread=asked)
    for _ in range(2):
        await stopped(quill)
        slack.calls.clear()
        await back(quill)
        assert slack.calls_of("conversations.history", "conversations.replies"), "it was looked for"
    assert len(quill.asked()) == 2
    assert len(slack.shown("C1", asked)) == 2


async def test_the_first_start_ever_replays_nothing(slack: SlackServer, quill: Quill):
    await quill.stop()
    quill.path = quill.path.with_name("fresh.db")
    await slack.until(lambda: not slack.sockets.connected)
    asked = await unheard(slack, ASKER, "C1", QUESTION)
    await back(quill)
    assert not slack.shown("C1", asked)


async def test_old_questions_and_those_above_the_cap_are_left(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(catch_up, "IN_ALL", 2)
    await stopped(quill)
    long_ago = datetime.now(UTC) - timedelta(minutes=31)
    old = f"{long_ago.timestamp():.6f}"
    message = {"type": "message", "ts": old, "user": ASKER, "text": QUESTION}
    slack.workspace.places["C1"].messages = {old: message, **slack.workspace.places["C1"].messages}
    asked = [await unheard(slack, f"U{number}", "C1", QUESTION) for number in range(3)]
    quill.model.replies["generate"] += [ANSWER] * 4
    await back(quill)
    assert [len(slack.shown("C1", ts)) for ts in (old, *asked)] == [0, 1, 1, 0]
    assert "More than 2 questions were missed on Slack" in caplog.text


async def test_channels_that_are_not_open_are_not_read(slack: SlackServer, quill: Quill):
    await stopped(quill)
    await unheard(slack, ASKER, "C1", QUESTION)
    asked = await unheard(slack, ASKER, "C2", QUESTION)
    await unheard(slack, ASKER, "D1", "How much oil?")
    slack.calls.clear()
    quill.model.replies["generate"].append(ANSWER)
    quill.setup = replace(quill.setup, channels=frozenset({"C2"}), direct_messages=False)
    await back(quill)
    assert len(slack.shown("C2", asked)) == 1
    assert {call.args["channel"] for call in slack.calls_of("conversations.history")} == {"C2"}


async def test_pages_are_followed(slack: SlackServer, quill: Quill):
    slack.methods.page = 2
    await stopped(quill)
    quill.model.replies["generate"] += [ANSWER] * 5
    asked = [await unheard(slack, f"U{number}", "C1", QUESTION) for number in range(5)]
    await back(quill)
    assert [len(slack.shown("C1", ts)) for ts in asked] == [1] * 5


async def test_slack_that_asks_to_wait_is_waited_for(slack: SlackServer, quill: Quill):
    await stopped(quill)
    quill.model.replies["generate"].append(ANSWER)
    asked = await unheard(slack, ASKER, "C1", QUESTION)
    slack.script("conversations.history", busy(0.05))
    await back(quill)
    assert len(slack.shown("C1", asked)) == 1


async def test_slack_that_asks_to_wait_too_long_is_left_alone(
    slack: SlackServer, quill: Quill, caplog: pytest.LogCaptureFixture
):
    await stopped(quill)
    asked = await unheard(slack, ASKER, "C1", QUESTION)
    slack.script("conversations.history", busy(60))
    await back(quill)
    assert not slack.shown("C1", asked)
    assert "Not all that was said on Slack" in caplog.text
    assert len(slack.calls_of("conversations.history")) == 1


async def test_a_read_that_fails_is_tried_again(slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(catch_up, "AGAIN_SECONDS", 0.05)
    await stopped(quill)
    quill.model.replies["generate"].append(ANSWER)
    asked = await unheard(slack, ASKER, "C1", QUESTION)
    slack.script("conversations.history", Fault(status=503), Fault(end="reset"))
    await back(quill)
    assert len(slack.shown("C1", asked)) == 1


async def test_an_edit_that_was_missed_is_what_is_remembered(slack: SlackServer, quill: Quill):
    quill.model.replies["generate"] += [ANSWER] * 2
    asked = await quill.hears(QUESTION)
    await stopped(quill)
    slack.sockets.retries = ()
    slack.edits("C1", asked, f"{AT} How much oil does the Heron valve take?")
    await back(quill)
    (turn,) = await quill.store.turns(quill.key(asked))
    assert "Heron" in turn.typed
    assert len(quill.asked()) == 1
