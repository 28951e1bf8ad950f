"""What `MEMORY_ENABLED` puts behind the dispatcher."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters.ports import Inbound, Person, Readers, ThreadKey
from bot.wiring import App, open_app
from tests.bot.test_rewriters import settings
from tests.servers.openai import OpenAIServer, Reply
from tests.servers.replies import Json
from tests.wall import Wall

FEDORA = "I run Fedora on my laptop."
ADA = Person(platform="terminal", workspace="local", id="ada")


def reply_to(body: Json) -> Reply:
    return Reply(pieces=("1" if str(body["messages"][-1]["content"]).endswith("\n\nNumbers:") else "It is 0.8 L.",))


async def ask(app: App) -> None:
    """One question, with all that comes after its answer."""
    app.dispatcher.attach(Wall())
    await app.dispatcher.start()
    place = ThreadKey(platform=ADA.platform, workspace="local", channel="chat", thread="t1")
    inbound = Inbound(
        message_id="m1",
        thread=place,
        author_id=ADA.id,
        author="Ada",
        text=f"{FEDORA} What oil does the Kestrel take?",
        sent_at=datetime.now(UTC),
        readers=Readers.ALONE,
    )
    admitted = await app.dispatcher.admit(inbound)
    assert admitted is not None
    assert admitted.job is not None
    await app.dispatcher.ended(admitted.job)
    if app.dispatcher._memories is not None:
        await app.dispatcher._memories.idle()


@pytest.mark.parametrize("enabled", ["true", "false", ""])
async def test_it_decides_whether_anything_is_picked_and_stored(tmp_path: Path, enabled: str):
    async with OpenAIServer() as server:
        server.default = reply_to
        chosen = settings(server, tmp_path, MEMORY_ENABLED=enabled, REWRITER="endpoint")
        async with open_app(chosen, lambda line: None) as app:
            await ask(app)
            picks = [chat for chat in server.chats if str(chat["messages"][-1]["content"]).endswith("Numbers:")]
            remembered = enabled == "true"
            assert app.dispatcher.remembers is remembered
            assert len(picks) == remembered
            assert list((await app.dispatcher.facts_about(ADA)).values()) == [FEDORA] * remembered


async def test_a_base_model_remembers_nothing_and_the_log_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    async with OpenAIServer() as server:
        chosen = settings(server, tmp_path, MEMORY_ENABLED="true", REWRITER="endpoint", LLM_PROFILE="base")
        async with open_app(chosen, lambda line: None) as app:
            assert not app.dispatcher.remembers
    assert "MEMORY_ENABLED does nothing with a base model" in caplog.text
