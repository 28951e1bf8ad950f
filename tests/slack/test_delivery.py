"""Answers on their way to Slack: within its limits, through its faults, in one place."""

from __future__ import annotations

import asyncio
import re

import pytest

from adapters.slack.channel import EVENT
from tests.slack.conftest import AT, Quill, TypingModel
from tests.slack_server import ASKER, BOT_USER, OTHER_BOT, Fault, SlackServer, busy

QUESTION = f"{AT} How much oil does the Kestrel pump take?"
ANSWER = "It takes 0.8 L of oil [1]."
WORDS = [f"word{number}" for number in range(1100)]
LONG = " ".join(WORDS) + " [1]"


async def test_a_long_answer_is_whole_in_order_and_nothing_is_refused(
    slack: SlackServer, quill: Quill, model: TypingModel
):
    model.replies["generate"].append([LONG[at : at + 40] for at in range(0, len(LONG), 40)])
    asked = await quill.hears(QUESTION)
    shown = slack.shown("C1", asked)
    assert len(shown) >= 3
    assert re.findall(r"word\d+", "\n".join(shown)) == WORDS
    assert "Page d1" in shown[-1]
    assert "Page d1" not in "".join(shown[:-1])
    assert {call.outcome for call in slack.calls} == {"ok"}
    assert len(slack.calls_of("chat.postMessage")) == len(shown)


async def test_every_call_keeps_unfurling_off_and_pings_nobody(slack: SlackServer, quill: Quill, model: TypingModel):
    pieces = ["<!channel> ask <@U0ASKER> & see <!ch", "annel>, a<b, ", "<!subteam^S1|@crew> <#C2|ops> ", "word " * 900]
    model.replies["generate"].append(pieces)
    asked = await quill.hears(QUESTION)
    assert "&lt;!channel&gt; ask &lt;@U0ASKER&gt; &amp; see" in slack.shown("C1", asked)[0]
    assert len(slack.calls_of("chat.update")) > 1
    assert not slack.pings()
    posts = slack.calls_of("chat.postMessage")
    assert all(call.args["unfurl_links"] is False and call.args["unfurl_media"] is False for call in posts)
    assert not any("link_names" in call.args or call.args.get("parse") == "full" for call in slack.calls)


@pytest.mark.parametrize("fault", [busy(0.3), busy(0.3, status=200), busy(None), Fault(status=429, body="<html>")])
async def test_the_last_update_is_repeated_until_it_is_taken(
    slack: SlackServer, quill: Quill, model: TypingModel, fault: Fault
):
    slack.script("chat.update", *[fault] * 2)
    model.replies["generate"].append(ANSWER)
    asked = await quill.hears(QUESTION)
    (shown,) = slack.shown("C1", asked)
    assert ANSWER in shown
    assert sum(call.outcome == "ok" for call in slack.calls_of("chat.update")) >= 1


@pytest.mark.parametrize("method", ["chat.update", "chat.postMessage"])
async def test_while_slack_asks_to_wait_before_a_method_nobody_calls_it(
    slack: SlackServer, quill: Quill, model: TypingModel, method: str
):
    slack.paced = False
    model.replies["generate"].extend([[f"word{number} " for number in range(60)]] * 9)
    model.between = 0.02
    asked = [slack.says(f"U{number}", "C1", QUESTION) for number in range(4)]
    await slack.until(lambda: len(slack.calls_of("chat.update")) > 4)
    slack.script(method, busy(1.0))
    asked += [slack.says(f"U{number}", "C1", QUESTION) for number in range(4, 9)]
    await quill.at_rest()
    (refused,) = [call for call in slack.calls if call.outcome == "ratelimited"]
    # What was under way at that moment is there a little later.
    assert not [call for call in slack.calls_of(method) if refused.at + 0.2 < call.at < refused.at + 0.9]
    assert [len(slack.shown("C1", ts)) for ts in asked] == [1] * 9


async def test_a_method_that_is_to_wait_in_one_channel_is_called_in_another(
    slack: SlackServer, quill: Quill, model: TypingModel
):
    """Posts are counted by channel."""
    model.replies["generate"].extend([ANSWER] * 2)
    slack.script("chat.postMessage", busy(2.0))
    slow = slack.says(ASKER, "C1", QUESTION)
    await slack.until(lambda: bool(slack.calls_of("chat.postMessage")))
    asked = slack.says(ASKER, "C2", QUESTION)
    await slack.until(lambda: ANSWER in "".join(slack.shown("C2", asked)), 1.5)
    assert not slack.shown("C1", slow)
    await quill.at_rest()
    assert len(slack.shown("C1", slow)) == 1


@pytest.mark.parametrize("method", ["chat.postMessage", "chat.update"])
async def test_a_limit_of_an_hour_is_kept_and_the_next_process_delivers(
    slack: SlackServer, quill: Quill, model: TypingModel, method: str
):
    """F3."""
    model.replies["generate"].extend([ANSWER] * 2)
    slack.script(method, *[busy(3600)] * 99)
    asked = slack.says(ASKER, "C1", QUESTION)
    await slack.until(lambda: bool(slack.calls_of(method)) and bool(model.asked("generate")), 15)
    await asyncio.sleep(0.5)
    assert [call.outcome for call in slack.calls_of(method)] == ["ratelimited"], "it waits"
    slack.nemesis = False
    await quill.restart()
    await slack.until(lambda: ANSWER in "".join(slack.shown("C1", asked)), 10)
    await quill.at_rest()
    assert len(slack.shown("C1", asked)) == 1


