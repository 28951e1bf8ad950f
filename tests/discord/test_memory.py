"""What is remembered of people on Discord: told to themselves alone, in their own questions alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from adapters import about_me
from adapters.ports import Person
from adapters.store import SqlConversationStore
from core.errors import ModelUnavailable
from tests.dialogues.test_memories import FEDORA, Rememberer, fallbacks
from tests.discord.conftest import ME, OIL, Quill, quill_on
from tests.discord.test_commands import shown
from tests.discord_server.gateway import until
from tests.discord_server.server import DiscordServer
from tests.discord_server.world import ASKER, EPHEMERAL, GENERAL, GUILD, NEWS, SECOND

ANSWER = "0.8 L [1]."
PRIVATE_THREAD = 12
PERSON = Person(platform="discord", workspace=str(GUILD), id=str(ASKER))


@pytest.fixture
async def quill(server: DiscordServer, store: SqlConversationStore) -> AsyncIterator[Quill]:
    """One that remembers."""
    async with quill_on(server, store, Rememberer(store)) as quill:
        yield quill


def memories(quill: Quill) -> Rememberer:
    assert isinstance(quill.bot, Rememberer)
    return quill.bot


async def at_rest(quill: Quill) -> None:
    """Until nothing is answered and nothing picked any more."""
    await until(lambda: not quill.bot.dispatcher._tickets)
    await memories(quill).memories.idle()


async def asks(
    quill: Quill, said: str = "", *, user: int = ASKER, channel: int = GENERAL, picks: str = "", **more: object
) -> str:
    """The prompt of an answer, after what the model picks of `said` is stored."""
    quill.will_answer(ANSWER)
    if picks:
        quill.model.replies["remember"].append(picks)
    asked = quill.asked
    await quill.server.say(user, channel, f"{ME} {said} {OIL}", **more)
    await until(lambda: quill.asked > asked)
    await at_rest(quill)
    return quill.prompt()


async def forgets(quill: Quill, user: int = ASKER, *, what: str = "", fact: int = 0, channel: int = GENERAL) -> str:
    options: dict[str, Any] = {name: value for name, value in (("what", what), ("fact", fact)) if value}
    interaction = await quill.server.command(user, channel, "forget", **options)
    text = await shown(interaction)
    assert interaction.ephemeral
    return text


async def recalls(quill: Quill, user: int = ASKER, channel: int = GENERAL) -> str:
    interaction = await quill.server.command(user, channel, "memory")
    text = await shown(interaction)
    assert interaction.ephemeral
    return text


async def test_a_fact_is_told_in_its_authors_next_thread_and_in_nobody_elses(quill: Quill):
    assert "Fedora" not in (await asks(quill, FEDORA, picks="1")).partition(f"Question: {FEDORA}")[0]
    assert f"> {FEDORA}\n" in await asks(quill)
    assert "Fedora" not in await asks(quill, user=SECOND)


async def test_a_fact_is_told_in_no_other_channel_and_no_private_message_and_the_other_way_round(quill: Quill):
    await asks(quill, FEDORA, picks="1")
    assert "Fedora" not in await asks(quill, channel=NEWS)
    dm = int(quill.server.world.add_dm(5000, ASKER)["id"])
    assert "Fedora" not in await asks(quill, channel=dm)
    quill.model.replies["rewrite"].append(OIL)
    await asks(quill, "I run Debian at home.", channel=dm, picks="1")
    assert "Debian" in await recalls(quill, channel=dm)
    assert "Debian" not in await recalls(quill)
    assert "Debian" not in await asks(quill)


async def test_nothing_is_picked_of_a_file_or_of_somebody_elses_message(quill: Quill):
    server = quill.server
    server.world.files["/attachments/notes.txt"] = b"I run Slackware here."
    file = {"id": "1", "filename": "notes.txt", "size": 21, "content_type": "text/plain", "proxy_url": "x"}
    await asks(quill, FEDORA, attachments=[file | {"url": f"{server.base_url.split('/api')[0]}/attachments/notes.txt"}])
    quill.will_answer(ANSWER)
    said = await server.say(SECOND, GENERAL, f"I run Arch at work. {OIL}")
    await shown(await server.command(ASKER, GENERAL, "Ask about this", target=said))
    await until(lambda: quill.asked == 2)
    await at_rest(quill)
    assert quill.model.asked("remember") == []


async def test_memory_shows_all_facts_in_as_many_messages_as_it_takes_to_their_person_alone(quill: Quill):
    assert await recalls(quill) == about_me.NOTHING
    facts = [f"I run the machine number {n} {'of our old workshop ' * 5}there." for n in range(24)]
    for fact in facts:
        await asks(quill, fact, picks="1")
    interaction = await quill.server.command(ASKER, GENERAL, "memory")
    await until(lambda: facts[0] in interaction.shown)
    told = interaction.shown
    assert len(interaction.followups) == 1
    assert interaction.followups[0]["flags"] & EPHEMERAL
    assert [line.partition(" ")[2] for line in told.splitlines()] == facts[::-1]
    assert await recalls(quill, SECOND) == about_me.NOTHING


async def test_one_fact_is_removed_by_its_number_by_its_person_alone(quill: Quill):
    await asks(quill, FEDORA, picks="1")
    await asks(quill, "I run Debian at home.", picks="1")
    debian, fedora = (int(line.partition(" ")[0][1:]) for line in (await recalls(quill)).splitlines())
    assert await forgets(quill, SECOND, fact=fedora) == about_me.NO_SUCH
    assert await forgets(quill, fact=fedora) == f"Removed for good: {FEDORA}"
    assert await recalls(quill) == f"#{debian} I run Debian at home."
    assert await forgets(quill, fact=fedora) == about_me.NO_SUCH
    prompt = await asks(quill)
    assert "Debian" in prompt
    assert "Fedora" not in prompt


async def test_zero_is_the_number_of_no_fact(quill: Quill):
    await asks(quill, FEDORA, picks="1")
    # Discord lets nobody choose it; if it does all the same, it is not "all".
    assert await shown(await quill.server.command(ASKER, GENERAL, "forget", what="me", fact=0)) == about_me.NO_SUCH
    assert FEDORA in await recalls(quill)


async def test_forget_me_removes_all_of_it_and_keeps_the_threads(quill: Quill):
    await asks(quill, FEDORA, picks="1")
    await asks(quill, FEDORA, user=SECOND, picks="1")
    assert "Removed 1 fact about you" in await forgets(quill, what="me")
    assert await recalls(quill) == about_me.NOTHING
    assert "Fedora" in await recalls(quill, SECOND)
    assert "Fedora" not in await asks(quill)
    assert len(await quill.store.threads("discord", 9)) == 3


async def test_in_private_a_person_sees_and_removes_what_they_said_anywhere_on_discord(quill: Quill):
    dm = int(quill.server.world.add_dm(5000, ASKER)["id"])
    await asks(quill, FEDORA, picks="1")
    await asks(quill, "I run Debian at home.", channel=dm, picks="1")
    await asks(quill, FEDORA, user=SECOND, picks="1")
    assert "Debian" not in await recalls(quill)
    (fedora, debian) = sorted((await recalls(quill, channel=dm)).split("\n"), key=lambda line: "Debian" in line)
    assert FEDORA in fedora
    assert "Debian" in debian
    assert "Removed 2 facts" in await forgets(quill, what="me", channel=dm)
    assert await recalls(quill) == await recalls(quill, channel=dm) == about_me.NOTHING
    assert "Fedora" in await recalls(quill, SECOND)


async def test_on_a_server_a_person_is_told_that_what_they_said_elsewhere_stays(quill: Quill):
    dm = int(quill.server.world.add_dm(5000, ASKER)["id"])
    await asks(quill, FEDORA, picks="1")
    await asks(quill, "I run Debian at home.", channel=dm, picks="1")
    told = await forgets(quill, what="me")
    assert "Removed 1 fact " in told
    assert "stays (1)" in told
    assert "Debian" in await recalls(quill, channel=dm)
    assert "stays" not in await forgets(quill, what="me", channel=dm)


async def test_an_answer_in_a_server_is_begun_anew_without_what_is_forgotten_in_private(quill: Quill):
    dm = int(quill.server.world.add_dm(5000, ASKER)["id"])
    await asks(quill, FEDORA, picks="1")
    quill.will_answer(60.0, ANSWER)
    await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    await until(lambda: quill.asked == 2)
    assert "Fedora" in quill.prompt()
    await forgets(quill, what="me", channel=dm)
    await until(lambda: quill.asked == 3)
    assert "Fedora" not in quill.prompt()


async def test_what_is_being_picked_when_its_author_is_forgotten_does_not_come_back(quill: Quill):
    quill.will_answer(ANSWER)
    quill.model.replies["remember"].append([0.5, "1"])
    await quill.server.say(ASKER, GENERAL, f"{ME} {FEDORA} {OIL}")
    await until(lambda: quill.model.asked("remember"))
    await forgets(quill, what="me")
    await at_rest(quill)
    assert await recalls(quill) == about_me.NOTHING


async def test_one_fact_that_is_removed_while_it_is_picked_once_more_does_not_come_back(quill: Quill):
    await asks(quill, FEDORA, picks="1")
    (number,) = await quill.store.facts.of(PERSON)
    quill.will_answer(ANSWER)
    quill.model.replies["remember"].append([0.5, "1"])
    await quill.server.say(ASKER, GENERAL, f"{ME} I run  Fedora on my laptop. {OIL}")
    await until(lambda: len(quill.model.asked("remember")) == 2)
    assert FEDORA in await forgets(quill, fact=number)
    await at_rest(quill)
    assert await recalls(quill) == about_me.NOTHING


async def test_an_answer_that_is_being_made_is_begun_anew_without_what_is_forgotten(quill: Quill):
    await asks(quill, FEDORA, picks="1")
    quill.will_answer(60.0, ANSWER)
    await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    await until(lambda: quill.asked == 2)
    assert "Fedora" in quill.prompt()
    await forgets(quill, what="me")
    await until(lambda: quill.asked == 3)
    await at_rest(quill)
    assert "Fedora" not in quill.prompt()


@pytest.mark.parametrize("forgotten", [True, False])
async def test_a_question_that_is_answered_again_brings_nothing_back(quill: Quill, forgotten: bool):
    await asks(quill, FEDORA, picks="1")
    (post,) = quill.server.posts(int((await quill.store.threads("discord", 1))[0].key.thread))
    if forgotten:
        await forgets(quill, what="me")
    quill.will_answer(ANSWER)
    quill.model.replies["remember"].append("1")
    await shown(await quill.server.press(ASKER, post, quill.server.buttons(post)["Try again"]))
    await until(lambda: quill.asked == 2)
    await at_rest(quill)
    assert len(quill.model.asked("remember")) == (1 if forgotten else 2)
    assert list((await quill.store.facts.of(PERSON)).values()) == ([] if forgotten else [FEDORA])


async def test_nothing_is_picked_for_somebody_who_has_anothers_question_answered_again(quill: Quill):
    await asks(quill, FEDORA, picks="1")
    (post,) = quill.server.posts(int((await quill.store.threads("discord", 1))[0].key.thread))
    quill.will_answer(ANSWER)
    await shown(await quill.server.press(SECOND, post, quill.server.buttons(post)["Try again"]))
    await until(lambda: quill.asked == 2)
    await at_rest(quill)
    assert len(quill.model.asked("remember")) == 1
    assert "Fedora" not in await recalls(quill, SECOND)


@pytest.mark.parametrize("broken", ["picking", "storing", "recalling"])
async def test_the_answer_comes_whatever_of_the_memory_is_broken(
    quill: Quill, broken: str, monkeypatch: pytest.MonkeyPatch
):
    async def fails(*arguments: object) -> None:
        raise RuntimeError("the table of facts cannot be used")

    stage = "recall" if broken == "recalling" else "remember"
    before = fallbacks(stage)
    quill.model.replies["remember"].append(ModelUnavailable() if broken == "picking" else "1")
    if broken != "picking":
        monkeypatch.setattr(quill.store.facts, "told" if broken == "recalling" else "add", fails)
    await asks(quill, FEDORA)
    (post,) = quill.server.posts(int((await quill.store.threads("discord", 1))[0].key.thread))
    assert post["content"].startswith("0.8 L")
    assert fallbacks(stage) == before + 1


async def test_switched_off_nothing_is_stored_and_the_commands_say_so_in_one_line(
    server: DiscordServer, store: SqlConversationStore
):
    async with quill_on(server, store, Rememberer(store, enabled=False)) as quill:
        await asks(quill, FEDORA)
        assert quill.model.asked("remember") == []
        assert await store.facts.of(PERSON) == {}
        assert await recalls(quill) == about_me.OFF
        assert await forgets(quill, what="me") == about_me.OFF
        assert "\n" not in about_me.OFF


async def test_what_is_said_in_a_private_thread_is_told_there_alone(quill: Quill):
    world, secret = quill.server.world, 7000
    thread = world.add_thread(secret, GENERAL, "between us", ASKER, type=PRIVATE_THREAD)
    await quill.server.gateway.dispatch("THREAD_CREATE", thread)
    await asks(quill, FEDORA, channel=secret, picks="1")
    assert "Fedora" in await recalls(quill)
    assert "Fedora" not in await asks(quill)
    await asks(quill, "I run Debian at home.", picks="1")
    quill.model.replies["rewrite"].append(OIL)
    prompt = await asks(quill, channel=secret)
    assert f"> {FEDORA}" in prompt
    assert "> I run Debian at home." in prompt


async def reads(quill: Quill, *texts: str) -> None:
    """Until these are the questions that are stored of the newest conversation."""
    (known,) = await quill.store.threads("discord", 1)
    while tuple(turn.typed for turn in await quill.store.turns(known.key)) != texts:  # noqa: ASYNC110 - a row
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("edited", [False, True])
async def test_what_was_said_in_a_question_that_was_answered_again_goes_with_its_message(quill: Quill, edited: bool):
    await asks(quill, FEDORA, picks="1")
    (known,) = await quill.store.threads("discord", 1)
    thread = int(known.key.thread)
    (post,) = quill.server.posts(thread)
    quill.will_answer(ANSWER)
    quill.model.replies["remember"].append("1")
    await shown(await quill.server.press(ASKER, post, quill.server.buttons(post)["Try again"]))
    await until(lambda: quill.asked == 2)
    await at_rest(quill)
    assert FEDORA in await recalls(quill)
    said = quill.server.world.messages[GENERAL][thread]
    await (quill.server.change(said, f"{ME} {OIL}") if edited else quill.server.take_back(said))
    async with asyncio.timeout(10):
        await reads(quill, *([OIL, OIL] if edited else ["", ""]))
    assert await recalls(quill) == about_me.NOTHING
    quill.will_answer(ANSWER)
    await quill.server.say(SECOND, thread, f"{ME} And the filter?")
    await until(lambda: quill.asked == 3)
    assert "Fedora" not in quill.prompt()


@pytest.mark.parametrize("edited", [False, True])
async def test_what_somebody_else_asked_about_goes_with_its_message(quill: Quill, edited: bool):
    quill.will_answer(ANSWER)
    said = await quill.server.say(SECOND, GENERAL, f"{FEDORA} {OIL}")
    await shown(await quill.server.command(ASKER, GENERAL, "Ask about this", target=said))
    await until(lambda: quill.asked == 1)
    await at_rest(quill)
    await (quill.server.change(said, OIL) if edited else quill.server.take_back(said))
    async with asyncio.timeout(10):
        await reads(quill, OIL if edited else "")
    quill.will_answer(ANSWER)
    await quill.server.say(ASKER, int(said["id"]), f"{ME} And the filter?")
    await until(lambda: quill.asked == 2)
    assert "Fedora" not in quill.prompt()
