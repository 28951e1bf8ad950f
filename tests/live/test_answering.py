"""Classes B08, B14 and B15: small talk, what the asker said before, and what follows a refusal."""

import pytest

from core.types import NOT_IN_DOCUMENTS
from tests.live.talking import Bot, Pair, Rates, names_any, refuses, stood_in

pytestmark = [pytest.mark.live, pytest.mark.asyncio(loop_scope="module")]

DOCUMENTS = {
    "wren": "# Wren pump\n\n## Oil\n\nThe Wren pump takes 1.4 L of oil.\n\n"
    "## Filter\n\nThe filter of the Wren pump is changed every 60 days.\n",
    "siskin": "# Siskin boiler\n\nThe Siskin boiler switches off at 84 degrees. Its seal kit is SB-31.\n",
    "leave": "# Leave\n\nStaff get 27 leave days a year. 6 of them may be carried over.\n",
    "travel": "# Travel\n\nTaxis are refunded up to 45 euros. Train tickets are refunded in full.\n",
    "rooms": "# Rooms\n\nThe room Garonne is on floor 3. It seats 14 people.\n",
}

OIL: Pair = ("How much oil does the Wren pump take?", "The Wren pump takes 1.4 L of oil [1].")
SMALL_TALK = (
    "hello",
    "thanks!",
    "👍",
    "good morning everyone",
    "ok cool, cheers",
    "hi again",
    "merci beaucoup !",
    "Danke, das reicht mir",
    "haha, nice one",
    "see you tomorrow",
)
NAMED = (
    ("My pump is called Olga. {}", "What did I call my pump?", "Olga"),
    ("I named my pump Hugo. {}", "What is the name of my pump?", "Hugo"),
    ("Ours goes by the name of Frieda. {}", "By which name does ours go?", "Frieda"),
    ("My name is Basil. {}", "What is my name?", "Basil"),
    ("I am Mabel from the workshop. {}", "Who am I?", "Mabel"),
    ("Our pump stands in hall Otto. {}", "In which hall does our pump stand?", "Otto"),
    ("My dog Pixel chewed the manual. {}", "Which dog chewed the manual?", "Pixel"),
    ("I ask for my colleague Nessie. {}", "For whom do I ask?", "Nessie"),
    ("The label on mine says Rufus. {}", "What does the label on mine say?", "Rufus"),
    ("Tilda is the one who filled it last. {}", "Who filled it last?", "Tilda"),
)
UNANSWERABLE = (
    ("What is the shoe size of the director?", "shoe director"),
    ("Who won the chess cup in spring?", "chess cup"),
    ("What colour is the bicycle of the porter?", "bicycle porter"),
    ("How tall is the lighthouse in the harbour?", "lighthouse harbour"),
    ("Which song opened the summer party?", "song party"),
    ("How old is the parrot in the lobby?", "parrot lobby"),
    ("What did the last eclipse look like?", "eclipse"),
    ("Which wine was served at the gala?", "wine gala"),
    ("Who painted the mural in the garage?", "mural garage"),
    ("When was the old fountain built?", "fountain"),
)
ANSWERABLE = (
    ("How many leave days do I get?", "27"),
    ("At how many degrees does the Siskin boiler switch off?", "84"),
    ("How much oil does the Wren pump take?", "1.4"),
    ("Up to how many euros are taxis refunded?", "45"),
    ("How many people does the room Garonne seat?", "14"),
    ("Which seal kit does the Siskin boiler have?", "SB-31"),
    ("How many leave days may be carried over?", "6"),
    ("On which floor is the room Garonne?", "3"),
    ("Every how many days is the filter of the Wren pump changed?", "60"),
    ("How many leave days do staff get in a year?", "27"),
)


async def test_b08_small_talk_does_not_repeat_the_last_answer(bot: Bot, rates: Rates) -> None:
    outcomes = []
    for message in SMALL_TALK:
        answer = await bot.answer(message, OIL)
        searched = answer.query.text in ("", message) and not names_any(answer.query.text, ("wren", "oil"))
        outcomes.append(("1.4" not in answer.text and searched, f"{message!r} -> {answer.text!r}"))
    rates.report("B08 small talk does not bring the last answer back", outcomes, goal=9)


async def test_b14_what_the_asker_said_one_turn_earlier_is_known(bot: Bot, rates: Rates) -> None:
    outcomes = []
    for told, question, name in NAMED:
        answer = await bot.answer(question, (told.format(OIL[0]), OIL[1]))
        outcomes.append((name.casefold() in answer.text.casefold(), f"{question!r} -> {answer.text!r}"))
    rates.report("B14 a fact from the turn before is in the answer", outcomes, goal=9)


async def test_b15_after_a_refusal_the_next_question_is_answered(bot: Bot, rates: Rates) -> None:
    outcomes, searched = [], []
    for (before, nouns), (question, fact) in zip(UNANSWERABLE, ANSWERABLE, strict=True):
        answer = await bot.answer(question, (before, NOT_IN_DOCUMENTS))
        answered = fact in answer.text and not stood_in(answer) and not refuses(answer)
        outcomes.append((answered, f"{question!r} -> {answer.text!r}"))
        searched.append((not names_any(answer.query.text, nouns.split()), f"{question!r} -> {answer.query.text!r}"))
    rates.report("B15 the question after a refusal is answered", outcomes, goal=9)
    rates.report("B15 its search holds nothing of the refused question", searched, goal=9)


async def test_b15_a_second_refusal_is_about_its_own_question(bot: Bot, rates: Rates) -> None:
    refused, elsewhere, own = [], [], []
    questions = zip(UNANSWERABLE, ANSWERABLE, (*UNANSWERABLE[1:], UNANSWERABLE[0]), strict=True)
    for (before, old), (between, fact), (question, nouns) in questions:
        history = (before, NOT_IN_DOCUMENTS), (between, f"That is {fact} [1].")
        answer = await bot.answer(question, *history)
        shown = f"{question!r} -> {answer.text!r}"
        refused.append((refuses(answer), shown))
        elsewhere.append((not names_any(answer.text, old.split()), shown))
        own.append((refuses(answer) and names_any(answer.text, nouns.split()), shown))
    rates.report("B15 a second unanswerable question is refused", refused, goal=9)
    rates.report("B15 that answer names nothing of the first one", elsewhere, goal=9)
    # The prompt asks for one plain sentence that names no subject, so this is no goal.
    rates.report("B15 that refusal names its own subject", own)
