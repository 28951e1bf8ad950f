"""When Quill speaks, and when it keeps out of what people say to each other."""

from __future__ import annotations

import pytest

from adapters.addressing import FollowUps
from adapters.store import SqlConversationStore
from tests.discord.conftest import ME, OIL, Quill, quill_on
from tests.discord_server.server import DiscordServer
from tests.discord_server.world import (
    ASKER,
    BOT_ROLE,
    CREW,
    FORUM,
    GENERAL,
    OTHER_BOT,
    SECOND,
    SOLVED_TAG,
    THIRD,
)


async def opened(quill: Quill) -> int:
    """A thread of Quill's own."""
    quill.will_answer("0.8 L [1].")
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    await quill.final(int(said["id"]))
    return int(said["id"])


@pytest.mark.parametrize("type_", [18, 21, 6, 7, 4])
async def test_notices_of_discord_are_no_questions(quill: Quill, type_: int):
    thread = await opened(quill)
    await quill.server.say(ASKER, thread, "and the filter?", type_=type_)
    await quill.silent()
    assert quill.asked == 1


async def test_everyone_is_no_mention_but_both_are(quill: Quill):
    await quill.server.say(ASKER, GENERAL, "@everyone lunch?")
    await quill.server.say(ASKER, GENERAL, "@here")
    await quill.silent()
    quill.will_answer("0.8 L [1].")
    said = await quill.server.say(ASKER, GENERAL, f"@everyone {ME} what oil does the Kestrel take?")
    (post,) = await quill.final(int(said["id"]))
    assert quill.asked == 1
    assert post["content"].startswith("0.8 L")


async def test_bots_webhooks_and_itself_are_not_answered(quill: Quill):
    thread = await opened(quill)
    for number in range(5):
        await quill.server.say(OTHER_BOT, thread, f"{ME if number == 2 else ''} line {number}")
    for number in range(2):
        await quill.server.say(SECOND, thread, f"{ME} hook {number}", webhook_id="77")
    await quill.silent()
    assert quill.asked == 1


async def test_mentions_keep_their_names_and_its_own_is_gone(quill: Quill):
    quill.will_answer("No [1].")
    said = await quill.server.say(
        ASKER,
        GENERAL,
        f"<@9000> is <@102> in <#{GENERAL}> on leave? <@&{CREW}> <:gear:99> <t:1700000000:D> <@&{BOT_ROLE}> <@9000>",
    )
    await quill.final(int(said["id"]))
    (info,) = await quill.store.threads("discord", 1)
    assert info.title == "is @Second in #general on leave? @crew :gear: 2023-11-14 22:13 UTC"


async def test_text_before_the_mention_stays(quill: Quill):
    quill.will_answer("HV-12 [1].")
    said = await quill.server.say(ASKER, GENERAL, f"Hello, our Heron valve leaks, {ME} which seal?")
    await quill.final(int(said["id"]))
    (info,) = await quill.store.threads("discord", 1)
    assert info.title == "Hello, our Heron valve leaks, which seal?"


async def test_in_its_own_thread_it_is_silent_when_a_person_is_addressed(quill: Quill):
    thread = await opened(quill)
    said = await quill.server.say(ASKER, thread, "<@102> can you check?")
    await quill.server.say(SECOND, thread, "on it", reply_to=said["id"])
    await quill.silent()
    quill.will_answer("Every 90 days [1].", rewrite=("Kestrel filter interval",))
    await quill.server.say(ASKER, thread, "what about the filter?")
    await quill.final(thread, 2)


async def test_in_a_thread_of_somebody_else_it_needs_a_mention(quill: Quill):
    thread = await quill.server.open_thread(SECOND, GENERAL, "pumps")
    await quill.server.say(SECOND, thread, "What oil does the Kestrel take?")
    await quill.silent()
    quill.will_answer("0.8 L [1].")
    await quill.server.say(SECOND, thread, f"{ME} {OIL}")
    await quill.final(thread)
    await quill.server.say(SECOND, thread, "thanks, and the filter?")
    await quill.silent()


