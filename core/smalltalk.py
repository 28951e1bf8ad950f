"""Greetings, thanks and nods: not questions, so nothing is searched and no model is called."""

from __future__ import annotations

import re
from typing import Final

_HELLO: Final = {
    "en": "hello|hi|hiya|hey|hey there|hi there|hello there|good morning|good afternoon|good evening|morning|yo|howdy|"
    "hi all|hello all|hey all|hi everyone|hello everyone|hello again|hi again",
    "de": "hallo|moin|servus|guten morgen|guten tag|guten abend|grüß gott|grüezi",
    "nl": "hoi|hallo daar|goedemorgen|goedemiddag|goedenavond|dag",
    "fr": "bonjour|salut|bonsoir|coucou",
    "es": "hola|buenas|buenos días|buenas tardes|buenas noches",
    "it": "ciao|salve|buongiorno|buonasera",
    "pt": "olá|oi|bom dia|boa tarde|boa noite",
}
_THANKS: Final = {
    "en": "thanks|thank you|thx|ty|cheers|thanks a lot|thank you very much|thank you so much|many thanks|"
    "much appreciated|"
    "great|great thanks|perfect|perfect thanks|awesome|nice|cool|got it|got it thanks|ok|okay|ok thanks|okay thanks|"
    "that helps|that worked|it works|it works now|works now|works|understood|never mind|nevermind|"
    "thanks again|thanks all|tysm|no thanks|no thank you|bye|goodbye|good night|see you|that did it|"
    "ok thank you|thanks that helps|thanks that worked|thanks it works now|great that worked|makes sense",
    "de": "danke|danke schön|dankeschön|vielen dank|danke dir|super|super danke|prima|alles klar|passt|"
    "ok danke|perfekt|verstanden|klappt|danke das hilft",
    "nl": "bedankt|dank je|dank je wel|dankjewel|top|prima|oké|super bedankt",
    "fr": "merci|merci beaucoup|super merci|parfait|d'accord|génial|ça marche|ok merci",
    "es": "gracias|muchas gracias|perfecto|genial|vale|vale gracias|entendido",
    "it": "grazie|grazie mille|perfetto|ottimo|va bene",
    "pt": "obrigado|obrigada|muito obrigado|muito obrigada|perfeito|ótimo|valeu",
}
_HELLO_REPLY: Final = {
    "en": "Hello! Ask me anything about the documents.",
    "de": "Hallo! Frag mich etwas zu den Dokumenten.",
    "nl": "Hallo! Vraag me iets over de documenten.",
    "fr": "Bonjour ! Posez-moi une question sur les documents.",
    "es": "¡Hola! Pregúntame algo sobre los documentos.",
    "it": "Ciao! Chiedimi qualcosa sui documenti.",
    "pt": "Olá! Pergunte-me algo sobre os documentos.",
}
_THANKS_REPLY: Final = {
    "en": "You're welcome! Ask on whenever you like.",
    "de": "Gern geschehen! Frag gern weiter.",
    "nl": "Graag gedaan! Vraag gerust verder.",
    "fr": "Je vous en prie ! N'hésitez pas à continuer.",
    "es": "¡De nada! Sigue preguntando cuando quieras.",
    "it": "Prego! Chiedi pure ancora.",
    "pt": "De nada! Pode continuar perguntando.",
}


def _by_phrase(phrases: dict[str, str], replies: dict[str, str]) -> dict[str, str]:
    return {phrase: replies[language] for language, joined in phrases.items() for phrase in joined.split("|")}


_REPLIES: Final = _by_phrase(_THANKS, _THANKS_REPLY) | _by_phrase(_HELLO, _HELLO_REPLY)
# How chat platforms and keyboards spell an emoji.
_SPELLED_EMOJI: Final = re.compile(r"(?<!\S)(?::[a-z0-9_+'-]{1,40}:|[:;=]-?[)D]|<3|\+1|\^\^)(?!\S)", re.IGNORECASE)
_NOISE: Final = re.compile(r"[^\w\s']|_")


def reply_to(text: str) -> str | None:
    """What to say to a message that is nothing but a greeting, thanks or an emoji; None for a question."""
    if len(text) > 60 or not text.strip() or "?" in text or "？" in text:
        return None
    text = _SPELLED_EMOJI.sub("👍", text)
    phrase = " ".join(_NOISE.sub(" ", text.replace("’", "'").casefold()).split())
    if not phrase:
        return _THANKS_REPLY["en"] if not text.isascii() else None
    return _REPLIES.get(phrase)
