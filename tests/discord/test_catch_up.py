"""Cut off, restarted or told to reconnect: each question is answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import discord
import pytest

from adapters import discord_gateway
from adapters.discord import catch_up
from adapters.store import SqlConversationStore
from core.errors import ConfigError
from tests.discord.conftest import ME, OIL, Quill, quill_on
from tests.discord_server.gateway import MESSAGE_CONTENT, until
from tests.discord_server.server import DiscordServer
from tests.discord_server.world import ASKER, BOT, CREW, GENERAL, NEWS, SECOND, now_ms


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """discord.py waits 5 s before it identifies again."""

    async def at_once(*_: object, **__: object) -> None:
        pass

    monkeypatch.setattr(discord_gateway._Heard, "before_identify_hook", at_once)


async def never(*_: object) -> bool:
    """Is not done before the process ends."""
    await asyncio.Event().wait()
    return False


async def answered(quill: Quill, count: int) -> None:
    await until(lambda: quill.asked == count)
    await until(lambda: not [post for post in quill.server.posts() if "Stop" in quill.server.buttons(post)])


@pytest.mark.parametrize("replays", [True, False])
async def test_what_was_said_during_a_cut_is_answered_once(quill: Quill, replays: bool):
    server = quill.server
    await until(lambda: server.gateway.connected)
    await quill.store.lookups.mark("discord", datetime.now(UTC))
    server.gateway.open_to_new.clear()
    if not replays:
        server.gateway.forget()
    server.gateway.cut()
    await until(lambda: not server.gateway.connected)
    quill.will_answer("0.8 L [1].", "0.8 L [1].")
    for channel in (GENERAL, NEWS):
        await server.say(ASKER, channel, f"{ME} {OIL}")
    server.gateway.open_to_new.set()
    await answered(quill, 2)
    await quill.silent()
    assert len(server.posts()) == 2
    assert len(server.gateway.identifies) == (1 if replays else 2)


async def told_to_reconnect(server: DiscordServer) -> None:
    await server.gateway.reconnect()


async def told_to_resume(server: DiscordServer) -> None:
    await server.gateway.invalidate(resumable=True)


async def told_to_begin_anew(server: DiscordServer) -> None:
    await server.gateway.invalidate(resumable=False)


async def closed_for_an_unknown_error(server: DiscordServer) -> None:
    await server.gateway.close(4000)


async def closed_for_a_session_that_timed_out(server: DiscordServer) -> None:
    server.gateway.forget()
    await server.gateway.close(4009)


@pytest.mark.parametrize(
    "ends",
    [
        told_to_reconnect,
        told_to_resume,
        told_to_begin_anew,
        closed_for_an_unknown_error,
        closed_for_a_session_that_timed_out,
    ],
)
async def test_however_a_session_ends_what_is_said_meanwhile_is_answered_once(
    quill: Quill, ends: Callable[[DiscordServer], Awaitable[None]]
):
    """F6."""
    server = quill.server
    await quill.store.lookups.mark("discord", datetime.now(UTC))
    (before,) = await until(lambda: list(server.gateway._connections))
    server.gateway.open_to_new.clear()
    await ends(server)
    await until(lambda: before not in server.gateway._connections)
    quill.will_answer("0.8 L [1].")
    await server.say(ASKER, GENERAL, f"{ME} {OIL}")
    server.gateway.open_to_new.set()
    await answered(quill, 1)
    await quill.silent()
    assert len(server.posts()) == 1


async def test_a_gateway_that_acknowledges_no_heartbeat_is_left_and_nothing_is_missed(
    server: DiscordServer, store: SqlConversationStore
):
    """F6."""
    server.gateway.heartbeat_ms = 200
    async with quill_on(server, store) as quill:
        quill.will_answer("0.8 L [1].")
        (silent,) = await until(lambda: list(server.gateway._connections))
        # discord.py waits a minute for anything from a gateway.
        quill.gateway._connection.client.ws._keep_alive.heartbeat_timeout = 1.0  # type: ignore[union-attr]
        server.gateway.acks = False
        await until(lambda: silent not in server.gateway._connections)
        server.gateway.acks = True
        await server.say(ASKER, GENERAL, f"{ME} {OIL}")
        await answered(quill, 1)
        await quill.silent()
        assert len(server.posts()) == 1


async def test_an_intent_that_is_taken_away_while_it_runs_costs_follow_ups_only(
    quill: Quill, caplog: pytest.LogCaptureFixture
):
    """F6, 4014: what was said meanwhile is answered by a client without the intent."""
    server = quill.server
    await quill.store.lookups.mark("discord", datetime.now(UTC))
    server.gateway.content_allowed = False
    server.gateway.forget()
    await server.gateway.close(4014)
    quill.will_answer("0.8 L [1].")
    await server.say(ASKER, GENERAL, f"{ME} {OIL}")
    await answered(quill, 1)
    await until(lambda: not server.gateway.identifies[-1][1]["intents"] & MESSAGE_CONTENT)
    assert caplog.text.count("Message Content intent is not switched on") == 1


async def test_an_event_that_is_told_four_times_is_one_question(quill: Quill):
    """F1."""
    quill.will_answer("0.8 L [1].")
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    for _ in range(3):
        await quill.server.gateway.dispatch("MESSAGE_CREATE", quill.server.rest.event(said))
    await answered(quill, 1)
    await quill.silent()
    assert quill.asked == len(quill.server.posts()) == 1


async def test_a_restart_finds_questions_in_channels_threads_and_private_messages(
    server: DiscordServer, store: SqlConversationStore
):
    dm = int(server.world.add_dm(5000, ASKER)["id"])
    async with quill_on(server, store) as quill:
        quill.will_answer("0.8 L [1].", "0.8 L [1].")
        said = await server.say(ASKER, GENERAL, f"{ME} {OIL}")
        await server.say(ASKER, dm, OIL)
        await answered(quill, 2)
        await until(lambda: len(server.gateway.connected) == 1)
    server.gateway.forget()
    thread = int(said["id"])
    server.world.add_message(thread, SECOND, "and how often the filter?")
    server.world.add_message(dm, ASKER, "and how often the filter?")
    server.world.add_message(GENERAL, SECOND, f"{ME} {OIL}")
    server.world.add_message(GENERAL, SECOND, "not for the bot")
    async with quill_on(server, store) as quill:
        quill.will_answer(*["Every 90 days [1]."] * 3, rewrite=("Kestrel filter", "Kestrel filter"))
        await answered(quill, 3)
        await quill.silent()
    assert len(server.posts()) == 5


async def test_a_question_by_command_that_was_shown_and_not_stored_is_answered_once_after_a_restart(
    server: DiscordServer, store: SqlConversationStore, monkeypatch: pytest.MonkeyPatch
):
    typed = f"  {OIL} *<@{SECOND}>* @everyone \\ at 10:30? "

    async with quill_on(server, store) as quill:
        await quill.store.lookups.mark("discord", datetime.now(UTC))
        monkeypatch.setattr(quill.gateway._intake, "_take", never)
        interaction = await server.command(ASKER, GENERAL, "ask", question=typed)
        await until(lambda: interaction.message)
    assert not await store.threads("discord", 5)
    server.gateway.forget()
    assert interaction.message is not None
    thread = int(interaction.message["id"])
    for _ in range(2):
        async with quill_on(server, store) as quill:
            quill.will_answer("0.8 L [1].")
            (post,) = await quill.final(thread)
            assert post["content"].startswith("0.8 L")
            await quill.silent()
        server.gateway.forget()
    (info,) = await store.threads("discord", 5)
    (turn,) = await store.turns(info.key)
    assert (turn.typed, turn.author, turn.author_id) == (typed.strip(), "Asker", str(ASKER))
    assert str(server.world.channels[thread]["name"]).startswith(OIL)


@pytest.mark.parametrize("setup", [{"roles": frozenset({CREW})}, {"channels": frozenset({NEWS})}])
async def test_what_was_asked_by_command_is_not_answered_where_it_may_not_be_after_a_restart(
    server: DiscordServer, store: SqlConversationStore, monkeypatch: pytest.MonkeyPatch, setup: dict[str, object]
):
    await store.lookups.mark("discord", datetime.now(UTC))
    async with quill_on(server, store) as quill:
        monkeypatch.setattr(quill.gateway._intake, "_take", never)
        interaction = await server.command(ASKER, GENERAL, "ask", question=OIL)
        await until(lambda: interaction.message)
    server.gateway.forget()
    async with quill_on(server, store, **setup) as quill:
        await quill.silent()
        assert quill.asked == 0


async def test_only_what_the_command_showed_is_taken_for_a_question_of_somebody(
    server: DiscordServer, store: SqlConversationStore
):
    """Neither an answer of ours nor another person's message that looks like it."""
    await store.lookups.mark("discord", datetime.now(UTC))
    server.world.add_message(GENERAL, ASKER, f"**Second** asks: {OIL}")
    server.world.add_message(GENERAL, BOT, f"**Second** asks: {OIL}")
    async with quill_on(server, store) as quill:
        await quill.silent()
        assert quill.asked == 0


