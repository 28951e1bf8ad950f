"""What plain code can tell about a sentence: its content words, its language, its loose ends.

Used to judge a rewrite without a model. Lists are short on purpose: they name the closed classes
(articles, pronouns, question words) of the languages that communities ask in most, and whatever they
do not know is treated as content.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+(?:[-'’._/][^\W_]+)*")
_PART: Final = re.compile(r"[^\W_]+")

_FUNCTION_WORDS: Final = {
    "en": "a an the this that these those it its he she they them their there here i me my we our us you your "
    "is are was were be been being am do does did done doing have has had can could will would shall should may "
    "might must and or but so if then than as at by for from in into of off on onto out over per to too up with "
    "without about after again also any anything both each else ever how what when where which who whom whose why "
    "just not no yes only other others same such some something very one ones get got make go let please tell "
    "actually ok okay well instead still yet more most much many now thing things way",
    "de": "der die das den dem des ein eine einen einem einer eines und oder aber wenn dann als wie was wann wo wer "
    "wen wem warum welche welcher welches ist sind war waren sein bin bist habe hat haben hatte kann können könnte "
    "muss müssen soll sollte wird werden würde ich du er sie es wir ihr mich mir dich dir ihn ihm uns euch mein dein "
    "nicht kein keine nur auch noch schon doch mal bitte in im an am auf aus bei mit nach von vom zu zum zur für über "
    "unter vor dort da hier dieser diese dieses jetzt so man ohne statt gibt geht machen",
    "nl": "de het een en of maar als dan hoe wat wanneer waar wie waarom welke is zijn was waren ben heb heeft hebben "
    "kan kunnen moet moeten zal zullen wordt worden ik je jij hij zij ze we wij jullie mij hem haar ons mijn niet geen "
    "ook nog al wel in op aan uit bij met naar van voor over onder daar hier dit dat deze die nu zo zonder er te",
    "fr": "le la les l un une des du de d et ou mais si alors comme comment que quoi quand où qui pourquoi quel quelle "
    "quels quelles est sont était être suis ai as a ont avoir peut peux pouvoir dois doit faut je tu il elle on nous "
    "vous ils elles me te se lui leur mon ma mes ton ce cet cette ces ça cela ne pas plus aussi encore en dans sur "
    "sous avec sans pour par chez à au aux y ici là même fait faire c qu s n j",
    "es": "el la los las lo un una unos unas y o pero si entonces como cómo qué que cuándo cuando dónde donde quién "
    "por para porque cuál cuáles es son era ser estar está están he ha han haber puede puedo poder debo debe yo tú él "
    "ella nosotros ellos me te se le les mi su sus este esta esto estos ese esa eso no sí más también aún en sobre con "
    "sin de del al a hay hace hacer",
    "it": "il lo la i gli le un uno una e o ma se allora come che cosa quando dove chi perché quale quali è sono era "
    "essere ho ha hanno avere può posso devo deve io tu lui lei noi voi loro mi ti si ci mio questo questa questi "
    "quello quella non anche ancora più in su con senza per da di del della al alla nel nella fare",
    "pt": "o a os as um uma uns umas e ou mas se então como que qual quais quando onde quem por porque é são era ser "
    "estar está tem têm ter pode posso devo deve eu tu ele ela nós eles me te se lhe meu minha seu este esta isto isso "
    "esse essa não sim mais também ainda em no na nos nas com sem para de do da dos das ao à há fazer",
}
_STOPWORDS: Final = {language: frozenset(words.split()) for language, words in _FUNCTION_WORDS.items()}
_ALL_STOPWORDS: Final = frozenset().union(*_STOPWORDS.values())

SPACED_SCRIPTS: Final = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARABIC", "HEBREW", "HANGUL", "DEVANAGARI"})
"""Scripts whose words stand apart, so that single words can be compared."""

# Words that point at something said before. Where one stands, a sentence is not complete by itself.
_POINTERS: Final = frozenset(
    "it its that this these those they them their there he she him her his one ones same other others "
    "former latter both such above below instead else too also again "
    "es das dies diese dieser dieses dort damit dafür davon dabei daran ihn ihm ihnen auch beide sonst "
    "stattdessen er sie "
    "het dat deze die daar ermee ervan ook hem haar ze zij "
    "ça cela celui celle ceux y en lui leur il elle ils elles aussi même "
    "eso esto ese esa ello él ella ellos ellas también mismo allí "
    "questo quello ci ne anche stesso lì esso lui lei loro "
    "isso isto esse essa ele ela eles elas também mesmo lá".split()
)
_CONTINUERS: Final = re.compile(
    r"^\W*(?:and|but|or|so|then|also|what about|how about|what if|why|why not|even|same|ok(?:ay)?|no|nope|yes|yep|"
    r"actually|sorry|wait|hm+|und|aber|oder|dann|was ist mit|wie sieht es|warum|doch|nein|ja|eigentlich|"
    r"en|maar|of|dan|waarom|nee|et|mais|ou|alors|pourquoi|non|oui|y|pero|entonces|por qué|sí|"
    r"e|ma|allora|perché|sì|mas|então|por quê|não|sim)\b",
    re.IGNORECASE,
)

_CODE_LIKE: Final = re.compile(r"[0-9]|^-|[a-z][A-Z]|[_./\\]")
_ORDINAL: Final = re.compile(r"\d{1,2}(?:st|nd|rd|th|\.|e|er|º|ª)", re.IGNORECASE)
_NAME: Final = re.compile(r"(?<=[^\s.!?:;-][ \t])\W?([^\W\d_]*[A-ZÀ-ÞА-Я][\w-]*)|\b(\w+[a-z][A-Z]\w*)")
_QUOTED: Final = re.compile(
    r"`([^`\n]{1,80})`|\"([^\"\n]{2,80})\"|“([^”\n]{2,80})”|„([^“”\n]{2,80})[“”]|«([^»\n]{2,80})»"
)
_TOKEN: Final = re.compile(r"[^\s`\"“”„«»()\[\]{},;!?]+")


def words(text: str) -> list[str]:
    """The words of `text`, case folded and NFKC, hyphenated and dotted ones whole."""
    return [match.group() for match in _WORD.finditer(unicodedata.normalize("NFKC", text).casefold())]


def content_words(text: str) -> list[str]:
    """The words that carry meaning, in order: no articles, pronouns or question words; codes stay whole."""
    return [word for word in words(text) if word not in _ALL_STOPWORDS and (len(word) > 1 or not word.isascii())]


def stem(word: str) -> str:
    """A crude, language-blind stem for comparing two texts of one conversation: four to six first letters."""
    return word[: min(6, max(4, len(word) - 3))]


def stems(text: str) -> frozenset[str]:
    """Stems of the content words of `text`, the parts of compound ones among them."""
    found: set[str] = set()
    for word in content_words(text):
        found.update(stem(part) for part in _PART.findall(word))
    return frozenset(found)


def identifiers(text: str) -> list[str]:
    """Part codes, numbers, flags, file names and quoted strings: what must not get lost or be invented."""
    found = [next(group for group in match.groups() if group) for match in _QUOTED.finditer(text)]
    for match in _TOKEN.finditer(text):
        token = match.group().strip(".:'’")
        if not token or len(token) > 80 or _ORDINAL.fullmatch(token):
            continue
        if _CODE_LIKE.search(token) and _PART.search(token):
            found.append(token)
    return list(dict.fromkeys(found))


def names(text: str) -> frozenset[str]:
    """Stems of the words written like names: capitals inside a sentence, or inside a word."""
    found = [match.group(1) or match.group(2) for match in _NAME.finditer(text)]
    return frozenset(stem(word.casefold()) for word in found if word.casefold() not in _ALL_STOPWORDS)


def language(text: str) -> str | None:
    """The language whose function words `text` has most of, if that is clear; None if not."""
    present = set(words(text))
    scores = sorted(((len(present & stop), name) for name, stop in _STOPWORDS.items()), reverse=True)
    (best, name), (second, _) = scores[0], scores[1]
    return name if best > second else None


def function_words(text: str) -> int:
    """How many different function words `text` has of its language; 0 where that is not clear."""
    name = language(text)
    return len(_STOPWORDS[name].intersection(words(text))) if name else 0


def script(text: str) -> str | None:
    """The script most letters are of ("LATIN", "CYRILLIC", "CJK", ...); None without letters."""
    counts: dict[str, int] = {}
    for char in text[:2000]:
        if char.isalpha():
            name = "LATIN" if char.isascii() else unicodedata.name(char, "UNKNOWN").split()[0]
            counts[name] = counts.get(name, 0) + 1
    return max(counts, key=lambda name: counts[name]) if counts else None


def uses_script(text: str, name: str) -> bool:
    """Whether any letter of `text` is of the script `name`."""
    return any(
        char.isalpha() and ("LATIN" if char.isascii() else unicodedata.name(char, "")).startswith(name) for char in text
    )


def stands_alone(text: str, *, least: int = 3) -> bool:
    """Whether a question is complete without what was said before. In doubt, no.

    `least` is how many content words a complete one has.
    """
    found = words(text)
    if len(content_words(text)) < least or len(found) < 5 or _CONTINUERS.match(text):
        return False
    return not any(word in _POINTERS for word in found)