async def test_after_solved_it_is_silent_until_it_is_mentioned(quill: Quill):
    thread = await opened(quill)
    await quill.server.say(ASKER, thread, "solved, thanks!")
    await quill.server.say(ASKER, thread, "what a pump")
    await quill.silent()
    quill.will_answer("Every 90 days [1].", rewrite=("Kestrel filter interval",))
    await quill.server.say(ASKER, thread, f"{ME} and the filter?")
    await quill.final(thread, 2)
    quill.will_answer("6 bar [1].", rewrite=("Kestrel pressure",))
    await quill.server.say(ASKER, thread, "and the pressure?")
    await quill.final(thread, 3)


async def test_after_staff_it_is_silent_also_when_it_was_away_meanwhile(
    server: DiscordServer, store: SqlConversationStore
):
    server.world.members[THIRD]["roles"] = [str(CREW)]
    async with quill_on(server, store, staff_roles=frozenset({CREW})) as quill:
        thread = await opened(quill)
    server.world.add_message(thread, THIRD, "I take this one.")
    async with quill_on(server, store, staff_roles=frozenset({CREW})) as quill:
        await server.say(ASKER, thread, "is it the filter?")
        await quill.silent()


async def test_a_tag_that_says_solved_makes_it_silent_as_long_as_it_is_there(
    server: DiscordServer, store: SqlConversationStore
):
    async with quill_on(server, store, forums=frozenset({FORUM})) as quill:
        quill.will_answer("24 days [1].", "5 days [1].", rewrite=("leave days carried over",))
        thread = await server.open_post(ASKER, "Leave", "How many leave days do staff get?")
        await quill.final(thread)
        place = server.world.channels[thread]
        place["owner_id"] = "9000"
        for tags in ([str(SOLVED_TAG)], []):
            place["applied_tags"] = tags
            await server.gateway.dispatch("THREAD_UPDATE", place)
            await server.say(ASKER, thread, f"{'<@9000> ' if not tags else ''}how many may be carried over?")
            if tags:
                await quill.silent()
        await quill.final(thread, 2)


@pytest.mark.parametrize(
    ("policy", "answered"),
    [(FollowUps.ALWAYS, {ASKER, SECOND}), (FollowUps.ASKER, {ASKER}), (FollowUps.MENTION, set())],
)
async def test_the_policy_says_who_may_ask_on_without_a_mention(
    server: DiscordServer, store: SqlConversationStore, policy: FollowUps, answered: set[int]
):
    async with quill_on(server, store, follow_ups=policy) as quill:
        thread = await opened(quill)
        for count, author in enumerate((SECOND, ASKER), 1):
            quill.will_answer("Every 90 days [1].", rewrite=("Kestrel filter",))
            await server.say(author, thread, "and the filter?")
            if author in answered:
                await quill.final(thread, 1 + len([a for a in (SECOND, ASKER)[:count] if a in answered]))
            else:
                await quill.silent()


async def test_only_allowed_servers_channels_and_roles_are_answered(server: DiscordServer, store: SqlConversationStore):
    server.world.add_dm(5000, ASKER)
    for closed in (
        {"servers": frozenset({2})},
        {"channels": frozenset({51})},
        {"roles": frozenset({CREW})},
    ):
        async with quill_on(server, store, **closed) as quill:
            await server.say(ASKER, GENERAL, f"{ME} {OIL}")
            await quill.silent(0.3)
    async with quill_on(server, store, roles=frozenset({CREW})) as quill:
        await server.say(ASKER, 5000, OIL)
        await quill.silent(0.3)
        server.world.members[SECOND]["roles"] = [str(CREW)]
        quill.will_answer("0.8 L [1].")
        said = await server.say(SECOND, GENERAL, f"{ME} {OIL}")
        await quill.final(int(said["id"]))


async def test_without_the_intent_mentions_replies_and_private_messages_work(
    server: DiscordServer, store: SqlConversationStore, caplog: pytest.LogCaptureFixture
):
    server.gateway.content_allowed = False
    async with quill_on(server, store) as quill:
        assert "Message Content intent is not switched on" in caplog.text
        thread = await opened(quill)
        await server.say(ASKER, thread, "and the filter?")
        await quill.silent()
        quill.will_answer("Every 90 days [1].", rewrite=("Kestrel filter",))
        await server.say(ASKER, thread, f"{ME} and the filter?")
        await quill.final(thread, 2)
