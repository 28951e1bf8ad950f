"""Below the global limit, and what people wait for first; by a clock that nothing else on the machine moves."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from adapters.discord.pacing import BURST, LOST_SECONDS, PER_SECOND, UNDER_WAY, Pacer, Urgency, urgency
from tests.discord.conftest import Quill
from tests.discord_server.server import DiscordServer
from tests.virtual_time import in_virtual_time


async def go(pacer: Pacer, name: str, order: list[tuple[str, float]], as_: Urgency = Urgency.FIRST) -> None:
    urgency.set(as_)
    pacer.over(await pacer.turn())
    order.append((name, asyncio.get_running_loop().time()))


@in_virtual_time
async def test_requests_go_evenly_after_a_small_burst():
    pacer, order = Pacer(per_second=100), list[tuple[str, float]]()
    await asyncio.gather(*(go(pacer, str(number), order) for number in range(30)))
    times = [at for _, at in order]
    assert times[-1] - times[0] == pytest.approx((30 - BURST) / 100)
    for first in times:
        assert len([at for at in times if first <= at < first + 0.1]) <= 10 + BURST
    assert all(after >= before for before, after in pairwise(times))


@in_virtual_time
async def test_final_texts_overtake_growing_ones_and_those_typing_signs():
    pacer, order = Pacer(per_second=50), list[tuple[str, float]]()
    for number in range(BURST):
        await go(pacer, f"at once {number}", order)
    tasks = []
    for name, as_ in (("typing", Urgency.TYPING), ("edit", Urgency.EDIT), ("final", Urgency.FIRST)):
        tasks.append(asyncio.create_task(go(pacer, name, order, as_)))
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert [name for name, _ in order[BURST:]] == ["final", "edit", "typing"]


@in_virtual_time
async def test_whoever_gives_up_takes_no_turn():
    pacer, order = Pacer(per_second=50), list[tuple[str, float]]()
    for number in range(BURST):
        await go(pacer, str(number), order)
    given_up = asyncio.create_task(pacer.turn())
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait_for(go(pacer, "next", order), 1)
    assert order[-1][0] == "next"
    assert not pacer.waiting


@in_virtual_time
async def test_what_is_not_answered_does_not_pile_up_before_discord_and_is_not_waited_for_without_end():
    assert UNDER_WAY + BURST + PER_SECOND <= 50
    pacer, gone = Pacer(), list[tuple[int, float]]()

    async def send() -> None:
        number = await pacer.turn()
        gone.append((number, asyncio.get_running_loop().time()))

    began = asyncio.get_running_loop().time()
    sent = [asyncio.create_task(send()) for _ in range(3 * UNDER_WAY)]
    await asyncio.sleep(LOST_SECONDS - 0.1)
    assert len(gone) == UNDER_WAY
    pacer.over(gone[0][0])
    await asyncio.sleep(0.05)
    assert len(gone) == UNDER_WAY + 1
    await asyncio.gather(*sent)
    assert 2 * LOST_SECONDS <= asyncio.get_running_loop().time() - began < 3 * LOST_SECONDS


async def test_a_server_that_stands_still_is_not_sent_all_at_once_afterwards(
    quill: Quill, server: DiscordServer, monkeypatch: pytest.MonkeyPatch
):
    """Requests fail, too, and end: each gives its place to another."""
    client = quill.gateway._connected()
    server.limits.buckets.clear()
    places = [client.get_partial_messageable(number) for number in range(2000, 2060)]
    for number in range(2000, 2060):
        server.world.add_channel(number, f"room-{number}")
    await places[0].send("first")
    stands = asyncio.Event()
    handle = server._handle

    async def late(request: Any, call: Any, *more: Any) -> Any:
        await stands.wait()
        return await handle(request, call, *more)

    monkeypatch.setattr(server, "_handle", late)
    sent = [asyncio.create_task(place.send("one")) for place in places]
    sent[0].cancel()
    await asyncio.sleep(1.0)
    stands.set()
    await asyncio.gather(*sent[1:])
    assert {call.status for call in server.recorder.to("POST /channels/{channel}/messages")} <= {200, 0}
