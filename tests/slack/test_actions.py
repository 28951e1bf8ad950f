"""Commands, shortcuts and buttons on Slack."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from adapters.slack import actions, buttons
from adapters.slack.rendering import FEEDBACK
from tests.slack.conftest import AT, Quill, TypingModel
from tests.slack_server import ASKER, BOT_USER, OTHER_BOT, SECOND, Delivery, Fault, SlackServer

QUESTION = "How much oil does the Kestrel pump take?"
ANSWER = "It takes 0.8 L of oil [1]."


async def told(quill: Quill, delivery: Delivery) -> str:
    """What came back with the acknowledgement of a command."""
    await quill.at_rest()
    assert delivery.acked, "not acknowledged"
    return str((delivery.response or {}).get("text") or "")


def shown_to(slack: SlackServer, user: str) -> list[str]:
    """What was shown to one person alone."""
    return [call.args["text"] for call in slack.calls_of("chat.postEphemeral") if call.args["user"] == user]


def ours(slack: SlackServer, thread: str) -> str:
    """The newest message of the bot in a thread."""
    return str([m["ts"] for m in slack.workspace.thread("C1", thread) if m["user"] == BOT_USER][-1])


async def asked(quill: Quill, *, user: str = ASKER) -> str:
    quill.model.replies["generate"].append(ANSWER)
    return await quill.hears(f"{AT} {QUESTION}", user=user)


async def test_ask_puts_the_question_in_the_channel_and_answers_in_its_thread(
    slack: SlackServer, quill: Quill, model: TypingModel
):
    model.replies["generate"].extend([ANSWER] * 2)
    model.replies["rewrite"].append("oil of the Kestrel pump")
    assert await told(quill, slack.command(ASKER, "C1", "/ask", QUESTION + " &lt;!channel&gt;")) == ""
    question, answer = slack.workspace.places["C1"].messages.values()
    assert question["text"] == f"*Asker* asks: {QUESTION} &lt;!channel&gt;"
    assert answer["thread_ts"] == question["ts"]
    await quill.hears("and oil for the Kestrel pump in winter?", thread=question["ts"])
    assert len(slack.shown("C1", question["ts"])) == 3
    assert not slack.pings()


async def test_ask_without_a_question_or_a_place_says_what_to_do(slack: SlackServer, quill: Quill):
    for nothing in ("  ", "\u200b\u2060", AT):
        assert await told(quill, slack.command(ASKER, "C1", "/ask", nothing)) == actions.ASK_WHAT
    slack.workspace.places["C2"].member = False
    assert await told(quill, slack.command(ASKER, "C2", "/ask", QUESTION)) == actions.NOT_HERE
    slack.script("chat.postMessage", Fault(error="ratelimited", status=429))
    assert await told(quill, slack.command(ASKER, "C1", "/ask", QUESTION)) == actions.NOT_NOW


async def test_rewrite_shows_the_askers_own_latest_thread_by_its_name(slack: SlackServer, quill: Quill):
    assert await told(quill, slack.command(ASKER, "C1", "/rewrite")) == actions.NO_QUESTION
    await asked(quill)
    quill.model.replies["generate"].append(ANSWER)
    await quill.hears(f"{AT} My oil secret is 5512. And the Kestrel pump?", user=SECOND)
    text = await told(quill, slack.command(ASKER, "C1", "/rewrite"))
    assert f"“{QUESTION}”" in text
    assert f"Searched for: {QUESTION}" in text
    assert "5512" not in text
    assert await told(quill, slack.command(ASKER, "C2", "/rewrite")) == actions.NO_QUESTION


async def test_context_tells_what_the_model_was_given_for_the_askers_own_latest_question(
    slack: SlackServer, quill: Quill
):
    assert await told(quill, slack.command(ASKER, "C1", "/context")) == actions.NO_QUESTION
    thread = await asked(quill)
    quill.model.replies["generate"].append(ANSWER)
    quill.model.replies["rewrite"].append("oil")
    await quill.hears(f"{AT} {QUESTION}", thread=thread, user=SECOND)
    own = await told(quill, slack.command(ASKER, "C1", "/context"))
    other = await told(quill, slack.command(SECOND, "C1", "/context"))
    assert f"“{QUESTION}”" in own
    assert "Turns:    0 in the last prompt, 1 answered" in own
    assert "Turns:    1 in the last prompt, 2 answered" in other
    assert "; the model counted" in own
    assert not slack.calls_of("chat.postEphemeral")


async def test_forget_removes_the_askers_own_thread_and_no_other(slack: SlackServer, quill: Quill):
    first = await asked(quill)
    second = await asked(quill, user=SECOND)
    quill.model.replies["generate"].append(ANSWER)
    quill.model.replies["rewrite"].append("oil")
    await quill.hears(f"{AT} {QUESTION}", thread=second)
    assert await told(quill, slack.command(ASKER, "C1", "/forget")) == actions.NOT_YOURS
    assert "Removed 2 questions" in await told(quill, slack.command(SECOND, "C1", "/forget"))
    assert not await quill.store.turns(quill.key(second))
    assert "Removed 1 question of" in await told(quill, slack.command(ASKER, "C1", "/forget"))
    assert not await quill.store.turns(quill.key(first))


async def test_help_tells_the_commands(slack: SlackServer, quill: Quill):
    assert "`/rewrite`" in await told(quill, slack.command(ASKER, "C1", "/help"))


async def test_the_shortcut_shows_what_was_searched_for_a_question_or_an_answer_to_one_person(
    slack: SlackServer, quill: Quill
):
    thread = await asked(quill)
    answer = ours(slack, thread)
    other = slack.says(SECOND, "C1", "not for you")
    for ts in (thread, answer, other):
        delivery = slack.shortcut(SECOND, "C1", ts, actions.SHOW_QUERY)
        await quill.at_rest()
        assert delivery.acked
    by_question, by_answer, nothing = shown_to(slack, SECOND)
    assert by_question == by_answer
    assert f"Searched for: {QUESTION}" in by_question
    assert nothing == actions.NO_SEARCH
    assert len(quill.model.asked("generate")) == 1
    assert slack.calls_of("chat.postEphemeral")[1].args["thread_ts"] == thread


async def test_a_message_of_another_app_shows_nothing_of_another_channel(slack: SlackServer, quill: Quill):
    thread = await asked(quill)
    blocks = slack.workspace.places["C1"].messages[ours(slack, thread)]["blocks"]
    forged = slack.workspace.add("C2", user="U0OTHER", bot_id=OTHER_BOT, text="x", blocks=blocks)
    slack.shortcut(SECOND, "C2", forged["ts"], actions.SHOW_QUERY)
    await quill.at_rest()  # two clicks at once are handled side by side
    slack.clicks(SECOND, "C2", forged["ts"], FEEDBACK, "helpful")
    await quill.at_rest()
    assert shown_to(slack, SECOND) == [actions.NO_SEARCH, buttons.GONE]


async def test_the_shortcut_to_forget_is_for_whoever_opened_the_thread(slack: SlackServer, quill: Quill):
    thread = await asked(quill)
    slack.shortcut(SECOND, "C1", ours(slack, thread), actions.FORGET)
    await quill.at_rest()
    assert shown_to(slack, SECOND) == [actions.NOT_YOURS]
    slack.shortcut(ASKER, "C1", ours(slack, thread), actions.FORGET)
    await quill.at_rest()
    assert "Removed 1 question" in shown_to(slack, ASKER)[0]
    assert not await quill.store.turns(quill.key(thread))


async def test_feedback_is_stored_with_the_turn_and_the_last_word_counts(slack: SlackServer, quill: Quill):
    thread = await asked(quill)
    answer = ours(slack, thread)
    for user, value in ((ASKER, "helpful"), (SECOND, "not_helpful"), (ASKER, "not_helpful")):
        slack.clicks(user, "C1", answer, FEEDBACK, value)
        await quill.at_rest()
    with closing(sqlite3.connect(quill.path)) as database:
        rows = database.execute("SELECT person, helpful FROM feedback ORDER BY person").fetchall()
    assert rows == [(ASKER, 0), (SECOND, 0)]
    assert shown_to(slack, ASKER) == [buttons.THANKS] * 2


async def test_feedback_on_what_is_forgotten_says_so(slack: SlackServer, quill: Quill):
    thread = await asked(quill)
    await told(quill, slack.command(ASKER, "C1", "/forget"))
    slack.clicks(ASKER, "C1", ours(slack, thread), FEEDBACK, "helpful")
    await quill.at_rest()
    assert shown_to(slack, ASKER) == [buttons.GONE]


async def test_buttons_and_shortcuts_of_former_versions_are_acknowledged(slack: SlackServer, quill: Quill):
    ts = slack.says(ASKER, "C1", "x")
    deliveries = [slack.clicks(ASKER, "C1", ts, "gone"), slack.shortcut(ASKER, "C1", ts, "gone")]
    await quill.at_rest()
    assert all(delivery.acked for delivery in deliveries)
