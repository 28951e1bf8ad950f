"""Many requests at once, above all right after the start, when discord.py knows no limit of Discord's yet."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import discord
import pytest

from adapters.discord import buckets
from adapters.notices import notice
from adapters.ports import Phase, Post, ThreadKey
from core.types import Answer
from tests.discord.conftest import Quill
from tests.discord_server.gateway import until
from tests.discord_server.server import DiscordServer
from tests.discord_server.world import ASKER, GENERAL, GUILD

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


async def test_answers_in_a_place_go_before_the_refusals_that_wait_there(quill: Quill, server: DiscordServer):
    """Where no thread can be opened both are in the channel itself."""
    server.limits.buckets[ROUTE] = 1, 0.2
    server.world.denied[GENERAL] = {"create_thread"}
    channel = quill.gateway.channel

    def post(number: int, answer: Answer) -> Post:
        asked = server.world.add_message(GENERAL, ASKER, f"question {number}")["id"]
        thread = ThreadKey(platform="discord", workspace=str(GUILD), channel=str(GENERAL), thread=asked)
        (body,) = channel.bodies(answer)
        said = {"reply_to": asked, "key": f"key{number}", "asker": str(ASKER)}
        return Post(thread=thread, part=0, body=body, phase=Phase.FINAL, **said)

    sent = [asyncio.create_task(channel.open(post(number, notice("Too many.")))) for number in range(6)]
    await until(lambda: server.recorder.to(ROUTE))
    answer = replace(notice("0.8 L"), stand_in=False, complete=True)
    sent.append(asyncio.create_task(channel.open(post(6, answer))))
    await asyncio.gather(*sent)
    said = [call.body["content"] for call in server.recorder.to(ROUTE)]
    assert len(said) == 7
    assert said.index("0.8 L") <= 2, "the first refusal was under way, and one may have had its turn"
    assert {call.status for call in server.recorder.to(ROUTE)} == {200}


async def test_whoever_gives_up_leaves_the_line(quill: Quill, server: DiscordServer):
    client = quill.gateway._connected()
    server.limits.buckets[ROUTE] = 1, 0.2
    place = client.get_partial_messageable(GENERAL)
    sent = [asyncio.create_task(place.send(str(number))) for number in range(5)]
    await until(lambda: server.recorder.to(ROUTE))
    for task in sent[1:4]:
        task.cancel()
    await asyncio.wait_for(sent[4], 5)
    assert [call.body["content"] for call in server.recorder.to(ROUTE)] == ["0", "4"]
