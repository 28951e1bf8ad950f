"""In the background, if it is switched on: what a person says about themselves, for their later conversations.

A fact is a sentence of the person's own message, word for word: plain code picks those that can be one, the
model only says which of them will still matter, by their numbers. So nothing that a model makes up, and
nothing that somebody else said, can become a fact. Closed lists, and in doubt a sentence is none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

from core import words
from core.code_spans import code_spans
from core.errors import ModelGarbage
from core.ports import ChatModel
from core.reasoning import spoken
from core.sanitize import prompt as sanitize_prompt
from core.types import ChatRequest, FinishReason, Usage

MAX_MESSAGE_CHARS: Final = 1_500
"""A longer message is a text that was pasted, and says nothing sure about who pasted it."""
MIN_FACT_CHARS: Final = 8
MAX_FACT_CHARS: Final = 160
MAX_CANDIDATES: Final = 8
MAX_FACTS: Final = 3
"""Of one message."""
MAX_REPLY_CHARS: Final = 2_000

# Not behind the dot of an abbreviation or a date: "Mozartstr. 5", "am 3. Mai".
_SENTENCE: Final = re.compile(
    r"(?<=[.!?…])(?<!\d\.)\s+(?!\d)"
    r"|(?<=\d\.)\s+(?!\d|(?:jan|feb|mär|apr|mai|juni|juli|aug|sep|okt|nov|dez)\w*\b)"
    r"|\s*[\n;]\s*|\s+[-–—]\s+",
    re.IGNORECASE,
)
# "I run it on ARM, how do I install it?" is a statement and a question.
_TAIL_QUESTION: Final = re.compile(
    r",\s*(?:so|and|but|und|also|aber|en|maar|et|mais|y|pero|e|ma|mas)?\s*"
    r"(?:how|what|when|where|which|who|why|can|could|do|does|is|are|should|wie|was|wann|wo|welche[rsn]?|warum|kann|"
    r"hoe|wat|wanneer|waar|waarom|kan|comment|que|quand|où|pourquoi|est-ce|cómo|qué|cuándo|dónde|"
    r"por qué|come|cosa|quando|dove|perché|como|onde|por que)\b.*$",
    re.IGNORECASE,
)
_FIRST_PERSON: Final = re.compile(
    r"\b(?:i|i'm|i've|i'd|my|we|we're|we've|our|ich|mein\w*|wir|unser\w*|ik|mijn|wij|onze|ons|je|j'\w+|mon|ma|mes|"
    r"nous|notre|nos|yo|mis?|nosotros|nuestr[oa]s?|tengo|uso|usamos|trabajo|estoy|prefiero|io|mi[oa]|nostr[oa]|ho|"
    r"lavoro|preferisco|abbiamo|eu|meu|minha|nosso|nossa|tenho|temos|trabalho|estou|prefiro)\b",
    re.IGNORECASE,
)
_PREFERENCE: Final = re.compile(
    r"^(?:(?:please|kindly|bitte|graag|alsjeblieft|s'il te plaît|s'il vous plaît|por favor|per favore)[,\s]+)?"
    r"(?:always\s+|immer\s+|altijd\s+)?"
    r"(?:(?:answer|reply|respond|write|explain)(?:\s+(?:to\s+)?me)?|keep (?:it|answers|your answers)|"
    r"antworte|antworten sie|schreib|erkläre|antwoord|schrijf|réponds?|répondez|écris|écrivez|responde|contesta|"
    r"escribe|rispondi|scrivi|responda|escreva)(?:[\s-]+(?:mir|me|moi))?\s+"
    r"(?:only\s+|nur\s+|alleen\s+)?"
    r"(?:(?:in|auf|en|em|with|mit|met|avec|con|com)\s+[\w-]{2,20}(?:\s+[\w-]{2,20}){0,3}|(?:very\s+)?(?:short\w*|brief\w*|simpl\w+|kurz\w*|"
    r"kort|einfach|bri[eè]v\w*|court\w*|corto|detailed|concise\w*))"
    r"(?:[,\s]+(?:please|bitte|graag|alsjeblieft|s'il te plaît|s'il vous plaît|por favor|per favore))?[.!]*$",
    re.IGNORECASE,
)
_ASKS: Final = re.compile(
    r"^\W*(?:how|what|when|where|which|who|whose|why|can|could|would|should|do|does|did|is|are|was|were|may|"
    r"wie|was|wann|wo|wer|welche[rsn]?|warum|kann|können|hoe|wat|wanneer|waar|waarom|kan|comment|que|quand|où|"
    r"pourquoi|est-ce|cómo|qué|cuándo|dónde|puedo|come|cosa|dove|posso)\b|"
    r"\b(?:i|we)\s+(?:want|need|would like|like)\s+to\s+(?:know|ask|understand|learn)\b|\bi'd like to (?:know|ask)\b|"
    r"\bi (?:wonder|asked|meant?|wanted|thought|see|got|get|just|did|tried|don't (?:know|understand|see))\b|"
    r"\b(?:my|our) (?:last |next |first |other |actual )?question\b|"
    r"\bich (?:frage|meinte|meine|möchte wissen|will wissen)\b|\bik (?:vroeg|bedoel|wil weten)\b",
    re.IGNORECASE,
)
# What tries to give orders to a model, and what nobody wants to find written down.
_ORDERS: Final = re.compile(
    r"\b(?:ignore|disregard|forget|override|pretend|obey|jailbreak|instructions?|prompts?|system|assistant|"
    r"developer mode|you (?:are|must|should|will|have to)|from now on|reveal|"
    r"repeat after|say that|tell (?:every\w*|them|all|others)|"
    r"ignorier\w*|vergiss|anweisung\w*|du (?:bist|musst|sollst)|negeer|vergeet|instructies?|"
    r"ignore[rz]?|oublie[rz]?|ignora|olvida|dimentica|ignorar|esqueça|instrucciones|istruzioni|instruções)\b",
    re.IGNORECASE,
)
_SECRETS: Final = re.compile(
    r"\b(?:pass(?:word|wd|phrase|code|port)?s?|pwd?|pins?|secrets?|log-?ins?|user ?names?|door codes?|"
    r"codes? (?:is|for)|combination|tokens?|credentials?|api[ _-]?keys?|"
    r"private[ _-]?keys?|keys? (?:is|are)|iban|bic|"
    r"ssn|social security|credit|card|account number|cvv|otp|2fa|born|birthday|address|phone|"
    r"passwort\w*|kennwort\w*|geheim\w*|schlüssel|konto\w*|geb(?:oren|urts\w+)|adresse|telefon\w*|wachtwoord\w*|geheime?|"
    r"mot de passe|contraseña|clave|parola d'ordine|senha|segredo|chave|chiave)\b"
    r"|[\w.+-]+@[\w-]+\.\w|\d[\d\s().-]{5,}\d|\b(?=\w*\d)(?=\w*[A-Za-z])\w{14,}\b|\b[\w-]{24,}\b"
    # "... is hunter2", and no version like "v2.3" or "22.04".
    r"|(?:\bis|\bare|\blautet|\bist|\best|\bes|\bè|\bé|=|:)\s+(?!v?\d+(?:\.\d+)+\b)(?=\S*\d)(?=\S*[^\W\d_])[^\s,.!]{5,}",
    re.IGNORECASE,
)
_STREET: Final = (
    r"(?:street|st\.|road|rd\.?|avenue|ave\.?|lane|drive|boulevard|blvd\.?|square|terrace|rue|via|viale|piazza|calle|avenida|"
    r"plaza|rua|travessa|straat|laan|gracht|plein|\w+(?:straße|strasse|str\.|gasse|allee|platz|weg|ring|damm|ufer|straat|laan|"
    r"gracht|plein|weg))"
)
_HOMES: Final = re.compile(
    rf"\b{_STREET}(?:\s+[\w.'’-]+){{0,4}}[\s,]+(?:n[o°º]\.?\s*)?\d{{1,5}}\s?[a-z]?\b"
    rf"|\b\d{{1,5}}\s?[a-z]?,?\s+(?:[\w.'’-]+\s+){{0,3}}{_STREET}(?:\W|$)"
    r"|\b(?:lives?|living|wohnen?|wohne|wohnt|woont?|wonen|habit\w+|viv\w+|abit\w+|mor[oa]|resid\w+)\b[^.]*\d"
    r"|\b\d{5}\s+(?-i:[A-ZÄÖÜ])\w+|\b\d{4}\s?(?-i:[A-Z]{2})\b|\b(?-i:[A-Z]{1,2}\d[A-Z\d]?\s?\d[A-Z]{2})\b"
    r"|-?\b\d{1,3}\.\d{3,}",
    re.IGNORECASE,
)
"""Where somebody lives: streets with a number, post codes, coordinates."""
_STRANGE: Final = re.compile(
    r"[<>{}\[\]|`\"“”„«»@#*_~]|://|\bwww\.|\b\w+\.(?:com|net|org|io|dev|ru|xyz)\b", re.IGNORECASE
)
_NUMBERS: Final = re.compile(r"\d{1,2}(?:\s*(?:,|and|\s)\s*\d{1,2}){0,7}")


def candidates(message: str) -> tuple[str, ...]:
    """The sentences of a message (raw, as typed) that may be facts about its author, word for word but for blanks."""
    if len(message) > MAX_MESSAGE_CHARS:
        return ()
    found: dict[str, None] = {}
    for line in _outside_code(message).splitlines():
        if line.lstrip().startswith(">"):  # somebody else's words
            continue
        # Blanks first: a row of them would be tried at each of its places.
        for piece in _SENTENCE.split(" ".join(line.split())):
            sentence = " ".join(_TAIL_QUESTION.sub("", piece).split())
            if _may_be_fact(sentence):
                found[sentence] = None
    return tuple(found)[:MAX_CANDIDATES]


def is_preference(fact: str) -> bool:
    """Whether it says how the person wants to be answered: that matters for every question."""
    return _PREFERENCE.match(fact) is not None


async def select(model: ChatModel, request: ChatRequest, sentences: Sequence[str]) -> tuple[tuple[str, ...], Usage]:
    """Those of `sentences` that the model finds worth keeping, `MAX_FACTS` at most; `request` asks it.

    Raises `ModelError`, also when what came back is no list of their numbers.
    """
    reply, usage = "", Usage()
    finish: FinishReason | None = None
    async with aclosing(model.stream(request)) as stream:
        async for delta in stream:
            reply += delta.text
            usage, finish = delta.usage or usage, delta.finish or finish
            if len(reply) > MAX_REPLY_CHARS:
                raise ModelGarbage("The choice of facts does not end.")
    if finish is FinishReason.FILTERED:
        raise ModelGarbage("The endpoint's content filter cut the choice of facts.")
    return tuple(sentences[number - 1] for number in _numbers(reply, len(sentences)))[:MAX_FACTS], usage


def _numbers(reply: str, count: int) -> list[int]:
    text, unfinished = spoken(reply, in_code=False)
    said = " ".join(text.split()).strip(" .*`'\"").removeprefix("Numbers:").strip().casefold()
    if unfinished or not said:
        raise ModelGarbage("The choice of facts is blank.")
    if said in ("none", "0", "no", "nothing"):
        return []
    if not _NUMBERS.fullmatch(said):
        raise ModelGarbage("The choice of facts is no list of numbers.")
    chosen = list(dict.fromkeys(map(int, re.findall(r"\d+", said))))
    if not all(0 < number <= count for number in chosen):
        raise ModelGarbage("The choice of facts names a sentence that is none.")
    return chosen


def _may_be_fact(sentence: str) -> bool:
    if not MIN_FACT_CHARS <= len(sentence) <= MAX_FACT_CHARS or "?" in sentence:
        return False
    plain = unicodedata.normalize("NFKC", sentence)
    if any(kind.search(plain) for kind in (_ORDERS, _SECRETS, _HOMES)) or _STRANGE.search(sentence):
        return False
    if sanitize_prompt(sentence) != sentence or not words.content_words(sentence):
        return False
    if is_preference(sentence):
        return True
    return bool(_FIRST_PERSON.search(sentence)) and not _ASKS.search(sentence)


def _outside_code(text: str) -> str:
    pieces, at = [], 0
    for start, end in code_spans(text):
        # A sentence that code was taken out of is not what was said: the mark makes it none.
        pieces += [text[at:start], "`"]
        at = end
    return "".join([*pieces, text[at:]])
