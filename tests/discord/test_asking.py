"""Asking on Discord, and asking on."""

from __future__ import annotations

import pytest

from adapters.store import SqlConversationStore
from tests.discord.conftest import ME, OIL, Quill, quill_on
from tests.discord_server.gateway import until
from tests.discord_server.server import DiscordServer
from tests.discord_server.world import ASKER, FORUM, GENERAL, NEWS, SECOND


async def test_a_mention_opens_a_thread_named_after_the_question(quill: Quill):
    quill.will_answer("It takes 0.8 L of oil [1].")
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    thread = int(said["id"])
    (post,) = await quill.final(thread)
    assert quill.server.world.channels[thread]["name"] == OIL
    assert post["content"].startswith("It takes 0.8 L of oil [1].\n\n**Sources**\n[1] Page d1")
    assert not quill.server.posts(GENERAL)
    assert set(quill.server.buttons(post)) == {"Helpful", "Not helpful", "Show query", "Try again"}


async def test_the_bots_own_thread_needs_no_mention(quill: Quill):
    quill.will_answer("0.8 L [1].", "Every 90 days [1].", rewrite=("Kestrel filter interval",))
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    thread = int(said["id"])
    await quill.final(thread)
    follow_up = await quill.server.say(SECOND, thread, "and how often the filter?")
    _first, second = await quill.final(thread, 2)
    assert second["content"].startswith("Every 90 days [1].")
    assert second["message_reference"]["message_id"] == follow_up["id"]
    (turn, last) = await quill.store.turns((await quill.store.threads("discord", 1))[0].key)
    assert last.searched == "Kestrel filter interval"
    assert (turn.author, last.author) == ("Asker", "Second")
    assert turn.typed == OIL


async def test_announcements_get_a_thread_too(quill: Quill):
    quill.will_answer("0.8 L [1].")
    said = await quill.server.say(ASKER, NEWS, f"{OIL} {ME}")
    await quill.final(int(said["id"]))


async def test_where_no_thread_can_be_made_the_answer_and_its_chain_are_in_the_channel(quill: Quill):
    quill.server.world.denied[GENERAL] = {"create_thread"}
    quill.will_answer("0.8 L [1].", "Every 90 days [1].", rewrite=("Kestrel filter interval",))
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    (post,) = await quill.final(GENERAL)
    assert post["message_reference"]["message_id"] == said["id"]
    await quill.server.say(SECOND, GENERAL, "and how often the filter?", reply_to=post["id"])
    await quill.final(GENERAL, 2)
    (info,) = await quill.store.threads("discord", 5)
    assert info.turns == 2


async def test_private_messages_are_one_conversation(quill: Quill):
    dm = int(quill.server.world.add_dm(5000, ASKER)["id"])
    quill.will_answer("0.8 L [1].", "Every 90 days [1].", rewrite=("Kestrel filter interval",))
    await quill.server.say(ASKER, dm, OIL)
    await quill.final(dm)
    await quill.server.say(ASKER, dm, "and how often the filter?")
    await quill.final(dm, 2)
    (info,) = await quill.store.threads("discord", 5)
    assert info.turns == 2


async def test_a_forum_post_is_answered_where_the_bot_is_mentioned(quill: Quill):
    quill.will_answer("24 days [1].")
    thread = await quill.server.open_post(ASKER, "Leave days", f"{ME} How many leave days do staff get?")
    (post,) = await quill.final(thread)
    assert post["message_reference"]["message_id"] == str(thread)
    (info,) = await quill.store.threads("discord", 5)
    assert info.title == "Leave days\n\nHow many leave days do staff get?"
    assert int(info.key.channel) == FORUM


