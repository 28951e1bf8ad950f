"""Answers that grow by Slack's own streaming, and what becomes of them where it ends or fails."""

from __future__ import annotations

import re

import pytest

from adapters.notices import WORKING
from adapters.ports import Phase, Post
from adapters.slack.rendering import STOP
from adapters.slack.streams import APPEND_SECONDS, BYTES, SECONDS, STARTS_A_MINUTE
from tests.slack.conftest import AT, Quill, TypingModel
from tests.slack.test_actions import ours
from tests.slack.test_delivery import LOST
from tests.slack_server import ASKER, TEAM, Fault, SlackServer, busy
from tests.slack_server.limits import PER_MINUTE, STREAM_BYTES, TASK_CHARS
from tests.slack_server.methods import Methods
from tests.slack_server.state import Workspace

QUESTION = f"{AT} How much oil does the Kestrel pump take?"
ANSWER = "It takes 0.8 L of oil [1]."
WORDS = [f"word{number}" for number in range(120)]
PIECES = [f"{word} " for word in WORDS] + ["[1]"]
ENDLESS = [f"word{number} " for number in range(2000)]
STREAM = ("chat.startStream", "chat.appendStream", "chat.stopStream")


@pytest.fixture
async def streaming(quill: Quill) -> Quill:
    await quill.restart(streams=True)
    quill.socket.channel.shortest_pace = 0.1
    quill.socket.channel.streams.append_seconds = 0.0
    quill.model.between = 0.01
    return quill


def answered(slack: SlackServer, thread: str, words: list[str] = WORDS) -> None:
    """Fails if the thread does not show one answer, whole and once."""
    assert re.findall(r"word\d+", "\n".join(slack.shown("C1", thread))) == words
    assert not slack.growing("C1", thread)
    own = [message for message in slack.workspace.thread("C1", thread) if message.get("bot_id")]
    assert all("metadata" in message for message in own)


async def test_an_answer_grows_by_appending_and_ends_as_any_other(slack: SlackServer, streaming: Quill):
    streaming.model.replies["generate"].append(PIECES)
    asked = await streaming.hears(QUESTION)
    answered(slack, asked)
    (start,) = slack.calls_of("chat.startStream")
    assert (start.args["thread_ts"], start.args["recipient_user_id"]) == (asked, ASKER)
    assert start.args["recipient_team_id"] == TEAM
    assert len(slack.calls_of("chat.appendStream")) > 5
    assert [call.method for call in slack.calls_of("chat.stopStream", "chat.update")] == [
        "chat.stopStream",
        "chat.update",
    ]
    assert not slack.calls_of("chat.postMessage")
    assert {call.outcome for call in slack.calls} == {"ok"}
    grown = slack.methods.appended
    assert grown == sorted(grown)
    assert "Page d1" in slack.shown("C1", asked)[0]


async def test_what_is_streamed_notifies_nobody(slack: SlackServer, streaming: Quill):
    pieces = [
        "<!channel> ask <@U0ASKER> & see <!ch",
        "annel>, a<b, <",
        "!here> ",
        "<!subteam^S1|@crew> <#C2|ops> ",
        *PIECES,
    ]
    streaming.model.replies["generate"].append(pieces)
    asked = await streaming.hears(QUESTION)
    assert len(slack.calls_of("chat.appendStream")) > 5
    assert not slack.pings()
    answered(slack, asked)


@pytest.mark.parametrize("error", ["unknown_method", "missing_scope", "missing_recipient_user_id", "not_in_channel"])
async def test_where_there_are_no_streams_it_is_posted_and_not_tried_each_time(
    slack: SlackServer, streaming: Quill, error: str
):
    slack.script("chat.startStream", *[Fault(error=error)] * 3)
    streaming.model.replies["generate"].extend([ANSWER] * 3)
    for _ in range(3):
        asked = await streaming.hears(QUESTION)
        answered(slack, asked, [])
        assert ANSWER in slack.shown("C1", asked)[0]
    assert len(slack.calls_of("chat.startStream")) == 1
    assert len(slack.calls_of("chat.postMessage")) == 3


