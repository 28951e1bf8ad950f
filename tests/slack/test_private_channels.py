"""Documents that only a private channel may see are shown there, and nowhere else.

The index is a real one, and the model is as indiscreet as can be: it repeats all that it was told.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from adapters.slack.actions import FORGET, NO_QUESTION, NO_SEARCH, RESET_HERE, SHOW_QUERY
from adapters.slack.rendering import BUTTONS
from bot.config import load
from bot.run import public_titles
from bot.wiring import scope_by
from core.index.document import Block, Document, Kind
from core.index.index import open_index
from core.index.ingest import ingest_documents
from core.types import ChatRequest, Delta, FinishReason
from tests.index.fakes import BagOfWords
from tests.slack.conftest import AT, Quill, TypingModel
from tests.slack.test_actions import told
from tests.slack_server import ASKER, BOT_USER, OTHER_BOT, SECOND, SlackServer

QUESTION = "What does the Kestrel pump cost?"
SECRET = "CANARY"
PRIVATE = "G1"


class Indiscreet(TypingModel):
    """Says every secret that it was told, in answers, rewrites and summaries."""

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        self.requests.append(request)
        told = " ".join(dict.fromkeys(re.findall(rf"{SECRET}-\w+", str(request.messages))))
        match request.purpose:
            case "rewrite":
                text = f"{QUESTION} {told}"
            case "generate":
                text = f"It costs {told or 'what is not known'} [1]."
            case _:
                text = f"They talked about the cost of the Kestrel pump: {told}."
        yield Delta(text=text)
        yield Delta(finish=FinishReason.STOP)


@pytest.fixture
def model() -> TypingModel:
    return Indiscreet()


def page(title: str, text: str) -> Document:
    return Document(title=title, source=f"{title}.md", blocks=(Block(kind=Kind.TEXT, text=text),))


@pytest.fixture
async def secretive(quill: Quill, tmp_path: Path) -> AsyncIterator[Quill]:
    index = await open_index(tmp_path, BagOfWords())
    await ingest_documents([page("Kestrel", "The Kestrel pump takes 0.8 L of oil, what does it cost?")], index)
    prices = page(f"Prices {SECRET}-TITLE", f"The Kestrel pump does cost {SECRET}-77 euros.")
    await ingest_documents([prices], index, scope="board")
    quill.documents, quill.titles = index.retriever, public_titles(index)
    quill.scope = scope_by(load({"CHANNEL_SCOPES": f"T1/{PRIVATE}=board"}).channel_scopes)
    await quill.restart()
    yield quill
    await index.close()


async def talk(quill: Quill, turns: int = 1) -> str:
    """A conversation in the private channel in which the secret comes up; its thread."""
    thread = await quill.hears(f"{AT} {QUESTION}", PRIVATE)
    for number in range(turns - 1):
        await quill.hears(f"and {number} of them?", PRIVATE, thread)
    assert all(f"{SECRET}-77" in text for text in quill.slack.shown(PRIVATE, thread))
    assert f"{SECRET}-TITLE" in quill.slack.shown(PRIVATE, thread)[0]
    return thread


def nowhere_else(slack: SlackServer) -> None:
    """Fails if anything that left for Slack says the secret outside of the private channel."""
    for call in slack.calls:
        if SECRET in str(call.args):
            assert call.args.get("channel") == PRIVATE, call
    assert SECRET not in str(slack.methods.views)
    assert SECRET not in str(slack.answers)


def ours(slack: SlackServer, thread: str) -> dict[str, Any]:
    """The answer in the private channel."""
    return next(m for m in slack.workspace.thread(PRIVATE, thread) if m.get("user") == BOT_USER)


@pytest.mark.parametrize("place", ["C1", "C2", "D1"])
async def test_the_same_question_elsewhere_finds_nothing_of_it(slack: SlackServer, secretive: Quill, place: str):
    await talk(secretive)
    secretive.model.requests.clear()
    asked = await secretive.hears(f"{AT} {QUESTION}", place)
    await secretive.hears(f"{AT} and the {SECRET.lower()} title of the prices?", place, asked)
    assert len(slack.shown(place, asked)) == 2
    assert f"{SECRET}-" not in str(secretive.model.requests)
    nowhere_else(slack)


async def test_what_a_long_talk_is_summarized_to_stays_where_it_was(slack: SlackServer, secretive: Quill):
    thread = await talk(secretive, turns=10)
    await slack.until(lambda: bool(secretive.model.asked("summarize")))
    await secretive.hears("and all of that?", PRIVATE, thread)
    assert "They talked about" in str(secretive.model.asked("generate")[-1])
    secretive.model.requests.clear()
    for place in ("C1", "D1"):
        asked = await secretive.hears(f"{AT} {QUESTION}", place)
        await secretive.hears(f"{AT} and all of that?", place, asked)
    assert secretive.model.asked("rewrite")
    assert SECRET not in str(secretive.model.requests)
    nowhere_else(slack)


async def test_a_command_elsewhere_tells_nothing_of_it(slack: SlackServer, secretive: Quill):
    await talk(secretive)
    secretive.model.requests.clear()
    for place in ("C1", "D1"):
        for command in ("/rewrite", "/forget", "/reset"):
            assert await told(secretive, slack.command(ASKER, place, command)) == NO_QUESTION
        await told(secretive, slack.command(ASKER, place, "/ask", QUESTION))
        assert SECRET not in await told(secretive, slack.command(ASKER, place, "/rewrite"))
    assert len(secretive.model.asked("generate")) == 2
    assert SECRET not in str(secretive.model.requests)
    nowhere_else(slack)


async def test_in_the_channel_itself_a_command_is_answered_to_who_asked_alone(slack: SlackServer, secretive: Quill):
    thread = await talk(secretive, turns=2)
    assert f"{SECRET}-77" in await told(secretive, slack.command(ASKER, PRIVATE, "/rewrite"))
    assert await told(secretive, slack.command(SECOND, PRIVATE, "/rewrite")) == NO_QUESTION
    assert len(slack.shown(PRIVATE, thread)) == 2
    nowhere_else(slack)


@pytest.mark.parametrize("place", ["C1", "D1"])
async def test_a_message_elsewhere_that_names_the_answer_opens_nothing_of_it(
    slack: SlackServer, secretive: Quill, place: str
):
    """Shortcuts and buttons of another app's message that carries the marks of ours, and of one in the same thread."""
    thread = await talk(secretive, turns=2)
    answer = ours(slack, thread)
    turns = await secretive.store.turns(secretive.key(thread, PRIVATE))
    marks = {"blocks": answer["blocks"], "metadata": answer["metadata"]}
    copied = slack.workspace.add(place, user="U0OTHER", bot_id=OTHER_BOT, text="look", **marks)["ts"]
    secretive.model.requests.clear()
    for name in (SHOW_QUERY, RESET_HERE, FORGET):
        slack.shortcut(ASKER, place, copied, name)
    for name in BUTTONS:
        slack.clicks(ASKER, place, copied, name)
        key = answer["metadata"]["event_payload"]["key"]
        slack.clicks_unkept(ASKER, place, name, key, thread)
    await secretive.at_rest()
    said = [call.args["text"] for call in slack.calls_of("chat.postEphemeral")]
    assert len(said) == 3 + 2 * len(BUTTONS)
    assert said.count(NO_SEARCH) == 1
    assert not secretive.model.requests
    assert await secretive.store.turns(secretive.key(thread, PRIVATE)) == turns
    nowhere_else(slack)


async def test_home_and_pane_name_public_documents_only(slack: SlackServer, secretive: Quill):
    await talk(secretive)
    slack.event({"type": "app_home_opened", "user": ASKER, "channel": "D1", "tab": "home"})
    slack.event({"type": "app_home_opened", "user": ASKER, "channel": "D1", "tab": "messages"})
    root = slack.workspace.add("D1", user=ASKER, text="")["ts"]
    opened = {"user_id": ASKER, "channel_id": "D1", "thread_ts": root, "context": {"channel_id": PRIVATE}}
    slack.event({"type": "assistant_thread_started", "assistant_thread": opened})
    await secretive.hears(QUESTION, "D1", root)
    await slack.until(lambda: len(slack.calls_of("assistant.threads.setSuggestedPrompts")) == 2)
    await slack.until(lambda: bool(slack.methods.views))
    assert "Kestrel" in str(slack.methods.views)
    assert "Kestrel" in str(slack.calls_of("assistant.threads.setSuggestedPrompts"))
    nowhere_else(slack)
