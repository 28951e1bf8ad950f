"""Slash commands, menus and buttons."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from adapters.discord import catch_up
from core.types import QueryStatus
from tests.discord.conftest import ME, OIL, Quill, quill_on
from tests.discord_server.gateway import until
from tests.discord_server.interactions import Interaction
from tests.discord_server.world import ASKER, CREW, GENERAL, SECOND, Json


async def shown(interaction: Interaction) -> str:
    """What the person saw in answer."""
    await until(lambda: interaction.shown)
    return interaction.shown


async def two_turns(quill: Quill) -> tuple[int, list[Json]]:
    """A thread with a question and a follow-up."""
    quill.will_answer("0.8 L [1].", "Every 90 days [1].", rewrite=("Kestrel filter interval",))
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    thread = int(said["id"])
    await quill.final(thread)
    await quill.server.say(ASKER, thread, "and how often the filter?")
    return thread, await quill.final(thread, 2)


async def test_all_commands_are_registered(quill: Quill):
    names = {command["name"] for command in quill.server.rest.commands}
    slash = {"ask", "rewrite", "sources", "context", "memory", "reset", "forget", "help"}
    assert names == slash | {"Show rewritten query", "Ask about this"}


async def test_the_rewritten_query_is_shown_to_the_asker_alone_with_a_way_back(quill: Quill):
    thread, _ = await two_turns(quill)
    interaction = await quill.server.command(SECOND, thread, "rewrite")
    text = await shown(interaction)
    assert "Searched for: Kestrel filter interval" in text
    assert "Status:       rewritten" in text
    assert interaction.ephemeral
    assert interaction.answered_after is not None
    assert interaction.answered_after < 1
    assert interaction.message is not None
    buttons = quill.server.buttons(interaction.message)
    quill.will_answer("Every 90 days [1].")
    await quill.server.press(SECOND, interaction.message, buttons["Search my exact words"])
    await quill.final(thread, 3)
    (*_, again) = await quill.store.turns((await quill.store.threads("discord", 1))[0].key)
    assert (again.searched, again.query_status) == ("and how often the filter?", QueryStatus.SKIPPED)
    assert len(quill.model.asked("rewrite")) == 1


async def test_sources_and_context_are_those_of_this_thread(quill: Quill):
    thread, _ = await two_turns(quill)
    assert "d1.md" in await shown(await quill.server.command(ASKER, thread, "sources"))
    context = await quill.server.command(ASKER, thread, "context")
    assert "2 answered in this thread" in await shown(context)
    assert "; the model counted" in context.shown
    assert context.ephemeral
    assert "Use this in a thread" in await shown(await quill.server.command(ASKER, GENERAL, "context"))
    other = await quill.server.open_thread(SECOND, GENERAL, "other")
    assert "Nothing has been asked" in await shown(await quill.server.command(ASKER, other, "sources"))
    assert "mentioning me" in await shown(await quill.server.command(ASKER, GENERAL, "help"))


async def test_after_reset_no_rewrite_and_no_history(quill: Quill):
    thread, _ = await two_turns(quill)
    assert "start afresh" in await shown(await quill.server.command(ASKER, thread, "reset"))
    quill.will_answer("4 bar [1].")
    await quill.server.say(ASKER, thread, "When does the Heron valve open?")
    await quill.final(thread, 3)
    assert len(quill.model.asked("rewrite")) == 1
    assert "0.8 L [1]" not in quill.prompt()
    # A deletion makes the memory anew, which does not bring back what was before.
    await quill.server.take_back(quill.server.world.messages[GENERAL][thread])
    quill.will_answer("HV-12 [1].", rewrite=("Heron valve seal kit",))
    await quill.server.say(ASKER, thread, "and its seal kit?")
    await quill.final(thread, 4)
    assert "Every 90 days" not in quill.prompt()
    assert "4 bar [1]" in quill.prompt()


async def test_only_whose_conversation_it_is_may_forget_it(quill: Quill):
    thread, _ = await two_turns(quill)
    assert "Only the person" in await shown(await quill.server.command(SECOND, thread, "forget"))
    assert len(await quill.store.threads("discord", 5)) == 1
    assert "2 questions" in await shown(await quill.server.command(ASKER, thread, "forget"))
    assert not await quill.store.threads("discord", 5)


async def test_ask_opens_a_thread_with_the_question_and_outlives_its_token(quill: Quill):
    quill.server.interactions.token_seconds = 0.6
    quill.will_answer(["0.8 L ", *["and more "] * 3, "[1]."])
    interaction = await quill.server.command(ASKER, GENERAL, "ask", question=OIL)
    await until(lambda: interaction.message)
    assert interaction.message is not None
    assert interaction.message["content"] == f"**Asker** asks: {OIL}"
    assert not interaction.ephemeral
    await asyncio.sleep(0.6)
    thread = int(interaction.message["id"])
    (post,) = await quill.final(thread)
    assert post["content"].startswith("0.8 L")
    assert quill.server.world.channels[thread]["name"] == OIL


WORDS = "is \\\\ *this* <@9002> @everyone ** asks: `a_b` [x](https://evil.example/a_b) \u202e#1 @"


async def test_ask_shows_the_question_as_it_was_typed_and_pings_and_links_nothing(quill: Quill):
    quill.will_answer("0.8 L [1].")
    interaction = await quill.server.command(ASKER, GENERAL, "ask", question=WORDS)
    await until(lambda: interaction.message)
    assert interaction.message is not None
    shown = interaction.message["content"]
    assert not any(live in shown for live in ("<@9", "@everyone", "https:", "[x]", "\u202e"))
    (call,) = quill.server.recorder.to("POST /interactions/{interaction}/{token}/callback")
    assert call.body["data"]["allowed_mentions"] == {"parse": []}
    assert call.body["data"]["flags"] == 4
    await quill.final(int(interaction.message["id"]))
    ((turn,),) = [await quill.store.turns(info.key) for info in await quill.store.threads("discord", 5)]
    assert turn.typed == WORDS.replace("\u202e", "")


async def test_what_was_asked_by_command_is_asked_about_as_it_was_typed(quill: Quill):
    quill.will_answer("0.8 L [1].", "0.8 L [1].")
    interaction = await quill.server.command(ASKER, GENERAL, "ask", question=f"{OIL} `a_b`")
    await until(lambda: interaction.message)
    assert interaction.message is not None
    await quill.final(int(interaction.message["id"]))
    await shown(await quill.server.command(SECOND, GENERAL, "Ask about this", target=interaction.message))
    await until(lambda: quill.asked == 2)
    assert "\\" not in quill.prompt()
    assert quill.prompt().endswith(f"Question: {OIL} `a_b`")


async def test_a_question_that_cannot_be_shown_whole_is_refused_to_its_asker_alone(quill: Quill):
    interaction = await quill.server.command(ASKER, GENERAL, "ask", question="*" * 1500)
    assert "mentions me" in await shown(interaction)
    assert interaction.ephemeral
    await quill.silent()


async def test_a_question_by_command_that_is_deleted_is_not_answered(quill: Quill, monkeypatch):
    """Before it is stored."""
    take = quill.gateway._intake._take

    async def late(*arguments):
        await until(lambda: not quill.server.posts(GENERAL))
        await until(lambda: quill.gateway._intake.lately.is_gone(arguments[1]))
        return await take(*arguments)

    monkeypatch.setattr(quill.gateway._intake, "_take", late)
    interaction = await quill.server.command(ASKER, GENERAL, "ask", question=OIL)
    await until(lambda: interaction.message)
    assert interaction.message is not None
    await quill.server.take_back(interaction.message)
    await quill.silent()
    assert quill.asked == 0


@pytest.mark.parametrize("then", [{}, {"status": 403, "body": {"code": 0, "message": "later"}}])
async def test_an_acknowledgement_whose_reply_is_lost_leaves_one_question(quill: Quill, monkeypatch, then: Json):
    """Discord has shown it. With `then`, not even its id can be asked for: it is found by reading again."""
    monkeypatch.setattr(catch_up, "AGAIN_SECONDS", 0.05)
    await quill.store.lookups.mark("discord", datetime.now(UTC))
    lost = quill.server.recorder.arm("POST /interactions/{interaction}/{token}/callback", lose=True)
    if then:
        quill.server.recorder.arm("GET /webhooks/{application}/{token}/messages/@original", times=5, **then)
    quill.will_answer("0.8 L [1].")
    interaction = await quill.server.command(ASKER, GENERAL, "ask", question=OIL)
    await until(lambda: lost.landed and interaction.message)
    assert interaction.message is not None
    (post,) = await quill.final(int(interaction.message["id"]))
    assert post["content"].startswith("0.8 L")
    await quill.silent()
    assert quill.asked == 1


async def test_who_deletes_the_message_that_opened_a_conversation_may_still_begin_it_afresh_and_forget_it(quill: Quill):
    thread, _ = await two_turns(quill)
    (known,) = await quill.store.threads("discord", 5)
    await quill.server.take_back(quill.server.world.messages[GENERAL][thread])
    while (await quill.store.turns(known.key))[0].typed:  # noqa: ASYNC110 - a row
        await asyncio.sleep(0.01)
    for command in ("reset", "forget"):
        assert "Only the person" in await shown(await quill.server.command(SECOND, thread, command))
    assert "start afresh" in await shown(await quill.server.command(ASKER, thread, "reset"))
    assert "2 questions" in await shown(await quill.server.command(ASKER, thread, "forget"))
    assert not await quill.store.threads("discord", 5)


async def test_the_menu_of_a_message_asks_about_it_and_shows_its_query(quill: Quill):
    quill.will_answer("4 bar [1].")
    said = await quill.server.say(SECOND, GENERAL, "When does the Heron valve open?")
    await shown(await quill.server.command(ASKER, GENERAL, "Ask about this", target=said))
    (post,) = await quill.final(int(said["id"]))
    (info,) = await quill.store.threads("discord", 5)
    assert info.title == "When does the Heron valve open?"
    for target in (post,):
        seen = await quill.server.command(SECOND, int(said["id"]), "Show rewritten query", target=target)
        assert "When does the Heron valve open?" in await shown(seen)
    other = await quill.server.say(SECOND, GENERAL, "unasked")
    assert "neither" in await shown(await quill.server.command(ASKER, GENERAL, "Show rewritten query", target=other))


async def test_buttons_rate_try_again_and_show_the_query(quill: Quill):
    thread, posts = await two_turns(quill)
    buttons = quill.server.buttons(posts[-1])
    for user, label in ((ASKER, "Helpful"), (SECOND, "Not helpful"), (ASKER, "Not helpful")):
        assert "noted" in await shown(await quill.server.press(user, posts[-1], buttons[label]))
    with closing(sqlite3.connect(quill.store.database.path)) as database:
        assert database.execute("SELECT helpful FROM feedback").fetchall() == [(0,), (0,)]
    query = await quill.server.press(SECOND, posts[-1], buttons["Show query"])
    assert "Kestrel filter interval" in await shown(query)
    quill.will_answer("90 days [1].", rewrite=("Kestrel filter interval",))
    await quill.server.press(ASKER, posts[-1], buttons["Try again"])
    again = (await quill.final(thread, 3))[-1]
    assert again["content"].startswith("90 days")


async def test_what_is_deleted_while_it_is_asked_again_is_not_answered_again(quill: Quill, monkeypatch):
    """It was read before, and is admitted after."""
    quill.will_answer("0.8 L [1].")
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    (post,) = await quill.final(int(said["id"]))
    submit = quill.gateway._intake.submit

    async def late(*arguments, **more):
        await quill.server.take_back(said)
        (known,) = await quill.store.threads("discord", 5)
        while (await quill.store.turns(known.key))[0].typed:  # noqa: ASYNC110 - a row
            await asyncio.sleep(0.01)
        return await submit(*arguments, **more)

    monkeypatch.setattr(quill.gateway._intake, "submit", late)
    pressed = await quill.server.press(ASKER, post, quill.server.buttons(post)["Try again"])
    assert "deleted or forgotten" in await shown(pressed)
    await quill.silent()
    assert quill.asked == 1


async def test_an_answer_can_be_stopped_by_its_asker(quill: Quill):
    quill.will_answer(60.0)
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    thread = int(said["id"])
    await until(lambda: quill.asked and quill.server.posts(thread))
    (post,) = quill.server.posts(thread)
    stop = quill.server.buttons(post)["Stop"]
    assert "Only whoever asked" in await shown(await quill.server.press(SECOND, post, stop))
    assert "Stopped" in await shown(await quill.server.press(ASKER, post, stop))
    (post,) = await quill.final(thread)
    assert "(stopped)" in post["content"]
    await until(lambda: not quill.bot.dispatcher._tickets)
    assert "ended already" in await shown(await quill.server.press(ASKER, post, stop))


async def test_an_interaction_that_is_too_late_is_logged_and_harms_nothing(quill: Quill):
    thread, _ = await two_turns(quill)
    callback = "POST /interactions/{interaction}/{token}/callback"
    fault = quill.server.recorder.arm(callback, status=404, body={"code": 10062, "message": "Unknown interaction"})
    await quill.server.command(ASKER, thread, "rewrite")
    await until(lambda: fault.landed)
    assert "Kestrel filter" in await shown(await quill.server.command(ASKER, thread, "rewrite"))


async def test_a_slow_database_does_not_delay_the_acknowledgement(quill: Quill, monkeypatch):
    thread, _ = await two_turns(quill)
    last_turn = quill.store.last_turn

    async def slow(*arguments):
        await asyncio.sleep(1.0)
        return await last_turn(*arguments)

    monkeypatch.setattr(quill.store, "last_turn", slow)
    interaction = await quill.server.command(ASKER, thread, "rewrite")
    assert "Kestrel filter" in await shown(interaction)
    assert interaction.answered_after is not None
    assert interaction.answered_after < 0.5


async def test_who_may_not_ask_is_told_so_alone(server, store):
    async with quill_on(server, store, roles=frozenset({CREW})) as quill:
        interaction = await server.command(ASKER, GENERAL, "ask", question=OIL)
        assert "may not answer you" in await shown(interaction)
        assert interaction.ephemeral
        assert quill.asked == 0


async def test_ask_with_nothing_to_be_seen_is_told_to_ask(quill: Quill):
    interaction = await quill.server.command(ASKER, GENERAL, "ask", question="\u200b")
    shown = await until(lambda: interaction.shown)
    assert "Ask me something" in str(shown)
    assert interaction.ephemeral
    await quill.silent()
    assert quill.asked == 0
