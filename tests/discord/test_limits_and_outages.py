"""Requests that Discord puts off, or that do not reach it: nothing is lost, nothing is said twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from discord.http import Route

from adapters.discord import refusals
from tests.discord.conftest import Quill
from tests.discord.test_delivery_in_trouble import PATCH, POST, THREAD, ask
from tests.discord_server.gateway import until
from tests.discord_server.world import SECOND, Json
from tests.servers.tls import self_signed


async def one_answer(quill: Quill, thread: int, begins: str = "0.8 L of oil [1].") -> None:
    (post,) = await quill.final(thread)
    assert post["content"].startswith(begins)
    await until(lambda: not quill.bot.dispatcher._tickets)
    assert len(quill.server.posts()) == 1
    assert quill.asked == 1


async def test_what_is_told_in_another_order_than_it_was_said_is_answered_as_it_was_said(quill: Quill):
    """Both while an answer is being made."""
    quill.will_answer(0.4, "second [1].", "third [1].", rewrite=("second", "third"))
    thread = await ask(quill)
    await until(lambda: quill.asked)
    second, third = (quill.server.world.add_message(thread, SECOND, f"and the {n} Kestrel?") for n in ("2nd", "3rd"))
    for late in (third, second):
        await quill.server.gateway.dispatch("MESSAGE_CREATE", quill.server.rest.event(late))
    posts = await quill.final(thread, 3)
    (info,) = await quill.store.threads("discord", 5)
    assert [turn.message_id for turn in await quill.store.turns(info.key)][1:] == [second["id"], third["id"]]
    answers = {
        post["message_reference"]["message_id"]: post["content"] for post in posts if "message_reference" in post
    }
    assert [answers[said["id"]].split()[0] for said in (second, third)] == ["second", "third"]


async def test_a_limit_of_five_seconds_is_kept_and_the_edits_meanwhile_become_one(quill: Quill):
    words = [f"word{n} " for n in range(20)]
    quill.will_answer([*(piece for word in words for piece in (word, 0.1)), "[1]."])
    told: Json = {"body": {"retry_after": 5, "global": False}, "headers": {"Retry-After": "5"}}
    armed = quill.server.recorder.arm(PATCH, 1, status=429, **told)
    thread = await ask(quill)
    await one_answer(quill, thread, "word0 word1")
    assert armed.landed == 1
    refused, *after = quill.server.recorder.to(PATCH)
    assert after[0].at - refused.at >= 4.9
    assert len(after) <= 2, "what was to be shown meanwhile is not made up for"
    assert "word19" in after[-1].body["content"]


@pytest.mark.parametrize("what", [POST, PATCH, THREAD])
@pytest.mark.parametrize(
    "fault",
    [{"status": 429, "body": {"message": "slow"}}, {"status": 429, "body": "<html></html>"}, {"status": 502}],
    ids=["429 without a time", "429 as HTML without a time", "502"],
)
async def test_a_refusal_that_names_no_time_is_tried_again(
    quill: Quill, caplog: pytest.LogCaptureFixture, what: str, fault: Json
):
    armed = quill.server.recorder.arm(what, 2, **fault)
    quill.will_answer("0.8 L of oil [1].")
    await one_answer(quill, await ask(quill))
    assert armed.landed == 2
    assert "unexpected" not in caplog.text


@asynccontextmanager
async def refused() -> AsyncIterator[str]:
    """An address at which nobody listens."""
    yield "http://127.0.0.1:9"


@pytest.mark.parametrize("elsewhere", [refused, self_signed])
@pytest.mark.parametrize("when", ["placeholder", "answer"])
async def test_while_discord_cannot_be_reached_the_answer_waits(
    quill: Quill,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    elsewhere: Callable[[], AbstractAsyncContextManager[str]],
    when: str,
):
    """By a connection that is refused, or by a certificate that is none."""
    caplog.set_level("INFO", "adapters.outbox")
    quill.will_answer([0.3, "0.8 L of oil [1]."])
    there = Route.BASE
    async with elsewhere() as address:
        if when == "answer":
            thread = await ask(quill)
            await until(lambda: quill.server.posts(thread))
        monkeypatch.setattr(Route, "BASE", address)
        if when == "placeholder":
            thread = await ask(quill)
        await until(lambda: "could not be reached" in caplog.text)
        await until(lambda: quill.asked)
        await asyncio.sleep(0.5)
        assert not [post for post in quill.server.posts() if "0.8 L" in post["content"]]
        monkeypatch.setattr(Route, "BASE", there)
        await one_answer(quill, thread)


@pytest.mark.parametrize("what", [POST, PATCH, THREAD])
async def test_a_request_that_is_not_answered_in_time_is_not_made_twice(
    quill: Quill, monkeypatch: pytest.MonkeyPatch, what: str
):
    """Discord has done what it was asked for."""
    monkeypatch.setattr(refusals, "CALL_SECONDS", 0.3)
    armed = quill.server.recorder.arm(what, 1, seconds=1.0)
    quill.will_answer("0.8 L of oil [1].")
    await one_answer(quill, await ask(quill))
    assert armed.landed == 1


async def test_none_of_these_happens_by_itself(quill: Quill, caplog: pytest.LogCaptureFixture):
    """The proof that the tests above need their faults."""
    quill.server.recorder.nemesis = False
    caplog.set_level("INFO", "adapters.outbox")
    quill.server.recorder.arm("*", 1000, status=503)
    quill.will_answer("0.8 L of oil [1].")
    await one_answer(quill, await ask(quill))
    assert "could not be reached" not in caplog.text
    assert {call.status for call in quill.server.recorder.to(POST) + quill.server.recorder.to(PATCH)} == {200}