LOST = {
    "applied, reply lost by a reset": Fault(applied=True, end="reset"),
    "applied, reply lost by an end": Fault(applied=True, end="cut"),
    "applied, 500": Fault(applied=True, status=500),
    "applied, HTML": Fault(applied=True, status=200, body="<html>oops</html>"),
    "not applied, 503": Fault(status=503),
    "not applied, reset": Fault(end="reset"),
    "not applied, fatal": Fault(error="fatal_error"),
}


@pytest.mark.parametrize("method", ["chat.postMessage", "chat.update", "conversations.replies"])
@pytest.mark.parametrize("what", LOST)
async def test_a_call_that_fails_leaves_one_answer(
    slack: SlackServer, quill: Quill, model: TypingModel, method: str, what: str
):
    if method == "conversations.replies":
        slack.script("chat.postMessage", LOST["applied, reply lost by a reset"])
    slack.script(method, LOST[what])
    model.replies["generate"].append(ANSWER)
    asked = await quill.hears(QUESTION)
    (shown,) = slack.shown("C1", asked)
    assert ANSWER in shown
    assert len(model.asked("generate")) == 1


async def test_an_app_that_copies_the_key_is_not_taken_for_us(slack: SlackServer, quill: Quill, model: TypingModel):
    def forge(method: str, args: dict[str, object]) -> None:
        if method == "chat.postMessage":
            slack.workspace.add(
                "C1", str(args["thread_ts"]), user="U0OTHER", bot_id=OTHER_BOT, metadata=args["metadata"]
            )

    slack.on_call = forge
    slack.script("chat.postMessage", Fault(status=503))
    model.replies["generate"].append(ANSWER)
    asked = await quill.hears(QUESTION)
    (shown,) = slack.shown("C1", asked)
    assert ANSWER in shown


async def test_blocks_that_slack_refuses_are_left_out_and_the_text_is_shown(
    slack: SlackServer, quill: Quill, model: TypingModel
):
    slack.script("chat.postMessage", Fault(error="invalid_blocks"))
    slack.script("chat.update", Fault(error="msg_blocks_too_long"))
    model.replies["generate"].append(ANSWER)
    asked = await quill.hears(QUESTION)
    (shown,) = slack.shown("C1", asked)
    assert shown.startswith(ANSWER)
    assert "Page d1" in shown


@pytest.mark.parametrize("error", ["channel_not_found", "is_archived", "not_in_channel", "thread_not_found"])
async def test_a_place_that_is_gone_ends_the_question(slack: SlackServer, quill: Quill, model: TypingModel, error: str):
    model.replies["generate"].extend([ANSWER] * 2)
    slack.script("chat.postMessage", Fault(error=error))
    asked = await quill.hears(QUESTION)
    assert not slack.shown("C1", asked)
    assert len(slack.calls_of("chat.postMessage")) == 1
    again = await quill.hears(QUESTION)
    assert len(slack.shown("C1", again)) == 1


async def test_a_placeholder_that_is_deleted_ends_the_answer_and_the_thread_goes_on(
    slack: SlackServer, quill: Quill, model: TypingModel
):
    deleted: list[str] = []

    def delete(method: str, args: dict[str, object]) -> None:
        growing = [m["ts"] for m in slack.workspace.places["C1"].messages.values() if "three" in m["text"]]
        for ts in growing if method == "chat.update" and not deleted else []:
            deleted.append(ts)
            slack.workspace.remove("C1", ts)

    slack.on_call = delete
    words = ["one ", "two ", "three ", *(f"word{number} " for number in range(200))]
    model.replies["generate"].extend([words, ANSWER])
    quill.model.between = 0.01
    asked = await quill.hears(QUESTION)
    assert not slack.shown("C1", asked)
    quill.model.between = 0.0
    await quill.hears(QUESTION, thread=asked)
    assert ANSWER in slack.shown("C1", asked)[-1]


@pytest.mark.parametrize("blank", ["", "   ", "<end_of_turn>", "\u200b"])
async def test_a_blank_answer_is_a_sentence_and_no_blank_call_is_made(
    slack: SlackServer, quill: Quill, model: TypingModel, blank: str
):
    model.replies["generate"].extend([blank] * 3)
    asked = await quill.hears(QUESTION)
    (shown,) = slack.shown("C1", asked)
    assert shown.strip()
    assert {call.outcome for call in slack.calls} == {"ok"}


async def test_a_question_that_fails_says_so(slack: SlackServer, quill: Quill, model: TypingModel):
    quill.retriever.error = RuntimeError("boom")
    model.replies["generate"].extend([RuntimeError("boom")] * 3)  # type: ignore[list-item]
    asked = await quill.hears(QUESTION)
    (shown,) = slack.shown("C1", asked)
    assert "boom" not in shown
    assert shown.strip()


async def test_a_token_that_is_revoked_stops_all_calls(slack: SlackServer, quill: Quill, model: TypingModel):
    model.replies["generate"].append(ANSWER)
    slack.script("chat.postMessage", *[Fault(error="token_revoked")] * 9)
    slack.says(ASKER, "C1", QUESTION)
    await slack.until(quill.running.done, 10)
    assert "token_revoked" in str(quill.running.exception())
    assert sum(call.outcome == "token_revoked" for call in slack.calls) <= 3


async def test_a_message_of_ours_names_its_question(slack: SlackServer, quill: Quill, model: TypingModel):
    model.replies["generate"].append(ANSWER)
    asked = await quill.hears(QUESTION)
    (ours,) = [m for m in slack.workspace.thread("C1", asked) if m["user"] == BOT_USER]
    assert ours["metadata"]["event_type"] == EVENT
    assert ours["metadata"]["event_payload"]["reply_to"] == asked
