"""Before stage 2: a follow-up that is complete as it was typed needs no rewrite, and so no call to the model.

Rules and word lists, no model. What they do not know is rewritten: an unknown language, a script without
spaces, a short question, a fragment, a word that points at something said before.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from core import words

LEAST_WITH_NAME: Final = 3
"""Content words of a complete question that names something: a product, a version, a file."""
LEAST: Final = 4
"""The same of one that names nothing."""
LEAST_OF_LANGUAGE: Final = 2
"""Function words that tell a language: the words that point are known of a few languages only."""

# Who announces a question, or takes up what was said, has words in it that are not to be searched.
_LEAD_IN: Final = re.compile(
    r"^\W*(?:by the way|btw|anyway|anyhow|unrelated|new question|(?:an)?other question|different (?:question|topic)|"
    r"changing the subject|(?:speaking|talking) (?:about|of)|thanks?|thank you|great|cool|nice|wow|oh|interesting|"
    r"don't worry|i meant?|are you saying|as|since|because|"
    r"übrigens|apropos|andere frage|neue frage|danke|ach|meinst du|ich meine|da|weil|"
    r"trouwens|bedankt|dank|andere vraag|ik bedoel|omdat|"
    r"au fait|d'ailleurs|merci|autre question|je veux dire|comme|parce que|"
    r"por cierto|gracias|otra pregunta|quiero decir|como|"
    r"a proposito|comunque|grazie|altra domanda|intendo|siccome|"
    r"aliás|a propósito|obrigad[oa]|outra pergunta|quero dizer)\b",
    re.IGNORECASE,
)
# "Why?" is a follow-up, "why does Postgres lock a table during vacuum?" need not be one.
_WHY: Final = re.compile(
    r"^\W*(?:why|warum|wieso|waarom|pourquoi|por qué|perché|por quê|porque)\s+"
    r"(?!not\b|nicht\b|niet\b|pas\b|no\b|non\b)",
    re.IGNORECASE,
)
# Words that fill the place of a subject and point at nothing.
_EXPLETIVE: Final = re.compile(
    r"\b(?:(?:is|are|was|were) there|is it possible|gibt es|ist es möglich|is het mogelijk|zijn er|is er|"
    r"il y a|y a-t-il|est-il possible|c'è|ci sono)\b",
    re.IGNORECASE,
)
# A text that neither begins with one of these nor ends with "?" is a fragment, or a remark on what was said.
_OPENERS: Final = frozenset(
    "how what when where which who whom whose why is are was were does do did can could will would should has have "
    "wie was wann wo wer wen wem warum welche welcher welches welchen kann können muss gibt "
    "hoe wat wanneer waar waarom welke wie kan kunnen moet "
    "comment que quoi quand où qui pourquoi quel quelle quels quelles combien peut puis-je "
    "cómo qué cuándo dónde quién cuál cuáles cuánto cuánta cuántos cuántas puedo hay "
    "che cosa quando dove chi perché quale quali quanto quanta quanti quante posso "
    "como qual quais onde quem quanto quanta quantos quantas".split()
)
# Words that are measured against something said before.
_RELATIVE: Final = frozenset(
    "more less better worse best further next previous last second third following rest difference "
    "still anymore already yet similar similarly different besides otherwise alternatively alternative "
    "mehr weniger besser nächste nächsten vorherige letzte letzten zweite zweiten rest unterschied immer ähnlich "
    "anders alternative alternativ sonst "
    "meer minder beter volgende vorige laatste tweede verschil anders vergelijkbaar "
    "plus moins mieux prochain suivant précédent dernier deuxième reste différence toujours autre autres "
    "más menos mejor siguiente anterior último segundo resto diferencia todavía otro otra otros otras "
    "più meno meglio prossimo seguente precedente ultimo secondo resto differenza altro altra altri altre "
    "mais melhor próximo seguinte segundo diferença outro outra outros outras".split()
)
_ARTICLES: Final = frozenset("the der die das dem den des de het le la les el los las il lo gli o os as".split())
_GENITIVES: Final = frozenset("of von vom van du de des del di della do da dos das".split())
_PREPOSITIONS: Final = frozenset(
    "between across during within before through via under behind until while against among since "
    "zwischen während durch bis hinter gegen innerhalb tussen tijdens door tot achter tegen "
    "entre pendant depuis vers après avant contre durante tras hasta desde contra dentro fra tra dopo prima fino "
    "até após".split()
)
_CLAUSE: Final = re.compile(r"[.!?;:,](?:\s|$)")
_TYPED_WORD: Final = re.compile(r"[^\s.,;:!?()\"“”„«»]+")


def is_complete(question: str) -> bool:
    """Whether a sanitized question can be searched as it was typed, whatever was said before. In doubt, no."""
    if words.script(question) != "LATIN" or _LEAD_IN.match(question) or not _asks(question):
        return False
    plain = _EXPLETIVE.sub("is", _WHY.sub("how ", question))
    least = LEAST_WITH_NAME if words.identifiers(question) or words.names(question) else LEAST
    return (
        words.stands_alone(plain, least=least)
        and words.function_words(question) >= LEAST_OF_LANGUAGE
        and _RELATIVE.isdisjoint(words.words(question))
        and not any(map(_points_by_article, _CLAUSE.split(question)))
    )


def _asks(question: str) -> bool:
    return question.rstrip().endswith("?") or not _OPENERS.isdisjoint(words.words(question)[:2])


def _points_by_article(clause: str) -> bool:
    """Whether an article stands before a single plain noun: "the song" is one that was talked about."""
    typed = [*_TYPED_WORD.findall(clause), ""]
    return any(
        article.casefold() in _ARTICLES and _carries(noun) and not _names(noun) and _ends_noun(after)
        for (article, noun), (_, after) in pairwise(pairwise(typed))
    )


def _ends_noun(after: str) -> bool:
    word = after.casefold()
    return (not _carries(word) or word in _PREPOSITIONS) and word not in _GENITIVES


def _carries(word: str) -> bool:
    return bool(words.content_words(word))


def _names(word: str) -> bool:
    # Inside a sentence, that is where a capital tells a name (but for a German noun: in doubt it points).
    return any(char.isupper() or char.isdigit() for char in word)
