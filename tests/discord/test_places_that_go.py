"""The server, the channel or the thread goes while a question waits or its answer grows; limits of an hour."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import pytest

from adapters.discord import typing_signs
from adapters.jobs import JobState
from adapters.store import SqlConversationStore
from tests.discord.conftest import ME, OIL, Quill, quill_on
from tests.discord.test_delivery_in_trouble import PATCH, POST, ask, state
from tests.discord_server.gateway import until
from tests.discord_server.server import DiscordServer
from tests.discord_server.world import ASKER, GENERAL, GUILD, NEWS

WAITS = [0.8, "0.8 L [1]."]
GROWS = [piece for word in ["It ", "takes ", "0.8 ", "L ", "of ", "oil "] * 2 for piece in (word, 0.1)] + ["[1]."]
HOUR = {"status": 429, "headers": {"Retry-After": "3600"}}


async def kicked(quill: Quill, thread: int) -> None:
    quill.server.world.denied |= {channel: {"view"} for channel in (GENERAL, thread)}
    await quill.server.gateway.dispatch("GUILD_DELETE", {"id": str(GUILD)})


async def shut_out(quill: Quill, thread: int) -> None:
    quill.server.world.denied |= {channel: {"view"} for channel in (GENERAL, thread)}


async def thread_deleted(quill: Quill, thread: int) -> None:
    await quill.server.delete_thread(thread)


async def archived_and_locked(quill: Quill, thread: int) -> None:
    place = quill.server.world.channels[thread]
    place["thread_metadata"] |= {"archived": True, "locked": True}
    await quill.server.gateway.dispatch("THREAD_UPDATE", place)


@pytest.mark.parametrize("said", [WAITS, GROWS], ids=["waits", "grows"])
@pytest.mark.parametrize("goes", [kicked, shut_out, thread_deleted, archived_and_locked])
async def test_where_its_place_goes_the_job_ends_once_and_nothing_more_is_asked_of_discord(
    quill: Quill,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    goes: Callable[[Quill, int], Awaitable[None]],
    said: list[object],
):
    monkeypatch.setattr(typing_signs, "TYPING_SECONDS", 0.05)
    quill.server.limits.buckets.clear()
    quill.will_answer(said)
    thread = await ask(quill)
    await until(lambda: quill.server.posts(thread) and quill.asked)
    await goes(quill, thread)
    await until(lambda: not quill.bot.dispatcher._tickets)
    assert await state(quill.store) == JobState.UNDELIVERABLE.value
    # The last typing sign may be under way, and in a locked thread one is still taken.
    await until(lambda: not quill.gateway.channel._signs)
    before = len(quill.server.recorder.calls)
    await asyncio.sleep(0.4)
    assert len(quill.server.recorder.calls) == before
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    quill.will_answer("0.8 L [1].")
    elsewhere = await quill.server.say(ASKER, NEWS, f"{ME} {OIL}")
    if goes is not kicked:
        await quill.final(int(elsewhere["id"]))


@pytest.mark.parametrize("what", [POST, PATCH])
async def test_a_limit_of_an_hour_is_kept_and_the_next_process_delivers(
    server: DiscordServer, store: SqlConversationStore, what: str
):
    async with quill_on(server, store) as quill:
        quill.will_answer("0.8 L [1].", "0.8 L [1].")
        armed = server.recorder.arm(what, 1000, body={"retry_after": 3600, "global": False}, **HOUR)
        thread = await ask(quill)
        await until(lambda: armed.landed and quill.asked)
        await asyncio.sleep(1)
        assert armed.landed <= 3, "it waits"
        began = time.monotonic()
    assert time.monotonic() - began < 30
    server.recorder.faults.clear()
    server.gateway.forget()
    async with quill_on(server, store) as quill:
        (post,) = await quill.final(thread)
        assert post["content"].startswith("0.8 L [1].")
    assert len(server.posts()) == 1


@pytest.mark.parametrize(
    "fault",
    [
        {
            "body": {"retry_after": 3600, "global": True},
            "headers": {"Retry-After": "3600", "X-RateLimit-Global": "true"},
        },
        {"body": "<html>banned</html>", "headers": {"Retry-After": "3600", "Via": ""}},
    ],
    ids=["global", "banned"],
)
async def test_while_all_requests_are_refused_for_an_hour_none_is_sent(quill: Quill, fault: dict[str, object]):
    quill.will_answer(*["0.8 L [1]."] * 3)
    armed = quill.server.recorder.arm("*", 1, status=429, **fault)
    await ask(quill)
    await until(lambda: armed.landed)
    await until(lambda: quill.asked)
    sent = len(quill.server.recorder.calls)
    await quill.server.say(ASKER, NEWS, f"{ME} {OIL}")
    await until(lambda: quill.asked == 2)
    await asyncio.sleep(0.5)
    assert len(quill.server.recorder.calls) == sent


async def test_after_such_a_pause_the_answer_comes(quill: Quill):
    quill.will_answer("0.8 L [1].")
    told = {"Retry-After": "2", "Via": ""}
    armed = quill.server.recorder.arm("*", 1, status=429, body="<html>banned</html>", headers=told)
    thread = await ask(quill)
    await quill.final(thread)
    refused = next(n for n, call in enumerate(quill.server.recorder.calls) if call.status == 429)
    first, second = quill.server.recorder.calls[refused : refused + 2]
    assert armed.landed == 1
    assert second.at - first.at >= 1.9
