"""The buttons under answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from adapters.slack import buttons, intake
from adapters.slack.rendering import EXACT, QUERY, STOP, TRY_AGAIN
from tests.slack.conftest import AT, QUICK, Quill, TypingModel
from tests.slack.test_actions import ANSWER, QUESTION, asked, ours, shown_to
from tests.slack_server import ASKER, SECOND, SlackServer

STAFF = "U0STAFF"


def labels(slack: SlackServer, ts: str, channel: str = "C1") -> list[str]:
    """What stands on the buttons of a message, feedback aside."""
    found = [block for block in slack.workspace.places[channel].messages[ts]["blocks"] if block["type"] == "actions"]
    return [element["text"]["text"] for block in found for element in block["elements"]]


async def growing(slack: SlackServer, quill: Quill) -> str:
    """A question whose answer is being written, and never ends by itself."""
    quill.model.between = 0.05
    quill.model.replies["generate"].append(["word "] * 2000)
    thread = slack.says(ASKER, "C1", f"{AT} {QUESTION}")
    await slack.until(lambda: "word" in "".join(slack.shown("C1", thread)))
    return thread


@pytest.mark.parametrize(("user", "told"), [(ASKER, buttons.STOPPED), (STAFF, buttons.STOPPED)])
async def test_an_answer_can_be_stopped_by_its_asker_and_by_staff(
    slack: SlackServer, quill: Quill, user: str, told: str
):
    await quill.restart(staff=frozenset({STAFF}))
    thread = await growing(slack, quill)
    answer = ours(slack, thread)
    assert labels(slack, answer) == ["Stop"]
    slack.clicks(SECOND, "C1", answer, STOP)
    await slack.until(lambda: shown_to(slack, SECOND) == [buttons.NOT_YOURS])
    slack.clicks(user, "C1", answer, STOP)
    await quill.at_rest()
    assert shown_to(slack, user) == [told]
    (shown,) = slack.shown("C1", thread)
    assert "(stopped)" in shown
    assert labels(slack, answer) == ["Show query", "Try again"]
    slack.clicks(user, "C1", answer, STOP)
    await quill.at_rest()
    assert shown_to(slack, user)[-1] == buttons.OVER


async def test_try_again_answers_again_below_whoever_presses_it(slack: SlackServer, quill: Quill):
    thread = await asked(quill)
    quill.model.replies["generate"].append("A litre [1].")
    quill.model.replies["rewrite"].append("oil of the Kestrel pump")
    slack.clicks(SECOND, "C1", ours(slack, thread), TRY_AGAIN)
    await quill.at_rest()
    first, second = slack.shown("C1", thread)
    assert first.startswith(ANSWER)
    assert second.startswith("A litre [1].")
    assert shown_to(slack, SECOND) == [buttons.ASKED]
    _, turn = await quill.store.turns(quill.key(thread))
    assert (turn.typed, turn.author) == (QUESTION, "Second")


async def test_the_query_is_shown_with_a_way_back_to_the_typed_words(slack: SlackServer, quill: Quill):
    thread = await asked(quill)
    quill.model.replies["generate"].extend([ANSWER] * 2)
    quill.model.replies["rewrite"].append("filter of the Kestrel pump")
    await quill.hears("and its filter?", thread=thread)
    slack.clicks(SECOND, "C1", ours(slack, thread), QUERY)
    await quill.at_rest()
    assert "Searched for: filter of the Kestrel pump" in shown_to(slack, SECOND)[0]
    (whisper,) = slack.calls_of("chat.postEphemeral")
    (button,) = whisper.args["blocks"][1]["elements"]
    assert button["action_id"] == EXACT
    # What one person alone sees is no message that Slack keeps.
    slack.clicks_unkept(SECOND, "C1", EXACT, button["value"], thread)
    await quill.at_rest()
    *_, turn = await quill.store.turns(quill.key(thread))
    assert turn.searched == "and its filter?"
    assert len(quill.model.asked("rewrite")) == 1


async def test_an_edited_question_can_be_answered_again(slack: SlackServer, quill: Quill):
    thread = await asked(quill)
    slack.edits("C1", thread, f"{AT} How much oil does the Kestrel pump take in winter?")
    await quill.at_rest()
    await slack.until(lambda: bool(shown_to(slack, ASKER)))
    (whisper,) = slack.calls_of("chat.postEphemeral")
    assert whisper.args["text"] == intake.EDITED
    (button,) = whisper.args["blocks"][1]["elements"]
    quill.model.replies["generate"].append("A litre [1].")
    quill.model.replies["rewrite"].append("oil of the Kestrel pump in winter")
    slack.clicks_unkept(ASKER, "C1", TRY_AGAIN, button["value"], thread)
    await quill.at_rest()
    assert slack.shown("C1", thread)[1].startswith("A litre [1].")
    assert "in winter?" in quill.asked()[-1]


async def test_a_button_of_what_is_forgotten_says_so(slack: SlackServer, quill: Quill):
    thread = await asked(quill)
    await quill.dispatcher.forget(quill.key(thread))
    for action in (TRY_AGAIN, QUERY):
        slack.clicks(ASKER, "C1", ours(slack, thread), action)
        await quill.at_rest()
    assert shown_to(slack, ASKER) == [buttons.GONE] * 2


async def test_buttons_work_after_a_restart(slack: SlackServer, quill: Quill):
    thread = await asked(quill)
    await quill.restart()
    slack.clicks(ASKER, "C1", ours(slack, thread), QUERY)
    await quill.at_rest()
    assert QUESTION in shown_to(slack, ASKER)[0]


async def test_of_many_that_are_refused_each_is_told_so_alone(slack: SlackServer, quill: Quill, model: TypingModel):
    quill.dispatcher.rules = quill.dispatcher._door._rules = replace(QUICK, free_bytes=10**18)
    threads = [slack.says(ASKER, "C1", f"{AT} {QUESTION} {number}") for number in range(5)]
    await quill.at_rest()
    await slack.until(lambda: shown_to(slack, ASKER) == [intake.TOO_MANY] * 4)
    assert sum(len(slack.shown("C1", thread)) for thread in threads) == 1
    await asyncio.sleep(0)


async def test_where_the_bot_does_not_speak_a_mention_is_told_so_alone(slack: SlackServer, quill: Quill):
    await quill.restart(channels=frozenset({"C2"}), direct_messages=False)
    await quill.hears(f"{AT} {QUESTION}")
    await quill.hears("Not for the bot.")
    await quill.hears(QUESTION, "D1")
    await slack.until(lambda: len(shown_to(slack, ASKER)) == 2)
    assert sorted(shown_to(slack, ASKER)) == sorted([intake.NOT_HERE, intake.NOT_ALONE])
    assert not slack.calls_of("chat.postMessage")
