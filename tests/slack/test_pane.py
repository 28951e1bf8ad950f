"""The agent pane and App Home."""

from __future__ import annotations

import pytest

from adapters.slack.pane import GREETING
from tests.slack.conftest import Quill, TypingModel
from tests.slack_server import ASKER, Fault, SlackServer
from tests.slack_server.limits import texts_of

QUESTION = "How much oil does the Kestrel pump take?"
PROMPTS = "assistant.threads.setSuggestedPrompts"


async def test_the_pane_suggests_what_there_is_to_ask(slack: SlackServer, quill: Quill):
    slack.event({"type": "app_home_opened", "user": ASKER, "channel": "D1", "tab": "messages", "event_ts": "1.1"})
    await slack.until(lambda: bool(slack.calls_of(PROMPTS)))
    prompts = slack.calls_of(PROMPTS)[0].args["prompts"]
    assert [prompt["title"] for prompt in prompts] == ["What can you help with?", "Kestrel pump", "Heron valve"]
    assert all(prompt["message"] for prompt in prompts)
    assert not slack.calls_of("chat.postMessage")


async def test_a_thread_in_the_pane_of_an_older_app_is_greeted(slack: SlackServer, quill: Quill):
    root = slack.workspace.add("D1", user=ASKER, text="")["ts"]
    thread = {"user_id": ASKER, "channel_id": "D1", "thread_ts": root, "context": {}}
    slack.event({"type": "assistant_thread_started", "assistant_thread": thread})
    await slack.until(lambda: bool(slack.calls_of(PROMPTS)))
    assert slack.shown("D1", root) == [GREETING]
    assert slack.calls_of(PROMPTS)[0].args["thread_ts"] == root


async def test_a_question_in_the_pane_shows_that_it_is_worked_on_and_names_the_thread(
    slack: SlackServer, quill: Quill, model: TypingModel
):
    model.replies["generate"].extend(["It takes 0.8 L [1]."] * 2)
    model.replies["rewrite"].append("oil")
    asked = await quill.hears(QUESTION, "D1")
    await quill.hears("and oil for the Kestrel pump?", "D1", thread=asked)
    await slack.until(lambda: len(slack.calls_of("assistant.threads.setStatus")) == 2)
    (title,) = slack.calls_of("assistant.threads.setTitle")
    assert (title.args["title"], title.args["thread_ts"]) == (QUESTION, asked)


@pytest.mark.parametrize("fault", [Fault(error="unknown_method"), Fault(status=500), Fault(error="missing_scope")])
async def test_without_a_pane_questions_are_answered_all_the_same(
    slack: SlackServer, quill: Quill, model: TypingModel, fault: Fault
):
    slack.script("assistant.threads.setStatus", fault)
    model.replies["generate"].extend(["It takes 0.8 L [1]."] * 2)
    for _ in range(2):
        asked = await quill.hears(QUESTION, "D1")
        assert len(slack.shown("D1", asked)) == 1
    assert len(slack.calls_of("assistant.threads.setStatus")) == (2 if fault.status == 500 else 1)


async def test_app_home_tells_what_the_bot_knows_and_how_to_ask(slack: SlackServer, quill: Quill):
    quill.topics += [f"<Page> & {number} {'x' * 200}" for number in range(90)]
    slack.event({"type": "app_home_opened", "user": ASKER, "channel": "D1", "tab": "home"})
    await slack.until(lambda: bool(slack.methods.views))
    (view,) = slack.methods.views
    shown = "\n".join(texts_of(view["blocks"]))
    assert "• Kestrel pump\n• Heron valve\n• &lt;Page&gt; &amp; 0" in shown
    assert "… and more" in shown
    assert "Show rewritten query" in shown
