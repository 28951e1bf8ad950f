"""How much is read up on Slack at most, and that it is said where there was more."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from adapters.slack import catch_up
from tests.slack.conftest import Quill
from tests.slack.test_catch_up import ANSWER, FOLLOW_UP, QUESTION, back, stopped, unheard
from tests.slack_server import ASKER, SECOND, SlackServer, busy
from tests.slack_server.state import Place

LEFT_OUT = "Not all that was said on Slack while nobody listened could be read"


def earlier(slack: SlackServer, moment: datetime) -> str:
    """A question that was asked at `moment`, in front of all others; its `ts`."""
    ts = f"{moment.timestamp():.6f}"
    message = {"type": "message", "ts": ts, "user": f"U{ts}", "text": QUESTION}
    slack.workspace.places["C1"].messages = {ts: message, **slack.workspace.places["C1"].messages}
    return ts


@pytest.fixture(autouse=True)
def _answers(quill: Quill) -> None:
    quill.model.replies["generate"] += [ANSWER] * 20
    quill.model.replies["rewrite"] += ["oil of the Kestrel pump"] * 20


async def test_of_one_channel_only_so_many_are_answered_and_others_are_not_held_up(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(catch_up, "IN_CHANNEL", 2)
    await stopped(quill)
    asked = [await unheard(slack, f"U{number}", "C1", QUESTION) for number in range(3)]
    other = await unheard(slack, ASKER, "C2", QUESTION)
    await back(quill)
    assert [len(slack.shown("C1", ts)) for ts in asked] == [1, 1, 0]
    assert len(slack.shown("C2", other)) == 1
    assert "In C1 more may have been missed than the 2 that are answered" in caplog.text


async def test_only_so_many_channels_are_read_those_of_known_conversations_first(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(catch_up, "CHANNELS", 1)
    slack.workspace.places["C9"] = Place("C9", "known")
    await quill.hears(QUESTION, "C9")
    await stopped(quill)
    found = await unheard(slack, ASKER, "C9", QUESTION)
    left = await unheard(slack, ASKER, "C1", QUESTION)
    slack.calls.clear()
    await back(quill)
    assert (len(slack.shown("C9", found)), len(slack.shown("C1", left))) == (1, 0)
    assert {call.args["channel"] for call in slack.calls_of("conversations.history")} == {"C9"}
    assert "channels on Slack 1 are looked through" in caplog.text


async def test_only_so_many_threads_are_read_the_bots_own_first(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(catch_up, "THREADS", 1)
    own = await quill.hears(QUESTION)
    others = slack.says(SECOND, "C1", "a thread of people")
    await stopped(quill)
    await unheard(slack, ASKER, "C1", FOLLOW_UP, own)
    await unheard(slack, "U7", "C1", QUESTION, others)
    await back(quill)
    assert (len(slack.shown("C1", own)), len(slack.shown("C1", others))) == (2, 0)
    assert LEFT_OUT in caplog.text


async def test_only_so_many_pages_are_read_the_newest_of_a_channel(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(catch_up, "MOST_PAGES", 2)
    slack.methods.page = 2
    await stopped(quill)
    asked = [await unheard(slack, f"U{number}", "C1", QUESTION) for number in range(5)]
    slack.calls.clear()
    await back(quill)
    assert [len(slack.shown("C1", ts)) for ts in asked] == [0, 1, 1, 1, 1]
    assert [call.args["channel"] for call in slack.calls_of("conversations.history")].count("C1") == 2
    assert LEFT_OUT in caplog.text


async def test_what_fits_the_pages_exactly_is_all(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(catch_up, "MOST_PAGES", 2)
    slack.methods.page = 2
    await stopped(quill)
    asked = [await unheard(slack, f"U{number}", "C1", QUESTION) for number in range(4)]
    await back(quill)
    assert [len(slack.shown("C1", ts)) for ts in asked] == [1] * 4
    assert LEFT_OUT not in caplog.text


@pytest.mark.parametrize(("cap", "found"), [("", (2, 1)), ("THREADS_BACK", (2, 0)), ("OWN_BACK", (1, 0))])
async def test_a_thread_that_is_too_old_is_not_looked_for(
    slack: SlackServer, quill: Quill, monkeypatch: pytest.MonkeyPatch, cap: str, found: tuple[int, int]
):
    """A day for threads of people, a week for the bot's own."""
    own = await quill.hears(QUESTION)
    others = slack.says(SECOND, "C1", "a thread of people")
    await stopped(quill)
    await unheard(slack, ASKER, "C1", FOLLOW_UP, own)
    await unheard(slack, "U7", "C1", QUESTION, others)
    if cap:
        monkeypatch.setattr(catch_up, "THREADS_BACK", timedelta(0))
        monkeypatch.setattr(catch_up, cap, timedelta(0))
    await back(quill)
    assert (len(slack.shown("C1", own)), len(slack.shown("C1", others))) == found