@pytest.mark.parametrize("kind", [discord.ChannelType.voice, discord.ChannelType.stage_voice])
async def test_what_was_said_beside_a_voice_channel_is_found_too(
    server: DiscordServer, store: SqlConversationStore, kind: discord.ChannelType
):
    await store.lookups.mark("discord", datetime.now(UTC))
    server.world.add_channel(2000, "lounge", kind.value, bitrate=64_000, user_limit=0, rtc_region=None)
    server.world.add_message(2000, ASKER, f"{ME} {OIL}")
    async with quill_on(server, store) as quill:
        quill.will_answer("0.8 L [1].")
        await until(lambda: quill.asked == 1)


async def test_the_first_start_ever_replays_nothing(server: DiscordServer, store: SqlConversationStore):
    server.world.add_message(GENERAL, ASKER, f"{ME} {OIL}")
    async with quill_on(server, store) as quill:
        await quill.silent()
        assert await until_marked(store)


async def until_marked(store: SqlConversationStore) -> bool:
    mark = await store.lookups.heard_until("discord")
    return mark is not None and datetime.now(UTC) - mark < timedelta(seconds=20)


async def test_old_messages_and_those_above_the_cap_are_left(
    server: DiscordServer,
    store: SqlConversationStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr(catch_up, "IN_ALL", 2)
    await store.lookups.mark("discord", datetime.now(UTC) - timedelta(hours=2))
    old = server.world.new_id(now_ms() - 31 * 60_000)
    server.world.add_message(GENERAL, ASKER, f"{ME} {OIL}", id_=old)
    for author in (ASKER, SECOND, ASKER):
        server.world.add_message(GENERAL, author, f"{ME} {OIL}")
    async with quill_on(server, store) as quill:
        quill.will_answer("0.8 L [1].", "0.8 L [1].")
        await answered(quill, 2)
        await quill.silent()
    assert old not in server.world.channels
    assert "More than 2 questions were missed" in caplog.text


@pytest.mark.parametrize(("code", "said"), [(4004, "DISCORD_BOT_TOKEN"), (4011, "DISCORD_SHARDS")])
async def test_what_discord_refuses_for_good_ends_it_with_one_line(
    server: DiscordServer, store: SqlConversationStore, code: int, said: str
):
    server.gateway.close_next_with = code
    with pytest.raises(ConfigError, match=said):
        async with quill_on(server, store):
            pass
    assert len(server.gateway.identifies) == 1


async def test_a_refused_first_connection_is_tried_again(
    server: DiscordServer, store: SqlConversationStore, monkeypatch
):
    monkeypatch.setattr("adapters.discord.connection.FIRST_PAUSE", 0.05)
    server.gateway.refuse = 2
    async with quill_on(server, store) as quill:
        quill.will_answer("0.8 L [1].")
        said = await server.say(ASKER, GENERAL, f"{ME} {OIL}")
        await quill.final(int(said["id"]))


async def test_a_shard_of_several_hears_its_server(server: DiscordServer, store: SqlConversationStore):
    async with quill_on(server, store, shards=2) as quill:
        quill.will_answer("0.8 L [1].")
        said = await server.say(ASKER, GENERAL, f"{ME} {OIL}")
        await quill.final(int(said["id"]))
    assert sorted(data["shard"] for _, data in server.gateway.identifies) == [[0, 2], [1, 2]]


async def test_a_frame_that_discord_py_cannot_take_ends_nothing(
    quill: Quill, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr("adapters.discord.connection.FIRST_PAUSE", 0.05)
    (session,) = await until(lambda: quill.server.gateway.connected)
    assert session.connection is not None
    await session.connection.socket.send_str("{")
    await until(lambda: len(quill.server.gateway.identifies) == 2)
    assert "a new one is made" in caplog.text
    await until(lambda: quill.gateway._connection.client and quill.gateway._connection.client.is_ready())
    quill.will_answer("0.8 L [1].")
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    await quill.final(int(said["id"]))


def cut_shard(server: DiscordServer, number: int, *, replays: bool = False) -> None:
    """Ends the connection of one shard of two; without `replays` its session is lost."""
    (session,) = [session for session in server.gateway.connected if session.shard == (number, 2)]
    connection, session.connection = session.connection, None
    assert connection is not None
    if not replays:
        del server.gateway.sessions[session.id]
    connection.cut()


@pytest.mark.parametrize("replays", [True, False])
async def test_one_shard_of_several_that_was_away_misses_nothing_and_private_messages_go_on(
    server: DiscordServer, store: SqlConversationStore, replays: bool
):
    dm = int(server.world.add_dm(5000, ASKER)["id"])
    async with quill_on(server, store, shards=2) as quill:
        await store.lookups.mark("discord", datetime.now(UTC))
        server.gateway.silent_to.add(1)
        cut_shard(server, 1, replays=replays)
        quill.will_answer("0.8 L [1].", "0.8 L [1].")
        said = await server.say(ASKER, GENERAL, f"{ME} {OIL}")
        await server.say(ASKER, dm, OIL)
        await quill.final(dm)
        assert not server.posts(int(said["id"]))
        server.gateway.silent_to.clear()
        server.gateway.cut_unanswered()
        await answered(quill, 2)
        await quill.silent()
    assert len(server.posts()) == 2
    anew = [data for _, data in server.gateway.identifies if data["shard"] == [1, 2]]
    assert (len(anew) == 1) == replays


async def test_a_shard_that_is_back_is_read_up_though_another_one_stays_away(
    server: DiscordServer, store: SqlConversationStore
):
    async with quill_on(server, store, shards=2) as quill:
        await store.lookups.mark("discord", datetime.now(UTC))
        server.gateway.silent_to.add(0)
        cut_shard(server, 0)
        await until(lambda: len(server.gateway.connected) == 1)
        cut_shard(server, 1)
        quill.will_answer("0.8 L [1].")
        server.world.add_message(GENERAL, ASKER, f"{ME} {OIL}")
        await answered(quill, 1)
        assert [session.shard for session in server.gateway.connected] == [(1, 2)]


async def test_while_a_shard_is_away_it_is_not_noted_that_all_was_heard(
    server: DiscordServer, store: SqlConversationStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(catch_up, "MARK_SECONDS", 0.02)
    async with quill_on(server, store, shards=2):
        while await store.lookups.heard_until("discord") is None:  # noqa: ASYNC110 - the database tells nobody
            await asyncio.sleep(0.02)
        server.gateway.silent_to.add(1)
        cut_shard(server, 1)
        await until(lambda: len(server.gateway.connected) == 1)
        await asyncio.sleep(0.3)  # One that was being noted is.
        before = await store.lookups.heard_until("discord")
        await asyncio.sleep(0.2)
        assert await store.lookups.heard_until("discord") == before


async def test_a_shard_that_is_cut_while_all_of_them_start_keeps_none_from_being_heard(
    server: DiscordServer, store: SqlConversationStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(discord_gateway, "GUILDS_SECONDS", 0.5)
    await store.lookups.mark("discord", datetime.now(UTC))
    server.world.add_message(GENERAL, ASKER, f"{ME} {OIL}")
    starting = quill_on(server, store, shards=2)
    entering = asyncio.ensure_future(starting.__aenter__())
    await until(lambda: len(server.gateway.connected) == 2)
    cut_shard(server, 0)
    quill = await entering
    try:
        quill.will_answer("0.8 L [1].")
        await answered(quill, 1)
        assert len(server.gateway.identifies) == 3
    finally:
        await starting.__aexit__(None, None, None)


async def test_a_session_that_is_cut_before_it_has_told_of_its_servers_hears_all_the_same(
    server: DiscordServer, store: SqlConversationStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(discord_gateway, "GUILDS_SECONDS", 0.5)
    await store.lookups.mark("discord", datetime.now(UTC))
    server.world.add_message(GENERAL, ASKER, f"{ME} {OIL}")
    starting = quill_on(server, store)
    entering = asyncio.ensure_future(starting.__aenter__())
    await until(lambda: server.gateway.connected)
    server.gateway.open_to_new.clear()
    server.gateway.cut()
    await asyncio.sleep(0.8)
    assert not entering.done()
    server.gateway.open_to_new.set()
    quill = await entering
    try:
        quill.will_answer("0.8 L [1].")
        await answered(quill, 1)
    finally:
        await starting.__aexit__(None, None, None)


async def test_it_can_be_stopped_while_a_shard_connects_again(server: DiscordServer, store: SqlConversationStore):
    async with asyncio.timeout(10):
        async with quill_on(server, store, shards=2):
            server.gateway.open_to_new.clear()
            cut_shard(server, 1)
            await until(lambda: len(server.gateway._connections) > 1)
            await asyncio.sleep(0.1)
        server.gateway.open_to_new.set()


async def test_forty_questions_of_a_cut_of_ten_minutes_are_each_answered_once(
    server: DiscordServer, store: SqlConversationStore
):
    """F6: in 5 channels and 3 threads, while the session is lost."""
    world = server.world
    channels = [int(world.add_channel(2000 + number, f"room-{number}")["id"]) for number in range(5)]
    threads = [int(world.add_thread(3000 + number, GENERAL, f"talk-{number}", ASKER)["id"]) for number in range(3)]
    async with quill_on(server, store) as quill:
        server.limits.buckets.clear()
        server.gateway.open_to_new.clear()
        server.gateway.forget()
        server.gateway.cut()
        await asyncio.sleep(0.2)
        began = now_ms() - 600_000
        await store.lookups.mark("discord", datetime.fromtimestamp(began / 1000, UTC))
        said = []
        for number in range(40):
            world.add_user(4000 + number, f"Person {number}")
            place = [*channels, *threads][number % 8]
            id_ = world.new_id(began + number * 14_000)
            said.append(world.add_message(place, 4000 + number, f"{ME} {OIL}", id_=id_))
        quill.will_answer(*["0.8 L [1]."] * 40, rewrite=("Kestrel oil",) * 12)
        server.gateway.open_to_new.set()
        await until(lambda: quill.asked == 40, seconds=60)
        await until(lambda: not quill.bot.dispatcher._tickets, seconds=60)
        await quill.silent()
        for message in said:
            place = int(message["channel_id"])
            if place in channels:
                assert len(server.posts(int(message["id"]))) == 1
        assert [len(server.posts(thread)) for thread in threads] == [5, 5, 5]
        assert len(server.posts()) == 40
        assert all(post["content"].startswith("0.8 L [1].") for post in server.posts())