async def test_a_thread_that_was_archived_before_the_start_is_known_by_its_first_message(
    server: DiscordServer, store: SqlConversationStore
):
    async with quill_on(server, store) as quill:
        quill.will_answer("0.8 L [1].")
        said = await server.say(ASKER, GENERAL, f"{ME} {OIL}")
        await quill.final(int(said["id"]))
    thread = int(said["id"])
    server.world.channels[thread]["thread_metadata"]["archived"] = True
    async with quill_on(server, store) as quill:
        quill.will_answer("Every 90 days [1].", rewrite=("Kestrel filter",))
        asked = await server.say(ASKER, thread, "and how often the filter?")
        await quill.final(thread, 2)
        assert (await store.threads("discord", 5))[0].turns == 2
        await server.take_back(asked)
        await until(lambda: not quill.bot.dispatcher._tickets)


async def test_typing_and_the_growing_text_are_shown_before_the_answer(quill: Quill):
    quill.will_answer(0.5)
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    thread = int(said["id"])
    (first,) = await until(lambda: quill.server.posts(thread))
    assert first["content"] == "-# Looking into the documents ..."
    assert list(quill.server.buttons(first)) == ["Stop"]
    await until(lambda: quill.server.recorder.to("POST /channels/{channel}/typing"))
    await quill.final(thread)


@pytest.mark.parametrize("beside", ["", "\u200b", " \u2060\ufe0f ", "\u3164", "\x07"])
async def test_a_mention_with_nothing_to_be_seen_beside_it_is_told_to_ask(quill: Quill, beside: str):
    await quill.server.say(ASKER, GENERAL, f"{ME}{beside}")
    (post,) = await quill.final(GENERAL)
    assert "Ask me something" in post["content"]
    assert quill.asked == 0


async def test_what_is_said_in_one_thread_is_in_no_prompt_of_another(quill: Quill):
    quill.will_answer("Noted [1].", "0.8 L [1].", "4 bar [1].", rewrite=("Heron valve", "Heron valve"))
    said = await quill.server.say(ASKER, GENERAL, f"{ME} My code is ZEBRA-9, what oil does the Kestrel take?")
    await quill.final(int(said["id"]))
    other = await quill.server.say(SECOND, GENERAL, f"{ME} What is the code of the Kestrel oil?")
    await quill.final(int(other["id"]))
    assert "ZEBRA-9" not in quill.prompt()
    dm = int(quill.server.world.add_dm(5000, ASKER)["id"])
    await quill.server.say(ASKER, dm, "When does the Heron valve open?")
    await quill.final(dm)
    assert "ZEBRA-9" not in quill.prompt()


async def test_two_questions_at_once_in_a_thread_are_answered_in_order_and_another_thread_does_not_wait(quill: Quill):
    quill.will_answer("0.8 L [1].")
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    thread = int(said["id"])
    await quill.final(thread)
    quill.will_answer(0.8, "Elsewhere [1].", "6 bar [1].", rewrite=("Kestrel filter", "Kestrel pressure"))
    await quill.server.say(ASKER, thread, "and how often the filter?")
    await until(lambda: quill.asked == 2)
    await quill.server.say(ASKER, thread, "and the rated pressure?")
    other = await quill.server.say(SECOND, GENERAL, f"{ME} {OIL}")
    (elsewhere,) = await quill.final(int(other["id"]))
    assert elsewhere["content"].startswith("Elsewhere")
    assert len([post for post in quill.server.posts(thread) if "Stop" not in quill.server.buttons(post)]) == 1
    *_, last = await quill.final(thread, 3)
    assert last["content"].startswith("6 bar")
    asked = [request.messages[-1].content.rpartition("Question: ")[2] for request in quill.model.asked("generate")]
    assert asked == [OIL, "and how often the filter?", OIL, "and the rated pressure?"]


async def test_half_a_surrogate_pair_in_a_question_and_in_a_name_costs_nothing(quill: Quill):
    quill.server.world.add_user(777, "Half \ud83d")
    quill.will_answer("0.8 L [1].")
    said = await quill.server.say(777, GENERAL, f"{ME} {OIL} \ud83d")
    (post,) = await quill.final(int(said["id"]))
    assert post["content"].startswith("0.8 L [1].")
