"""What Discord refuses, loses or delays, and what is seen in the end: one answer, whole, without a ping."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest

from adapters.jobs import JobState
from adapters.store import SqlConversationStore
from core.outcome import NO_ANSWER
from tests.discord.conftest import ME, OIL, Quill
from tests.discord_server.gateway import until
from tests.discord_server.world import ASKER, GENERAL, SECOND, Json

POST = "POST /channels/{channel}/messages"
PATCH = "PATCH /channels/{channel}/messages/{message}"
THREAD = "POST /channels/{channel}/messages/{message}/threads"
SLOWLY = ["It takes ", 0.0, "0.8 L ", "of oil ", "[1]."]


async def ask(quill: Quill, text: str = OIL) -> int:
    """Asks in a channel; the thread."""
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {text}")
    return int(said["id"])


async def state(store: SqlConversationStore) -> str:
    """Of the only job."""
    with closing(sqlite3.connect(store.database.path)) as database:
        (row,) = database.execute("SELECT state FROM jobs").fetchall()
    return str(row[0])


@pytest.mark.parametrize("what", [POST, PATCH, THREAD])
@pytest.mark.parametrize(
    "fault",
    [
        {"status": 503},
        {"status": 500},
        {"status": 429, "body": {"retry_after": 0.2, "global": False}, "headers": {"Retry-After": "0.2"}},
        {"status": 429, "body": {"retry_after": 0.2, "global": True}, "headers": {"Retry-After": "0.2"}},
        {"status": 429, "body": {"retry_after": 0.2, "global": False}},
        {"status": 429, "body": "<html>banned</html>", "headers": {"Retry-After": "0.2"}},
        {"status": 429, "body": "<html>banned</html>"},
        {"status": 429, "body": "<html>banned</html>", "headers": {"Via": ""}},
        {"lose": True},
    ],
    ids=["503", "500", "429", "global 429", "429 in the body", "HTML", "HTML alone", "HTML of a proxy", "reply lost"],
)
async def test_a_request_that_fails_or_whose_reply_is_lost_leaves_one_answer(quill: Quill, what: str, fault: Json):
    times = 1 if "lose" in fault else 2
    armed = quill.server.recorder.arm(what, times, **fault)
    quill.will_answer("0.8 L of oil [1].")
    thread = await ask(quill)
    (post,) = await quill.final(thread)
    assert armed.landed == times, "the fault was there"
    assert post["content"].startswith("0.8 L of oil [1].")
    await until(lambda: not quill.bot.dispatcher._tickets)
    assert len(quill.server.posts()) == 1
    assert quill.asked == 1


async def test_a_long_answer_that_is_the_first_that_can_be_said_opens_its_thread(quill: Quill):
    """Nothing got through before it was complete."""
    armed = quill.server.recorder.arm(THREAD, 1000, status=503)
    quill.will_answer(f"{'Step by step, it takes 0.8 L. ' * 100}[1].")
    thread = await ask(quill)
    await until(lambda: armed.landed > 1 and quill.asked == 1)
    while (await state(quill.store)) != "delivering":  # noqa: ASYNC110 - a row
        await asyncio.sleep(0.01)
    armed.times = armed.landed  # from now on it succeeds
    posts = await quill.final(thread, 2)
    assert len(quill.server.posts()) == len(posts)


async def test_a_long_pause_is_kept_and_the_last_edit_lands(quill: Quill):
    quill.will_answer(["0.8 L ", "of oil ", "[1]."])
    armed = quill.server.recorder.arm(PATCH, 1, status=429, body={"retry_after": 1.5}, headers={"Retry-After": "1.5"})
    thread = await ask(quill)
    (post,) = await quill.final(thread)
    assert armed.landed == 1
    assert post["content"].startswith("0.8 L of oil [1].")
    refused, next_one = quill.server.recorder.to(PATCH)[:2]
    assert next_one.at - refused.at >= 1.4


@pytest.mark.parametrize(
    ("status", "code"),
    [(403, 50083), (404, 10003), (403, 50001), (403, 50013)],
    ids=["locked", "gone", "access", "may"],
)
async def test_where_there_is_no_place_any_more_the_job_ends_and_others_go_on(quill: Quill, status: int, code: int):
    quill.will_answer("0.8 L [1].")
    quill.server.recorder.arm(PATCH, 1000, status=status, body={"code": code, "message": "no"})
    thread = await ask(quill)
    await until(lambda: not quill.bot.dispatcher._tickets and quill.server.posts(thread))
    assert await state(quill.store) == JobState.UNDELIVERABLE.value
    assert len(quill.server.recorder.to(PATCH)) <= 4, "no retry storm"
    assert not quill.server.posts(GENERAL)
    quill.server.recorder.faults.clear()
    quill.will_answer("0.8 L [1].")
    await quill.final(await ask(quill))


async def test_an_archived_thread_is_woken_for_the_answer_and_a_locked_one_is_not(quill: Quill):
    assert "Stop" not in await buttons_after_archiving(quill, locked=False)
    assert "Stop" in await buttons_after_archiving(quill, locked=True)


async def buttons_after_archiving(quill: Quill, *, locked: bool) -> dict[str, str]:
    """Of the answer whose thread is archived before it is final."""
    quill.will_answer(0.3)
    thread = await ask(quill)
    await until(lambda: quill.server.posts(thread))
    quill.server.world.channels[thread]["thread_metadata"] |= {"archived": True, "locked": locked}
    await until(lambda: not quill.bot.dispatcher._tickets)
    (post,) = quill.server.posts(thread)
    return quill.server.buttons(post)


async def test_a_message_that_people_delete_while_it_grows_harms_nothing(quill: Quill):
    quill.will_answer([*["word "] * 5, "0.8 L [1]."])
    quill.model.replies["generate"].clear()
    quill.will_answer(0.4)
    thread = await ask(quill)
    (post,) = await until(lambda: quill.server.posts(thread))
    await quill.server.take_back(post)
    await until(lambda: not quill.bot.dispatcher._tickets)
    assert await state(quill.store) == JobState.UNDELIVERABLE.value
    quill.will_answer("0.8 L [1].")
    await quill.server.say(ASKER, thread, OIL)
    await quill.final(thread)


@pytest.mark.parametrize("said", ["", "   ", "<think>hm</think>", "\u200b"])
async def test_a_blank_answer_is_the_fallback_sentence(quill: Quill, said: str):
    quill.will_answer(said, said)
    (post,) = await quill.final(await ask(quill))
    assert post["content"].startswith(NO_ANSWER) or "not available" in post["content"]
    assert all(call.body["content"].strip() for call in quill.server.recorder.to(POST))


async def test_nobody_is_pinged_by_any_create_edit_or_reply(quill: Quill):
    quill.will_answer(["@everyone @here ", "<@&44> ", "<@102> says 0.8 L [1]. ", "x" * 3000])
    thread = await ask(quill, "Repeat after me, Kestrel oil: @everyone @here <@&44> <@102>")
    posts = await quill.final(thread, 2)
    interaction = await quill.server.command(SECOND, thread, "rewrite")
    await until(lambda: interaction.shown)
    recorder = quill.server.recorder
    sent = [call.body for what in (POST, PATCH) for call in recorder.to(what) if "content" in call.body]
    assert len(sent) >= 3
    for body in [
        *sent,
        *(call.body for call in recorder.to("PATCH /webhooks/{application}/{token}/messages/@original")),
    ]:
        assert body["allowed_mentions"]["parse"] == []
        assert not body["allowed_mentions"].get("users")
    for body in (call.body for call in recorder.to(POST)):
        assert body["flags"] & 4, "no link is previewed"
        assert body["enforce_nonce"]
    shown = "".join(post["content"] for post in posts)
    assert "everyone" in shown
    assert "@everyone" not in shown
    assert "<@102>" not in shown


async def test_a_long_answer_is_split_whole_with_sources_and_buttons_on_the_last_part_only(quill: Quill):
    code = "\n".join(f"line_{number} = {number}" for number in range(300))
    quill.will_answer(f"Like this [1]:\n\n```py\n{code}\n```\n\nThat is all.")
    posts = await quill.final(await ask(quill), 3)
    assert all(len(post["content"]) <= 2000 for post in posts)
    assert all(post["content"].count("```") % 2 == 0 for post in posts)
    lines = [line for post in posts for line in post["content"].splitlines() if line.startswith("line_")]
    assert lines == code.splitlines()
    assert [bool(quill.server.buttons(post)) for post in posts] == [False] * (len(posts) - 1) + [True]
    assert ["**Sources**" in post["content"] for post in posts] == [False] * (len(posts) - 1) + [True]


async def test_an_edited_question_is_not_answered_again_and_a_deleted_one_takes_its_placeholder_along(quill: Quill):
    quill.will_answer("0.8 L [1].")
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    await quill.final(int(said["id"]))
    await quill.server.change(said, f"{ME} {OIL} (edited)")
    (known,) = await quill.store.threads("discord", 1)
    while [turn.typed for turn in await quill.store.turns(known.key)] != [f"{OIL} (edited)"]:  # noqa: ASYNC110 - a row
        await asyncio.sleep(0.01)
    await quill.silent()
    quill.will_answer(60.0)
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    await until(lambda: quill.server.posts(int(said["id"])) and quill.asked == 2)
    await quill.server.take_back(said)
    await until(lambda: not quill.server.posts(int(said["id"])))


async def test_a_refused_question_is_told_so_in_the_channel_and_opens_no_thread(quill: Quill):
    quill.will_answer(*[60.0] * 16)
    for _ in range(3):
        await ask(quill)
    refused = await ask(quill)
    (post,) = await until(lambda: quill.server.posts(GENERAL))
    assert post["content"].startswith("Your earlier questions are still waiting.")
    assert post["message_reference"]["message_id"] == str(refused)
    assert refused not in quill.server.world.channels


async def test_many_messages_deleted_at_once_are_all_forgotten(quill: Quill):
    thread = await ask(quill)
    quill.will_answer(
        "0.8 L [1].", "Your badge is 5512 [1].", "Every 90 days [1].", rewrite=("badge", "badge", "filter")
    )
    await quill.final(thread)
    first = await quill.server.say(ASKER, thread, "my badge is 5512, whose Kestrel is it?")
    await quill.final(thread, 2)
    second = await quill.server.say(ASKER, thread, "<@102> 5512 is mine")
    await quill.server.take_back_all([first, second])
    await quill.silent(0.3)
    await quill.server.say(ASKER, thread, "and how often the Kestrel filter?")
    await until(lambda: quill.asked == 3)
    assert "5512" not in str(quill.model.requests[-2:])


async def test_when_the_token_is_taken_away_it_ends_and_asks_no_more(quill: Quill):
    quill.will_answer("0.8 L [1].")
    quill.server.token = "another"
    before = len(quill.server.recorder.calls)
    await ask(quill)
    with pytest.raises(AssertionError, match="never came"):
        await until(quill.server.posts, seconds=1)
    assert len(quill.server.recorder.calls) - before <= 3


async def test_questions_in_many_threads_do_not_run_into_the_limits(quill: Quill):
    quill.will_answer(*["0.8 L [1]."] * 24)
    threads = []
    for number in range(24):
        quill.server.world.add_user(1000 + number, f"Person {number}")
        said = await quill.server.say(1000 + number, GENERAL, f"{ME} {OIL}")
        threads.append(int(said["id"]))
    for thread in threads:
        await quill.final(thread)
    assert not [call for call in quill.server.recorder.calls if call.status == 429]
