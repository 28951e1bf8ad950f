"""What `/context` tells of the last prompt."""

from __future__ import annotations

from dataclasses import replace

from adapters.inspection import context_lines
from adapters.store import SqlConversationStore
from core.pipeline import Limits
from tests.dialogues.conftest import Bot
from tests.fakes import HERON, KESTREL, LEAVE, ScriptedModel, ScriptedRetriever


async def lines_after(store: SqlConversationStore, turns: int, context_tokens: int) -> dict[str, str]:
    """Of a conversation of so many questions, by their labels."""
    answer = " ".join(f"In year {n} it took {n} L of oil, as page {n * 7} says." for n in range(20)) + " [1]"
    model = ScriptedModel(
        generate=[answer] * turns, rewrite=["oil of the Kestrel"] * turns, summarize=["They talked of Kestrel oil."] * 9
    )
    bot = Bot(store, model, ScriptedRetriever(KESTREL, HERON, LEAVE), Limits(context_tokens=context_tokens))
    await bot.hears_at_leisure(*[f"How much oil does the Kestrel take in case {n}?" for n in range(turns)])
    found = (await store.threads("terminal", 1))[0].key
    lines = context_lines(await store.turns(found))
    await bot.close()
    label = ""
    told: dict[str, str] = {}
    for line in lines:
        label = line[:10].strip() or f"{label}, too"
        told[label] = line[10:]
    return told


async def test_what_is_kept_and_what_is_condensed_are_all_turns_before(store: SqlConversationStore):
    told = await lines_after(store, 14, 8192)
    kept, condensed = int(told["Turns:"].split()[0]), int(told["Notes:"].split()[0])
    assert condensed >= 4
    assert kept + condensed == 13
    assert told["Turns:, too"].startswith("0 left out")
    parts = [told["Turns:, too"], told["Notes:"], told["Passages:"]]
    tokens = [int(part.split("about ")[1].split()[0]) for part in parts]
    assert all(tokens)
    assert sum(tokens) < int(told["Tokens:"].split()[1])
    assert "; the model counted" in told["Tokens:"]


async def test_about_is_said_of_an_estimate_alone(store: SqlConversationStore, bot: Bot):
    bot.model.replies["generate"].append("0.8 L [1].")
    await bot.hears("How much oil does the Kestrel take?")
    (turn,) = await store.turns((await store.threads("terminal", 1))[0].key)
    estimated = context_lines([turn])
    assert sum("about" in line for line in estimated if "tokens" in line or "Tokens" in line) == 4
    counted = context_lines([replace(turn, kept=replace(turn.kept, counted=True))])
    assert counted == [line.replace("about ", "") if "acts about" not in line else line for line in estimated]
    assert any(line.startswith(f"Tokens:   {turn.kept.prompt_tokens} of ") for line in counted)


async def test_what_is_left_out_for_room_is_told(store: SqlConversationStore):
    told = await lines_after(store, 4, 1800)
    dropped = int(told["Turns:, too"].split()[0])
    assert dropped > 0
    assert int(told["Turns:"].split()[0]) + dropped + int(told["Notes:"].split()[0]) == 3


async def test_of_a_deleted_question_nothing_is_told(store: SqlConversationStore, bot: Bot):
    bot.model.replies["generate"].append("0.8 L [1].")
    await bot.hears("How much oil does the Kestrel take?", id_="m1")
    thread = (await store.threads("terminal", 1))[0].key
    await bot.dispatcher.deleted(thread, "m1")
    assert context_lines(await store.turns(thread)) == ["This question was deleted."]
