"""Classes B05 and B07: the language of a rewrite, and what it leaves behind when the subject changes."""

import pytest

from core.types import QueryStatus
from tests.live.talking import Bot, Pair, Rates, names_any, words

pytestmark = [pytest.mark.live, pytest.mark.asyncio(loop_scope="module")]

DOCUMENTS = {"hours": "# Opening hours\n\nThe canteen opens at 11.\n"}

FOLLOW_UPS: list[tuple[str, Pair, str]] = [
    ("de", ("Wie viel Öl braucht die Pumpe Amsel?", "Die Pumpe Amsel braucht 1,2 Liter."), "und wie oft der Filter?"),
    ("de", ("Wann öffnet die Kantine?", "Die Kantine öffnet um 11 Uhr."), "und am Freitag?"),
    ("de", ("Wie melde ich mich krank?", "Durch einen Anruf vor 9 Uhr."), "muss ich dann noch etwas schicken?"),
    ("nl", ("Hoeveel dagen verlof krijg ik per jaar?", "Je krijgt 26 dagen verlof."), "en kan ik die meenemen?"),
    ("nl", ("Waar is de sleutel van het magazijn?", "Die hangt bij de receptie."), "wie mag hem lenen?"),
    ("fr", ("Comment installer la sonde Mésange ?", "Vissez la sonde sur son support."), "et comment la nettoyer ?"),
    ("fr", ("Quel est le prix de l'abonnement Standard ?", "Il coûte 14 euros par mois."), "et pour les étudiants ?"),
    ("fr", ("Où se trouve la salle Garonne ?", "Elle est au deuxième étage."), "comment la réserver ?"),
    (
        "es",
        ("¿Qué presión soporta la válvula Tordo?", "La válvula Tordo soporta 7 bares."),
        "¿y cada cuánto se revisa?",
    ),
    ("es", ("¿Cuándo cierra la biblioteca?", "La biblioteca cierra a las ocho."), "¿y los sábados?"),
]
# A few words that give a language away, none of them English; not the lists that the bot judges by.
TELLING = {
    "de": "wie oft wird der die das den und wann ich muss noch etwas schicken am freitag kantine filter pumpe krank",
    "nl": "hoe wie de het kan ik mag lenen meenemen verlof dagen volgend jaar sleutel magazijn",
    "fr": "comment la le les pour quel est où et nettoyer réserver étudiants prix abonnement sonde salle",
    "es": "qué cada cuánto cuándo la el los se revisa válvula sábados biblioteca cierra",
}
ENGLISH = set("the how what when where who which does do is are of to for i can must often much on clean book".split())

SHIFTS: list[tuple[Pair, str, str]] = [
    (
        ("What pressure is the Wren pump rated for?", "The Wren pump is rated for 9 bar."),
        "How many leave days do I get in a year?",
        "wren pump pressure bar",
    ),
    (
        ("How many leave days do I get in a year?", "You get 27 leave days."),
        "At what temperature does the Siskin boiler switch off?",
        "leave day year",
    ),
    (
        ("How do I reset the PIN of my badge?", "Press Forgot PIN at the terminal in the lobby."),
        "Which courier delivers to the Oslo office?",
        "pin badge terminal lobby",
    ),
    (
        ("What does the canteen serve on Mondays?", "On Mondays the canteen serves soup."),
        "How long is the warranty of the Finch drill?",
        "canteen monday soup",
    ),
    (
        ("Where is the first-aid kit?", "It is in the cupboard beside the lift."),
        "Who approves expense reports above 500 euros?",
        "aid kit cupboard lift",
    ),
    (
        ("How do I install the Dipper sensor?", "Screw the Dipper sensor onto its bracket."),
        "What is the notice period during probation?",
        "dipper sensor bracket",
    ),
    (
        ("Which paint is used for the Lark frame?", "The Lark frame has a grey powder coat."),
        "How do I reserve a meeting room for ten people?",
        "paint lark frame powder coat",
    ),
    (
        ("How often must I change my wifi password?", "Change the wifi password every six months."),
        "When is the loading dock open on Saturdays?",
        "wifi password month",
    ),
    (
        ("How often is the Robin compressor serviced?", "The Robin compressor is serviced every 2,000 hours."),
        "Can I bring my dog to the office?",
        "robin compressor hour service",
    ),
    (
        ("What torque do the Magpie bolts need?", "The Magpie bolts need 35 Nm."),
        "How do I order new business cards?",
        "torque magpie bolt",
    ),
]


def is_in(language: str, text: str) -> bool:
    found = set(words(text))
    return len(found & set(TELLING[language].split())) > len(found & ENGLISH)


async def test_b05_a_follow_up_is_rewritten_in_the_language_of_its_asker(bot: Bot, rates: Rates) -> None:
    rewritten, searched = [], []
    for language, pair, follow_up in FOLLOW_UPS:
        query = await bot.query(follow_up, pair)
        shown = f"{follow_up!r} -> {query.text!r} ({query.status}, {query.reason})"
        rewritten.append((query.status is QueryStatus.REWRITTEN and is_in(language, query.text), shown))
        searched.append((is_in(language, query.text), shown))
    rates.report("B05 rewritten in the asker's language", rewritten, goal=9)
    rates.report("B05 searched in the asker's language, rewritten or as typed", searched, goal=9)


async def test_b07_a_new_subject_is_searched_without_the_old_one(bot: Bot, rates: Rates) -> None:
    outcomes = []
    for pair, question, nouns in SHIFTS:
        query = await bot.query(question, pair)
        shown = f"{question!r} -> {query.text!r} ({query.status}, {query.reason})"
        outcomes.append((not names_any(query.text, nouns.split()), shown))
    rates.report("B07 nothing of the old subject is searched", outcomes, goal=9)
