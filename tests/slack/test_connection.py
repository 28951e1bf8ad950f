"""The connection to Slack: watched, replaced, and never acknowledged over what is not stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from adapters.jobs import Admitted
from adapters.ports import Inbound
from core.errors import ConfigError, DataDirError
from tests.fakes import ScriptedModel
from tests.slack.conftest import AT, Quill
from tests.slack_server import ASKER, Fault, SlackServer, busy

QUESTION = f"{AT} How much oil does the Kestrel pump take?"
ANSWER = "It takes 0.8 L of oil [1]."


async def asks(quill: Quill) -> str:
    """A question that is answered in the end; its `ts`."""
    quill.slack.sockets.retries = quill.slack.sockets.retries and (0.0, 0.2, 0.5, 1.0, 2.0)
    quill.model.replies["generate"].append(ANSWER)
    asked = quill.slack.says(ASKER, "C1", QUESTION)
    await quill.slack.until(lambda: len(quill.slack.shown("C1", asked)) == 1, 10)
    await quill.at_rest()
    assert len(quill.slack.shown("C1", asked)) == 1
    return asked


@pytest.mark.parametrize("reason", ["warning", "refresh_requested", "too_many_websockets", "link_disabled"])
@pytest.mark.parametrize("close", [True, False])
async def test_after_a_good_bye_there_is_a_new_connection(slack: SlackServer, quill: Quill, reason: str, close: bool):
    slack.sockets.ack_seconds = 0.5
    await slack.sockets.disconnect(reason, close=close)
    await asks(quill)
    assert len(slack.sockets.hellos) >= 2
    await slack.until(lambda: slack.sockets.connected == 1)


async def test_a_good_bye_is_no_gap(slack: SlackServer, quill: Quill):
    slack.sockets.retries = ()
    await slack.sockets.disconnect("warning", close=False)
    slack.says(ASKER, "C1", "not for you")
    await asks(quill)
    assert not any(delivery.given_up for delivery in slack.sockets.deliveries)


async def test_a_cut_connection_is_replaced(slack: SlackServer, quill: Quill):
    await slack.sockets.cut()
    await slack.until(lambda: len(slack.sockets.hellos) >= 2, 10)
    await asks(quill)


async def test_an_address_that_went_stale_is_not_tried_for_ever(slack: SlackServer, quill: Quill):
    slack.sockets.refused, slack.sockets.address_seconds = True, 0.3
    await slack.sockets.cut()
    await asyncio.sleep(1.0)
    assert not quill.socket.connected
    slack.sockets.refused = False
    await slack.until(lambda: quill.socket.connected, 10)
    await asks(quill)


async def test_a_connection_without_a_hello_is_replaced(slack: SlackServer, quill: Quill):
    slack.sockets.mute = True
    await slack.sockets.cut()
    opened = len(slack.calls_of("apps.connections.open"))
    await slack.until(lambda: len(slack.calls_of("apps.connections.open")) >= opened + 2, 10)
    assert not quill.socket.connected
    slack.sockets.mute = False
    await asks(quill)


async def test_a_connection_that_falls_silent_is_replaced(slack: SlackServer, quill: Quill):
    slack.sockets.mute = True
    await slack.until(lambda: not quill.socket.connected, 10)
    slack.sockets.mute = False
    await slack.until(lambda: len(slack.sockets.hellos) >= 2, 10)
    await asks(quill)


async def test_a_server_that_closes_all_the_time_loses_nothing_and_doubles_nothing(slack: SlackServer, quill: Quill):
    slack.sockets.ack_seconds, slack.sockets.retries = 0.3, (0.0, 0.1, 0.1, 0.2, 0.5)
    quill.model.replies["generate"].extend([ANSWER] * 9)
    asked = []
    for number in range(9):
        # One person may not have so many questions waiting.
        asked.append(slack.says(f"U{number}", "C1", QUESTION))
        await asyncio.sleep(0.05)
        if number % 3 == 2:
            await slack.sockets.disconnect("refresh_requested")
    await quill.at_rest()
    assert [len(slack.shown("C1", ts)) for ts in asked] == [1] * 9
    assert len(quill.model.asked("generate")) == 9


async def test_slack_that_cannot_be_reached_at_the_start_is_waited_for(slack: SlackServer, quill: Quill):
    await quill.stop()
    slack.script("auth.test", Fault(status=503), Fault(end="reset"), busy(0.01), Fault(body="<html>", status=200))
    slack.script("apps.connections.open", Fault(status=500), Fault(error="internal_error"))
    await quill.start()
    await quill.connected()
    await asks(quill)


@pytest.mark.parametrize("method", ["auth.test", "apps.connections.open"])
@pytest.mark.parametrize("error", ["invalid_auth", "token_revoked", "account_inactive"])
async def test_a_token_that_is_refused_is_said_and_not_tried_again(
    slack: SlackServer, quill: Quill, method: str, error: str
):
    await quill.stop()
    slack.calls.clear()
    slack.script(method, *[Fault(error=error)] * 5)
    await quill.start()
    with pytest.raises(ConfigError, match=error):
        await asyncio.wait_for(asyncio.shield(quill.running), 5)
    assert len(slack.calls) <= 3
    quill.running = asyncio.create_task(asyncio.sleep(0))


class Shut:
    """A desk that cannot store anything at first."""

    def __init__(self, behind: Any, times: int) -> None:
        self.behind, self.times = behind, times

    async def admit(self, inbound: Inbound) -> Admitted | None:
        if self.times:
            self.times -= 1
            raise DataDirError("The disk is full.")
        return await self.behind.admit(inbound)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return getattr(self.behind, name)  # type: ignore[no-any-return]


async def test_what_could_not_be_stored_is_not_acknowledged_and_comes_again(slack: SlackServer, quill: Quill):
    slack.sockets.ack_seconds = 1.0
    quill.desk = lambda dispatcher: Shut(dispatcher, times=1)
    await quill.restart()
    await asks(quill)
    mention, message = slack.sockets.deliveries[:2]
    assert (len(mention.sent), len(message.sent)) == (2, 2)
    assert (len(mention.acked), len(message.acked)) == (1, 1)


async def test_events_that_mean_nothing_here_are_acknowledged(slack: SlackServer, quill: Quill):
    deliveries = [slack.event({"type": type_, "user": ASKER}) for type_ in ("team_join", "reaction_added", "made_up")]
    await quill.at_rest()
    assert [len(delivery.sent) for delivery in deliveries] == [1, 1, 1]
    assert not any(delivery.given_up for delivery in deliveries)


async def test_a_question_is_acknowledged_before_it_is_answered(slack: SlackServer, quill: Quill, model: ScriptedModel):
    model.replies["generate"].append(1.0)
    slack.says(ASKER, "C1", QUESTION)
    await asyncio.gather(*(delivery.done.wait() for delivery in slack.sockets.deliveries))
    assert not model.asked("generate") or not slack.shown("C1", "")
    assert all(delivery.seconds < 1 for delivery in slack.sockets.deliveries)
    await quill.at_rest()