async def test_when_slack_ends_a_stream_its_message_goes_on_by_updates(slack: SlackServer, streaming: Quill):
    slack.methods.stream_seconds = 0.3
    streaming.model.replies["generate"].append(PIECES)
    asked = await streaming.hears(QUESTION)
    answered(slack, asked)
    assert "message_not_in_streaming_state" in {call.outcome for call in slack.calls_of(*STREAM)}
    assert len(slack.calls_of("chat.update")) > 2
    assert len(slack.shown("C1", asked)) == 1


async def test_a_stream_is_ended_before_slack_does(slack: SlackServer, streaming: Quill):
    streaming.socket.channel.streams.seconds = 0.3
    streaming.model.replies["generate"].append(PIECES)
    asked = await streaming.hears(QUESTION)
    answered(slack, asked)
    assert {call.outcome for call in slack.calls} == {"ok"}
    assert len(slack.calls_of("chat.stopStream")) == 1
    assert len(slack.calls_of("chat.update")) > 2


@pytest.mark.parametrize("tail", ["", "äöü€", "油の量"], ids=["ASCII", "letters of two bytes", "of three"])
async def test_more_than_a_streamed_message_takes_comes_when_it_is_complete(
    slack: SlackServer, streaming: Quill, tail: str
):
    words = [f"word{number:05}" for number in range(1300 if not tail else 900)]
    text = " ".join(f"{word} {tail}" for word in words) + " [1]"
    streaming.model.between = 0.0
    # All is there some time before the end.
    streaming.model.replies["generate"].append([*(text[at : at + 200] for at in range(0, len(text), 200)), 1.0, "."])
    asked = await streaming.hears(QUESTION)
    answered(slack, asked, words)
    assert {call.outcome for call in slack.calls} == {"ok"}
    assert slack.methods.appended[-1] > BYTES - 200, "and the beginning was streamed"


def test_the_own_limits_are_within_those_of_slack():
    assert Methods(Workspace(), lambda _: None).stream_seconds > SECONDS
    assert BYTES + TASK_CHARS < STREAM_BYTES
    assert min(PER_MINUTE["chat.startStream"], PER_MINUTE["chat.stopStream"]) > STARTS_A_MINUTE


@pytest.mark.parametrize("error", ["msg_too_long", "invalid_chunks", "streaming_mode_mismatch"])
async def test_an_append_that_slack_refuses_is_the_last_and_the_message_is_updated(
    slack: SlackServer, streaming: Quill, error: str
):
    slack.script("chat.appendStream", Fault(error=error))
    streaming.model.replies["generate"].append(PIECES)
    asked = await streaming.hears(QUESTION)
    answered(slack, asked)
    assert len(slack.calls_of("chat.appendStream")) == 1


async def test_however_many_answers_grow_their_appends_are_within_slacks_pace(slack: SlackServer, streaming: Quill):
    streams = streaming.socket.channel.streams
    streams.append_seconds = APPEND_SECONDS
    for number in range(1, STARTS_A_MINUTE + 1):
        thread = str(slack.workspace.add("C1", user=ASKER, text="?")["ts"])
        post = Post(
            thread=streaming.key(thread),
            key=f"{number:016x}",
            reply_to=thread,
            part=0,
            body=WORKING,
            phase=Phase.WAITING,
            asker=ASKER,
        )
        assert await streams.start(post) is not None
        pause = streaming.socket.channel.pace
        assert number * 60 / pause <= PER_MINUTE["chat.appendStream"]


async def test_between_two_appends_the_pace_is_kept(slack: SlackServer, streaming: Quill):
    """A pause that is longer than the answer takes leaves room for one append before, and its end is not held up."""
    streaming.socket.channel.streams.append_seconds = 60.0
    streaming.model.replies["generate"].append(PIECES)
    asked = await streaming.hears(QUESTION)
    answered(slack, asked)
    assert len(slack.calls_of("chat.appendStream")) <= 1


@pytest.mark.parametrize("method", STREAM)
@pytest.mark.parametrize("what", LOST)
async def test_a_call_that_fails_leaves_one_answer(slack: SlackServer, streaming: Quill, method: str, what: str):
    slack.script(method, LOST[what])
    streaming.model.replies["generate"].append(PIECES)
    asked = await streaming.hears(QUESTION)
    answered(slack, asked)
    assert len(slack.shown("C1", asked)) == 1
    assert len(streaming.model.asked("generate")) == 1


