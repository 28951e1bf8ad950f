"""K0 to K12, K15 on Slack: the real process dies at a named moment, and the next one makes good on every promise."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from adapters.fault import KILL_POINTS
from adapters.notices import FAILED
from tests.chaos.stage import ingest
from tests.servers.openai import CHAT, EMBEDDINGS
from tests.servers.replies import Reply
from tests.slack.stage import PARTS, answer_to, stage
from tests.slack_server import Fault

HERE = tuple(point for point in KILL_POINTS if point not in ("K14", "K15"))
CREATING = ("chat.postMessage", "chat.startStream")
QUICK = ("K1", "K3", "K12")
"""Those that every test run goes through; the others are `make chaos`."""


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data_dir = tmp_path_factory.mktemp("documents") / "data"
    asyncio.run(ingest(data_dir))
    return data_dir


def point(name: str) -> Any:
    return pytest.param(name, marks=() if name in QUICK else pytest.mark.chaos)


@pytest.mark.parametrize("at", [point(name) for name in HERE])
async def test_a_process_that_dies_at_a_point_costs_nothing_on_slack(tmp_path: Path, documents: Path, at: str):
    async with stage(tmp_path / "data", documents) as on:
        await on.start(at=at)
        await on.slack.until(lambda: bool(on.slack.sockets.hellos), 40)
        asked = on.say("question 1")
        assert await on.ended() == -signal.SIGKILL, f"{at} was not passed"
        if at in ("K0", "K1"):
            assert not any(delivery.acked for delivery in on.slack.sockets.deliveries)
        await on.start()
        await on.until_all_ended()
        assert on.judge() == []
        assert len(on.slack.calls_of(*CREATING)) == PARTS, "one message for each part"
        assert on.under(asked)[0].body.startswith("(question 1)")
        if at in ("K10", "K11", "K12"):
            assert [request.path for request in on.model.requests].count(CHAT) == 1, "the answer was there"


async def test_a_point_that_is_not_armed_kills_nothing_on_slack(tmp_path: Path, documents: Path):
    """The proof that the test above needs its fault."""
    async with stage(tmp_path / "data", documents) as on:
        await on.start(at="K99")
        on.say("question 1")
        await on.until_all_ended()
        assert on.process is not None
        assert on.process.returncode is None
        assert on.judge() == []


async def test_a_kill_and_a_lost_reply_together_leave_one_answer(tmp_path: Path, documents: Path):
    async with stage(tmp_path / "data", documents) as on:
        on.slack.script("chat.startStream", Fault(applied=True, end="reset"))
        on.slack.script("conversations.replies", Fault(status=503))
        await on.start(at="K8")
        on.say("question 1")
        assert await on.ended() == -signal.SIGKILL
        await on.start()
        await on.until_all_ended()
        assert on.judge() == []


@pytest.mark.chaos
@pytest.mark.parametrize(("path", "nth"), [(CHAT, 2), (EMBEDDINGS, 1), (CHAT, 3)], ids=["K5", "K6", "K7"])
async def test_a_process_that_dies_in_a_call_costs_nothing_on_slack(
    tmp_path: Path, documents: Path, path: str, nth: int
):
    """In the rewrite, in the search, and before the first token, of a follow-up."""
    async with stage(tmp_path / "data", documents) as on:
        await on.start()
        first = on.say("question 1")
        await on.until_all_ended()

        def reply(body: dict[str, Any]) -> Reply:
            if path == CHAT and [request.path for request in on.model.requests].count(CHAT) == nth:
                assert on.process is not None
                on.process.kill()
            return answer_to(body)

        on.model.default = reply
        searched = [request.path for request in on.model.requests].count(EMBEDDINGS)
        if path == EMBEDDINGS:
            on.model.script(Reply(delay=3600.0), path=EMBEDDINGS)
        on.say("question 2", first)
        if path == EMBEDDINGS:
            await on.slack.until(
                lambda: [request.path for request in on.model.requests].count(EMBEDDINGS) > searched, 20
            )
            await on.kill()
        assert await on.ended() == -signal.SIGKILL
        await on.start()
        await on.until_all_ended()
        assert on.judge() == []
        assert len(on.slack.calls_of(*CREATING)) == 2 * PARTS


@pytest.mark.chaos
async def test_a_question_that_kills_every_process_is_given_up_on_slack(tmp_path: Path, documents: Path):
    """K15."""
    async with stage(tmp_path / "data", documents) as on:

        def reply(body: dict[str, Any]) -> Reply:
            if "poison" in str(body):
                assert on.process is not None
                on.process.kill()
            return answer_to(body)

        on.model.default = reply
        poison = on.say("question of poison")
        for _ in range(3):
            await on.start()
            assert await on.ended() == -signal.SIGKILL
        await on.start()
        other = on.say("question 2")
        await on.until_all_ended()
        assert on.judge() == []
        assert [shown.body for shown in on.under(poison)] == [FAILED]
        assert on.under(other)[0].body.startswith("(question 2)")


@pytest.mark.chaos
async def test_a_process_that_dies_while_it_catches_up_costs_nothing_on_slack(tmp_path: Path, documents: Path):
    """K13."""
    async with stage(tmp_path / "data", documents) as on:
        await on.start()
        on.say("question 1")
        await on.until_all_ended()
        await on.kill()
        await on.slack.until(lambda: not on.slack.sockets.connected)
        on.slack.sockets.retries = ()
        on.say("question 2")
        await on.slack.until(lambda: all(delivery.done.is_set() for delivery in on.slack.sockets.deliveries))
        await on.start(at="K13")
        assert await on.ended() == -signal.SIGKILL
        await on.start()
        await on.slack.until(on.all_ended, 40)
        assert on.judge() == []
