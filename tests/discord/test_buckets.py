"""Many requests at once, above all right after the start, when discord.py knows no limit of Discord's yet."""

from __future__ import annotations

import asyncio

import discord
import pytest

from adapters.discord import buckets
from tests.discord.conftest import Quill
from tests.discord_server.server import DiscordServer

ROUTE = "POST /channels/{channel}/messages"
CHANNELS = range(2000, 2005)


async def crowd(quill: Quill, server: DiscordServer) -> None:
    """Two groups of messages for each of some channels, the second while the first is under way."""
    client = quill.gateway._connected()
    server.limits.buckets[ROUTE] = 5, 1.0
    for number in CHANNELS:
        server.world.add_channel(number, f"room-{number}")
    places = [client.get_partial_messageable(number) for number in CHANNELS]
    first = [asyncio.create_task(place.send("one")) for place in places for _ in range(8)]
    await asyncio.sleep(0.3)
    second = [asyncio.create_task(place.send("two")) for place in places for _ in range(7)]
    await asyncio.gather(*first, *second)


async def test_a_crowd_after_the_start_is_answered_without_a_refusal(quill: Quill, server: DiscordServer):
    await crowd(quill, server)
    calls = server.recorder.to(ROUTE)
    assert {call.status for call in calls} == {200}
    assert len(calls) == len(CHANNELS) * 15


async def test_by_itself_discord_py_sends_too_many(
    quill: Quill, server: DiscordServer, monkeypatch: pytest.MonkeyPatch
):
    """The proof that the test above needs it."""
    client = quill.gateway._connected()
    monkeypatch.setattr(client.http, "request", discord.http.HTTPClient.request.__get__(client.http))
    await crowd(quill, server)
    assert 429 in {call.status for call in server.recorder.to(ROUTE)}


async def test_a_place_whose_requests_are_slow_to_go_is_not_sent_more_than_it_takes(
    quill: Quill, server: DiscordServer
):
    """Below the global limit they go one by one, and newcomers come while they are under way."""
    client = quill.gateway._connected()
    server.limits.buckets[ROUTE] = 5, 3.0
    quill.gateway._pacer.per_second = 5
    server.world.add_channel(2000, "room")
    place = client.get_partial_messageable(2000)
    sent = []
    for _ in range(24):
        sent.append(asyncio.create_task(place.send("one")))
        await asyncio.sleep(0.1)
    await asyncio.gather(*sent[:12])
    assert {call.status for call in server.recorder.to(ROUTE)} == {200}
    for task in sent:
        task.cancel()
    await asyncio.wait(sent)


async def test_a_first_request_that_fails_holds_up_nobody(quill: Quill, server: DiscordServer):
    client = quill.gateway._connected()
    server.recorder.arm(ROUTE, status=403, body={"code": 50013, "message": "Missing Permissions"})
    places = [client.get_partial_messageable(number) for number in CHANNELS]
    for number in CHANNELS:
        server.world.add_channel(number, f"room-{number}")
    sent = await asyncio.gather(*(place.send("one") for place in places), return_exceptions=True)
    assert [type(result) for result in sent].count(discord.Forbidden) == 1
    assert [type(result) for result in sent].count(discord.Message) == len(CHANNELS) - 1


async def test_a_first_request_that_hangs_holds_up_others_for_a_while_only(
    quill: Quill, server: DiscordServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(buckets, "FIRST_SECONDS", 0.3)
    client = quill.gateway._connected()
    for number in CHANNELS:
        server.world.add_channel(number, f"room-{number}")
    server.recorder.arm(ROUTE, seconds=20.0)
    places = [client.get_partial_messageable(number) for number in CHANNELS]
    first, *others = [asyncio.create_task(place.send("one")) for place in places]
    await asyncio.wait_for(asyncio.gather(*others), 5)
    assert not first.done()
    first.cancel()
    await asyncio.wait({first})
