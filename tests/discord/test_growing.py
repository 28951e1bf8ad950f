"""An answer that outgrows its message is seen to the end while it is being written."""

from __future__ import annotations

from adapters import live
from tests.discord.conftest import ME, OIL, Quill
from tests.discord_server.gateway import until
from tests.discord_server.world import ASKER, GENERAL, Json

POST = "POST /channels/{channel}/messages"
PATCH = "PATCH /channels/{channel}/messages/{message}"
STEPS = [f"Step {number} of the oil change takes a little more than this. " for number in range(100)]
WRITING = "still writing"


def slowly(count: int, *, every: float = 0.02) -> list[object]:
    """That many steps with pauses between them, then a wait."""
    return [piece for step in STEPS[:count] for piece in (step, every)]


async def ask(quill: Quill) -> int:
    quill.server.limits.buckets.clear()
    said = await quill.server.say(ASKER, GENERAL, f"{ME} {OIL}")
    return int(said["id"])


def text_of(posts: list[Json]) -> str:
    return " ".join(post["content"].partition("\n\n")[0] for post in posts)


async def test_further_parts_appear_while_the_answer_grows_and_only_the_last_has_the_button(quill: Quill):
    quill.will_answer([*slowly(50), 0.6, "That is all [1]."])
    thread = await ask(quill)
    posts = await until(lambda: posts if len(posts := quill.server.posts(thread)) == 2 else None)
    assert quill.model.asked("generate"), "it is still being written"
    await until(lambda: WRITING not in posts[0]["content"] and WRITING in posts[1]["content"])
    assert [list(quill.server.buttons(post)) for post in posts] == [[], ["Stop"]]
    first = posts[0]["content"]
    final = await quill.final(thread, 2)
    assert [post["id"] for post in final] == [post["id"] for post in posts]
    assert final[0]["content"] == first, "the text does not jump when it is complete"
    assert text_of(final) == "".join(STEPS[:50]) + "That is all [1]."
    assert len(quill.server.posts()) == 2
    assert not [call for call in quill.server.recorder.calls if call.status == 429]


async def test_a_lost_reply_to_the_second_part_leaves_it_there_once(quill: Quill):
    quill.will_answer([*slowly(50), 0.6, "That is all [1]."])
    thread = await ask(quill)
    await until(lambda: quill.server.posts(thread))
    fault = quill.server.recorder.arm(POST, 1, lose=True)
    posts = await quill.final(thread, 2)
    assert fault.landed == 1
    await until(lambda: not quill.bot.dispatcher._tickets)
    assert len(quill.server.posts()) == 2
    assert text_of(posts) == "".join(STEPS[:50]) + "That is all [1]."


async def test_parts_that_the_final_answer_does_not_need_are_taken_away(quill: Quill):
    """The question was changed meanwhile, and what answers it now is short."""
    quill.will_answer([*slowly(50), 5.0])
    thread = await ask(quill)
    posts = await until(lambda: posts if len(posts := quill.server.posts(thread)) == 2 else None)
    await quill.server.change(quill.server.world.messages[GENERAL][thread], f"{ME} {OIL} (edited)")
    quill.will_answer("0.8 L [1].")
    (post,) = await quill.final(thread)
    assert post["id"] == posts[0]["id"]
    assert post["content"].startswith("0.8 L [1].")
    await until(lambda: len(quill.server.posts(thread)) == 1)


async def test_when_an_answer_begins_anew_its_later_parts_say_nothing_old(quill: Quill):
    quill.will_answer([*slowly(50), 5.0])
    thread = await ask(quill)
    await until(lambda: len(quill.server.posts(thread)) == 2)
    quill.will_answer([0.8, *slowly(50, every=0.0), "That is all [1]."])
    await quill.server.change(quill.server.world.messages[GENERAL][thread], f"{ME} {OIL} (edited)")
    await until(lambda: quill.server.posts(thread)[1]["content"] == f"-# {live.NOTHING_YET[0]}")
    await until(lambda: not quill.bot.dispatcher._tickets)
    posts = await quill.final(thread, 2)
    assert text_of(posts) == "".join(STEPS[:50]) + "That is all [1]."
    assert len(quill.server.posts()) == 2


async def test_a_stopped_answer_keeps_the_parts_that_were_seen(quill: Quill):
    quill.will_answer([*slowly(50), 30.0])
    thread = await ask(quill)
    posts = await until(lambda: posts if len(posts := quill.server.posts(thread)) == 2 else None)
    await until(lambda: "Stop" in quill.server.buttons(posts[-1]))
    await quill.server.press(ASKER, posts[-1], quill.server.buttons(posts[-1])["Stop"])
    final = await quill.final(thread, 2)
    assert [post["id"] for post in final] == [post["id"] for post in posts]
    assert "(stopped)" in final[-1]["content"]
