"""Made-up documents and questions: words as frequent as in a language, passages about topics, vectors to match.

The function words are English, so that the keyword search meets what it leaves out; all others are made of
syllables. Everything comes from one seed and is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy

from core.index.document import Block, Document, Kind

VERSION: Final = 1
"""Part of the name of a kept index: a new number makes new texts."""
SECTIONS: Final = 10
"""Passages of a document."""
TOPIC_WORDS: Final = 120
PASSAGE_WORDS: Final = (40, 160)
_FUNCTION_WORDS: Final = (
    "the of and to a in is you that it for on with as this are be can or by if from not an at when have your which "
    "will one has then how do what all so but there use was more also any may these they no must only other into each "
    "should than some its them where about most same after before both does while without up out over"
).split()
_VOCABULARY: Final = 30_000
_ON_TOPIC: Final = 0.22
"""Share of the words of a passage that are its topic's own."""
_EXPONENT: Final = 1.07
_FLATTENED: Final = 2.7
"""Zipf's law as Mandelbrot put it: frequency is 1 / (rank + 2.7) ** 1.07."""
_LATENT: Final = 48
"""Directions in which vectors really differ: far fewer than their width, as with real embeddings."""
_SPREAD: Final = 0.9
"""Distance of a passage from the centre of its topic, beside a centre of length 1."""
_NOISE: Final = 0.15
_ONSETS: Final = "b d f g k l m n p r s t v z br dr fl gr kl pl st tr".split()
_VOWELS: Final = "a e i o u ai ea ou".split()
_ENDS: Final = ["", "", "", "n", "r", "l", "s", "t", "x"]

Vectors = Any
"""A two-dimensional float32 array; one row is one vector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Documents of `SECTIONS` passages, and questions about them."""

    documents: Sequence[Document]
    passages: Sequence[str]
    vectors: Vectors
    """One a passage."""
    questions: Sequence[str]
    question_vectors: Vectors


def corpus(passages: int, questions: int, *, topics: int = 500, width: int = 384, seed: int = 7) -> Corpus:
    """`passages` passages (a multiple of `SECTIONS`), of which each document's are about one topic."""
    dice = numpy.random.default_rng(seed)
    words = _words(dice)
    frequency = _zipf(len(words))
    # Neither the commonest words nor the rarest ones make a topic.
    own = dice.integers(300, len(words), (topics, TOPIC_WORDS))
    topic_of = numpy.repeat(dice.integers(0, topics, passages // SECTIONS), SECTIONS)
    texts = [_passage(dice, words, frequency, own[topic]) for topic in topic_of]
    centres = dice.normal(size=(topics, _LATENT))
    centres /= numpy.linalg.norm(centres, axis=1, keepdims=True)
    directions = dice.normal(size=(_LATENT, width)) / width**0.5
    vectors = _vectors(dice, centres[topic_of], directions)
    # Last, so that the passages are the same whatever is asked.
    asked_about = dice.integers(0, topics, questions)
    return Corpus(
        documents=[
            _document(number, texts[start : start + SECTIONS])
            for number, start in enumerate(range(0, passages, SECTIONS))
        ],
        passages=texts,
        vectors=vectors,
        questions=[_question(dice, words, own[topic]) for topic in asked_about],
        question_vectors=_vectors(dice, centres[asked_about], directions),
    )


def _words(dice: Any) -> list[str]:
    """Function words first, then made-up words, each once."""
    made = dict.fromkeys(_FUNCTION_WORDS)
    while len(made) < _VOCABULARY:
        syllables = [
            f"{dice.choice(_ONSETS)}{dice.choice(_VOWELS)}{dice.choice(_ENDS)}" for _ in range(dice.integers(1, 4))
        ]
        made.setdefault("".join(syllables))
    return list(made)


def _zipf(count: int) -> Vectors:
    weights = 1.0 / (numpy.arange(1, count + 1) + _FLATTENED) ** _EXPONENT
    return numpy.cumsum(weights / weights.sum())


def _drawn(dice: Any, cumulated: Vectors, count: int) -> Vectors:
    return numpy.minimum(numpy.searchsorted(cumulated, dice.random(count)), len(cumulated) - 1)


def _passage(dice: Any, words: Sequence[str], frequency: Vectors, own: Vectors) -> str:
    length = int(dice.integers(*PASSAGE_WORDS))
    drawn = _drawn(dice, frequency, length)
    on_topic = dice.random(length) < _ON_TOPIC
    # Within a topic, too, a few words are frequent and most are not.
    drawn[on_topic] = own[(dice.random(int(on_topic.sum())) ** 2 * len(own)).astype(int)]
    return " ".join(words[number] for number in drawn) + "."


def _document(number: int, texts: Sequence[str]) -> Document:
    title = f"Page {number}"
    blocks = [Block(kind=Kind.HEADING, text=title, label=title, level=1)]
    for section, text in enumerate(texts):
        heading = " ".join(text.rstrip(".").split()[:3]).capitalize() + f" {section}"
        blocks.append(Block(kind=Kind.HEADING, text=heading, label=heading, level=2))
        blocks.append(Block(kind=Kind.TEXT, text=text))
    return Document(title=title, source=f"pages/{number}.md", blocks=tuple(blocks))


def _question(dice: Any, words: Sequence[str], own: Vectors) -> str:
    """Like "how do i A the B with C D?": three to five words of the topic, one or two of everyday use."""
    about = [words[number] for number in dice.choice(own, int(dice.integers(3, 6)), replace=False)]
    about += [words[number] for number in dice.integers(len(_FUNCTION_WORDS), 3000, int(dice.integers(1, 3)))]
    between = ("the", "of the", "with", "for a", "when", "in")
    asked = " ".join(f"{between[place % len(between)]} {word}" for place, word in enumerate(about[1:]))
    return f"How do I {about[0]} {asked}?"


def _vectors(dice: Any, centres: Vectors, directions: Vectors) -> Vectors:
    latent = centres + _SPREAD * dice.normal(size=centres.shape) / _LATENT**0.5
    rows = latent @ directions
    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    rows += _NOISE * lengths * dice.normal(size=rows.shape) / rows.shape[1] ** 0.5
    rows /= numpy.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype("float32")
