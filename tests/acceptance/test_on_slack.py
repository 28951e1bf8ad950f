"""`threadwise run` as a process of its own, on the local Slack."""

from __future__ import annotations

import asyncio
import signal
import socket
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest

from tests.acceptance.conftest import Threadwise
from tests.acceptance.story import EMBEDDED, GUIDE
from tests.servers.openai import OpenAIServer
from tests.servers.replies import Reply
from tests.slack_server import ASKER, BOT_USER, Fault, SlackServer
from tests.slack_server.limits import texts_of
from tests.slack_server.requests import SIGNING_SECRET
from tests.slack_server.server import APP_TOKEN, BOT_TOKEN

AT = f"<@{BOT_USER}>"


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer() as slack:
        slack.sockets.retries = (0.0, 1.0, 2.0, 5.0, 10.0)
        yield slack


def settings(slack: SlackServer) -> dict[str, str]:
    tokens = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}
    return tokens | {"SLACK_API_BASE_URL": slack.api_url, "LOG_LEVEL": "INFO"}


@asynccontextmanager
async def running(
    threadwise: Threadwise, slack: SlackServer, **changes: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    known = len(slack.sockets.hellos)
    process = await threadwise.start("run", **settings(slack), **changes)
    try:
        await slack.until(lambda: process.returncode is not None or len(slack.sockets.hellos) > known, 90)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        _out, err = await process.communicate()
        print(err.decode()[-4000:])  # noqa: T201 - shown where a test fails


def finals(slack: SlackServer, thread: str, channel: str = "C1") -> list[str]:
    """What people see of answers that are there in full: those have buttons."""
    messages = slack.workspace.thread(channel, thread)
    whole = [m for m in messages if any(b["type"] == "context_actions" for b in m.get("blocks") or [])]
    return ["\n".join(texts_of(m["blocks"])) for m in whole]


def searched(threadwise: Threadwise) -> list[str]:
    """The query of each turn, in order."""
    with closing(sqlite3.connect(threadwise.directory / "data" / "conversations.db")) as connection:
        return [query for (query,) in connection.execute("SELECT searched FROM turns ORDER BY seq")]


async def test_the_story_of_three_turns_with_the_embedded_model(threadwise: Threadwise, slack: SlackServer):
    (threadwise.directory / "docs" / "agent.md").write_text(GUIDE)
    ingested = await threadwise.run("ingest", "docs", **EMBEDDED)
    assert ingested.code == 0, ingested.err
    async with running(threadwise, slack, **EMBEDDED):
        thread = slack.says(ASKER, "C1", f"{AT} How do I install the Kestrel agent?")
        await slack.until(lambda: len(finals(slack, thread)) == 1, 120)
        assert "agent.md" in finals(slack, thread)[0]
        slack.says(ASKER, "C1", "and on ARM?", thread)
        await slack.until(lambda: len(finals(slack, thread)) == 2, 120)
        assert "agent.md" in finals(slack, thread)[1]
        slack.says(ASKER, "C1", "what about the GPU driver?", thread)
        await slack.until(lambda: len(finals(slack, thread)) == 3, 120)
        assert "agent.md" in finals(slack, thread)[2]
        # The last edit of an answer is an event as well, and on its way when the answer is seen.
        await slack.until(lambda: all(delivery.acked for delivery in slack.sockets.deliveries), 10)
    # Judged by what was searched: the words of the embedded model's answers are not to be relied upon.
    first, second, third = searched(threadwise)
    assert first == "How do I install the Kestrel agent?"
    assert "Kestrel" in second
    assert "ARM" in second
    assert "GPU driver" in third
    assert len(slack.shown("C1", thread)) == 3
    assert not [call for call in slack.calls if call.outcome != "ok"]
    assert all(delivery.seconds < 3 for delivery in slack.sockets.deliveries)


async def test_told_to_stop_it_answers_what_is_under_way_and_ends(
    threadwise: Threadwise, slack: SlackServer, server: OpenAIServer
):
    await threadwise.run("ingest", "docs")
    server.default = lambda body: Reply(pieces=("It takes ", 1.0, "0.8 L of oil [1]."))
    async with running(threadwise, slack) as process:
        thread = slack.says(ASKER, "C1", f"{AT} How much oil does the Kestrel take?")
        await slack.until(lambda: any("It takes" in text for text in slack.shown("C1", thread)), 20)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 15) == 0
        (shown,) = finals(slack, thread)
        assert "0.8 L of oil [1]." in shown


@pytest.mark.parametrize(
    ("method", "name"), [("auth.test", "SLACK_BOT_TOKEN"), ("apps.connections.open", "SLACK_APP_TOKEN")]
)
async def test_a_token_that_slack_refuses_is_one_line_and_an_exit_code(
    threadwise: Threadwise, slack: SlackServer, method: str, name: str
):
    slack.script(method, *[Fault(error="invalid_auth")] * 9)
    ended = await threadwise.run("run", **settings(slack))
    assert ended.code == 2
    assert name in ended.err
    assert "Traceback" not in ended.err
    assert len(slack.calls) <= 3
    assert BOT_TOKEN not in ended.err


async def test_one_token_without_the_other_is_a_mistake(threadwise: Threadwise):
    ended = await threadwise.run("run", SLACK_BOT_TOKEN=BOT_TOKEN)
    assert ended.code == 2
    assert "SLACK_APP_TOKEN" in ended.err
    swapped = await threadwise.run("run", SLACK_BOT_TOKEN=APP_TOKEN, SLACK_APP_TOKEN=BOT_TOKEN)
    assert 'SLACK_BOT_TOKEN must be a token that begins with "xoxb-"' in swapped.err


async def test_over_http_it_answers_signed_requests_and_says_in_one_line_that_its_port_is_taken(
    threadwise: Threadwise, slack: SlackServer
):
    await threadwise.run("ingest", "docs")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        over_http = settings(slack) | {"SLACK_APP_TOKEN": "", "SLACK_SIGNING_SECRET": SIGNING_SECRET}
        over_http["SLACK_HTTP_PORT"] = str(port)
        taken.listen()
        refused = await threadwise.run("run", **over_http)
    assert refused.code == 2
    assert f"SLACK_HTTP_PORT {port} cannot be listened at (address already in use)" in refused.err
    assert "Traceback" not in refused.err
    slack.requests.url = f"http://127.0.0.1:{port}/slack/events"
    slack.sockets.retries = (0.1,) * 100
    process = await threadwise.start("run", **over_http)
    try:
        thread = slack.says(ASKER, "C1", f"{AT} How much oil does the Kestrel take?")
        await slack.until(lambda: len(finals(slack, thread)) == 1, 30)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 15) == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
    assert "0.8 L of oil [1]." in finals(slack, thread)[0]
    assert not slack.calls_of("apps.connections.open")


async def test_the_doctor_tries_the_tokens_of_slack(threadwise: Threadwise, slack: SlackServer, server: OpenAIServer):
    await threadwise.run("ingest", "docs")
    well = await threadwise.run("doctor", LLM_CONTEXT_TOKENS="8192", **settings(slack))
    assert well.code == 0, well.out
    assert "ok   Slack: the app-level token opens Socket Mode." in well.out
    wrong = await threadwise.run("doctor", **settings(slack) | {"SLACK_BOT_TOKEN": "xoxb-wrong"})
    assert wrong.code == 1
    assert "look Slack refuses the token (invalid_auth): check SLACK_BOT_TOKEN" in wrong.out
    assert "Traceback" not in wrong.out + wrong.err
