"""Much at once on Slack: the real command and slack-bolt, a crowd, and a process that dies in the middle of it."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from adapters.slack.line import RUSH_SECONDS
from tests.chaos.stage import SLOTS
from tests.servers.openai import CHAT
from tests.servers.replies import Reply
from tests.slack.stage import Stage, answer_to, stage
from tests.slack_server.state import Place


def slowly(body: dict[str, Any]) -> Reply:
    """The same answer, in two seconds."""
    reply = answer_to(body)
    return replace(reply, pieces=tuple(0.25 if isinstance(piece, float) else piece for piece in reply.pieces))


def rooms(on: Stage, many: int) -> list[str]:
    """Channels: only so many questions may wait in one."""
    names = [f"C{10 + number}" for number in range(many)]
    on.slack.workspace.places |= {name: Place(name, f"room-{name}") for name in names}
    return names


def ask(on: Stage, number: int, channel: str) -> str:
    user = f"U{number}"
    on.slack.workspace.names[user] = f"Person {number}"
    return on.say(f"question {number}", user=user, channel=channel)


@pytest.mark.chaos
@pytest.mark.parametrize("many", [1, 50])
async def test_after_a_restart_all_that_was_left_ends_once(tmp_path: Path, documents: Path, many: int):
    """F8: queued, running and being delivered."""
    async with stage(tmp_path / "data", documents) as on:
        channels = rooms(on, 10)
        on.model.default = slowly
        await on.start()
        await on.slack.until(lambda: bool(on.slack.sockets.hellos), 40)
        asked = [ask(on, number, channels[number % 10]) for number in range(many)]
        places = {ts: channels[number % 10] for number, ts in enumerate(asked)}

        def grows(question: str) -> bool:
            return "is answered" in "".join(on.slack.shown(places[question], question))

        if many > 1:  # some are answered in full, some in part
            await on.slack.until(lambda: any(map(on.under, asked)) and not all(map(grows, asked)), 40)
        await on.slack.until(lambda: any(map(grows, asked)), 40)
        states = _states(on)
        await on.kill()
        print("killed with", states)  # noqa: T201
        assert states.keys() & {"running", "delivering"}
        assert states.get("queued", 0) > many // 2 or many == 1
        on.model.default = answer_to
        on.slack.calls.clear()
        await on.start(as_it_is=True)
        await on.until_all_ended(400)
        assert on.judge() == []
        refused = [call for call in on.slack.calls if call.outcome == "ratelimited"]
        print(Counter(call.method for call in refused), "of", len(on.slack.calls), "calls came too fast")  # noqa: T201
        for method in {call.method for call in refused}:
            at = [call.at for call in refused if call.method == method]
            # Those that were under way at the first refusal are refused too; then one in the time that Slack asks for.
            assert all(after - before > 0.9 for before, after in pairwise(at) if before > at[0] + 0.5), "no storm"


@pytest.mark.chaos
async def test_five_hundred_at_once_are_all_taken_and_all_get_their_ending(tmp_path: Path, documents: Path):
    """F23: with the limits of the real command, so most of them are refused, and told so. The times are printed."""
    async with stage(tmp_path / "data", documents) as on:
        # How fast Slack takes the endings is another matter: it would be some minutes.
        on.slack.paced, on.slack.sockets.ack_seconds, on.slack.sockets.retries = False, 3.0, (0.0, 60.0, 300.0)
        on.model.default = lambda body: Reply(pieces=("Install it ", 0.5, "so [1]."))
        channels = rooms(on, 10)
        await on.start(as_it_is=True)
        await on.slack.until(lambda: bool(on.slack.sockets.hellos), 40)
        asked = [ask(on, number, channels[number % 10]) for number in range(500)]
        events = list(on.slack.sockets.deliveries)
        await on.slack.until(lambda: all(event.acked for event in events), 120)
        slowest = max(event.acked[0] - event.sent[0] for event in events)
        said = len(on.slack.calls_of("chat.postMessage", "chat.startStream"))
        print("the slowest acknowledgement took", round(slowest, 2), "s at load", os.getloadavg()[0])  # noqa: T201
        # 1.5 s on a machine that does little else; what is said to people does not come before the last of them, but
        # where the crowd took too long.
        assert slowest < 15
        assert said < 50 or slowest > RUSH_SECONDS
        # Names are asked for by the first ones alone.
        assert len(on.slack.calls_of("users.info")) <= 100
        await on.slack.until(on.all_ended, 180)
        states = _states(on)
        told = {call.args["user"] for call in on.slack.calls_of("chat.postEphemeral")}
        finals = [ts for ts in asked if [shown.phase for shown in on.under(ts)] == ["final"]]
        print(states, len(finals), "endings shown in threads,", len(told), "told alone")  # noqa: T201
        assert len(finals) + len(told) == 500
        assert on.model.max_in_flight <= SLOTS
        assert [request.path for request in on.model.requests].count(CHAT) >= 40
        assert not on.slack.pings()


def _states(on: Stage) -> dict[str, int]:
    with closing(sqlite3.connect(f"file:{on.database}?mode=ro", uri=True)) as connection:
        return dict(connection.execute("SELECT state, count(*) FROM jobs GROUP BY state"))