async def test_a_lost_start_that_is_not_found_at_once_is_found_in_the_end(slack: SlackServer, streaming: Quill):
    slack.script("chat.startStream", Fault(applied=True, end="reset", delay=0.1))
    slack.script("conversations.replies", Fault(body='{"ok": true, "messages": []}', headers={}))
    streaming.model.replies["generate"].append(PIECES)
    asked = await streaming.hears(QUESTION)
    answered(slack, asked)
    assert len(slack.shown("C1", asked)) == 1
    assert len(slack.calls_of("chat.postMessage", "chat.startStream")) == 2


@pytest.mark.parametrize("method", STREAM)
async def test_a_stream_waits_when_slack_asks_it_to(slack: SlackServer, streaming: Quill, method: str):
    slack.script(method, busy(0.2), busy(0.2))
    streaming.model.replies["generate"].append(PIECES)
    answered(slack, await streaming.hears(QUESTION))


async def test_when_the_reader_ends_a_stream_the_answer_is_stopped(slack: SlackServer, streaming: Quill):
    streaming.model.replies["generate"].append(ENDLESS)
    thread = slack.says(ASKER, "C1", QUESTION)
    await slack.until(lambda: any("word0" in text for text in slack.growing("C1", thread)))
    slack.methods.stopped_by_user.add(ours(slack, thread))
    await streaming.at_rest()
    (shown,) = slack.shown("C1", thread)
    assert "(stopped)" in shown
    assert not slack.growing("C1", thread)


async def test_the_stop_button_of_a_stream_stops_it(slack: SlackServer, streaming: Quill):
    streaming.model.replies["generate"].append(ENDLESS)
    thread = slack.says(ASKER, "C1", QUESTION)
    await slack.until(lambda: any("word0" in text for text in slack.growing("C1", thread)))
    slack.clicks(ASKER, "C1", ours(slack, thread), STOP)
    await streaming.at_rest()
    assert "(stopped)" in slack.shown("C1", thread)[0]


async def test_a_question_that_is_deleted_takes_its_stream_along(slack: SlackServer, streaming: Quill):
    streaming.model.replies["generate"].append(ENDLESS)
    thread = slack.says(ASKER, "C1", QUESTION)
    await slack.until(lambda: any("word0" in text for text in slack.growing("C1", thread)))
    slack.deletes("C1", thread)
    await slack.until(lambda: not slack.shown("C1", thread))
    await streaming.at_rest()


async def test_an_edit_in_the_middle_begins_the_same_message_anew(slack: SlackServer, streaming: Quill):
    streaming.model.replies["generate"].extend([[f"old{number} " for number in range(2000)], PIECES])
    thread = slack.says(ASKER, "C1", QUESTION)
    await slack.until(lambda: any("old" in text for text in slack.growing("C1", thread)))
    slack.edits("C1", thread, f"{QUESTION} In winter?")
    await streaming.at_rest()
    answered(slack, thread)
    assert "old" not in slack.shown("C1", thread)[0]
    assert len(slack.shown("C1", thread)) == 1


async def test_of_many_at_once_only_as_many_are_streamed_as_slack_takes(slack: SlackServer, streaming: Quill):
    many = STARTS_A_MINUTE + 6
    streaming.model.between = 0.0
    streaming.model.replies["generate"].extend([ANSWER] * many)
    slack.workspace.names |= {f"U0ASKER{number}": f"Asker {number}" for number in range(many)}
    places = [("C1", "C2")[number % 2] for number in range(many)]  # one channel alone may not have so many waiting
    threads = [(place, slack.says(f"U0ASKER{number}", place, QUESTION)) for number, place in enumerate(places)]
    await streaming.at_rest()
    for place, thread in threads:
        (shown,) = slack.shown(place, thread)
        assert ANSWER in shown
    assert len(slack.calls_of("chat.startStream")) <= STARTS_A_MINUTE
    assert not [call for call in slack.calls_of(*STREAM) if call.outcome != "ok"]
    assert not slack.pings()


@pytest.mark.usefixtures("model")
async def test_without_streaming_none_of_its_methods_is_called(slack: SlackServer, quill: Quill, model: TypingModel):
    model.replies["generate"].append(ANSWER)
    await quill.hears(QUESTION)
    assert not slack.calls_of(*STREAM)