async def test_what_was_said_shortly_before_the_last_mark_is_read_too_and_no_more(slack: SlackServer, quill: Quill):
    await stopped(quill)
    await quill.start()
    mark = await quill.store.lookups.heard_until("slack")
    await quill.stop()
    assert mark is not None
    found, left = (earlier(slack, mark - catch_up.OVERLAP + timedelta(seconds=by)) for by in (30, -30))
    await back(quill)
    assert (len(slack.shown("C1", found)), len(slack.shown("C1", left))) == (1, 0)


async def test_slack_that_asks_to_wait_too_often_is_left_alone(
    slack: SlackServer, quill: Quill, caplog: pytest.LogCaptureFixture
):
    await stopped(quill)
    asked = await unheard(slack, ASKER, "C1", QUESTION)
    slack.script("conversations.history", *[busy(0.01)] * 9)
    slack.calls.clear()
    await back(quill)
    assert not slack.shown("C1", asked)
    assert len(slack.calls_of("conversations.history")) == quill.frugality.most_waits + 1
    assert LEFT_OUT in caplog.text


async def test_after_some_calls_at_once_there_is_a_pause_before_each(slack: SlackServer, quill: Quill):
    await stopped(quill)
    slack.workspace.places |= {f"C{number}": Place(f"C{number}", f"room-{number}") for number in range(10, 14)}
    quill.frugality = replace(quill.frugality, at_once=3, every=0.3)
    slack.calls.clear()
    await back(quill)
    at = [call.at for call in slack.calls_of("conversations.history")]
    assert len(at) == len(slack.workspace.places)
    assert all(after - before >= 0.25 for before, after in pairwise(at[2:]))


async def test_a_connection_that_comes_and_goes_is_not_read_up_each_time(slack: SlackServer, quill: Quill):
    await stopped(quill)
    quill.frugality = replace(quill.frugality, between=3600.0)
    slack.calls.clear()
    await back(quill)
    read = len(slack.calls_of("conversations.history"))
    assert read
    for _ in range(3):
        hellos = len(slack.sockets.hellos)
        await slack.sockets.cut()
        await slack.until(lambda hellos=hellos: len(slack.sockets.hellos) > hellos, 10)  # type: ignore[misc]  # bound
        await quill.connected()
    assert len(slack.calls_of("conversations.history")) == read


async def test_the_caps_that_the_guide_tells_are_those_of_the_code():
    guide = " ".join((Path(__file__).parents[2] / "docs" / "slack.md").read_text(encoding="utf-8").split())
    minutes = int(catch_up.LONGEST_BACK.total_seconds() // 60)
    assert f"those of the last {minutes} minutes, at most {catch_up.IN_CHANNEL} in a channel" in guide
    assert (
        f"and {catch_up.IN_ALL} in all, in at most {catch_up.CHANNELS} channels and {catch_up.THREADS} threads" in guide
    )
