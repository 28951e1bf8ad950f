"""Class A: a bad rewrite is silent, so none of these may ever be searched in place of what was typed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from core.errors import ModelUnavailable
from core.index.index import Index
from core.outcome import MODEL_DOWN
from core.pipeline import Limits
from core.prompts import PROFILES, Manners
from core.types import NOT_IN_DOCUMENTS, QueryStatus
from tests.cases.conftest import MakeQuill
from tests.cases.gemma import context_of, gemma_endpoint, is_rewrite, messages_of, rewrites_in, text_of
from tests.fakes import HERON, LEAVE
from tests.servers.openai import OpenAIServer, Reply

OIL, FILTER = "What oil does the Kestrel take?", "and how often the filter?"
GOOD = "Kestrel filter interval"


@pytest.mark.parametrize("manners", PROFILES.values(), ids=PROFILES)
async def test_history_is_quoted_to_the_rewriter_and_its_answer_is_never_searched(quill: MakeQuill, manners: Manners):
    """B01: history as chat turns makes the rewriter answer, and the search then runs on the answer."""
    bot = quill(
        manners=manners,
        rewrite=["Usually every 30 days. It depends on use. Check the manual."],
        generate=["The Kestrel pump takes 0.8 L of oil [1].", "Change its filter every 90 days [1]."],
    )
    await bot.asks(OIL)
    outcome = await bot.asks(FILTER)
    ((role, content),) = messages_of(bot.rewrites[0])
    assert role == "user"
    assert f"User: {OIL}\n" in content
    assert "Bot: The Kestrel pump takes 0.8 L of oil" in content
    assert (outcome.query, outcome.answer.query.status) == (FILTER, QueryStatus.REJECTED)
    assert bot.searches.queries == [OIL, FILTER]


@pytest.mark.parametrize(
    ("rewrite", "expected"),
    [
        (f"Sure! Here is the standalone query:\n{GOOD}", GOOD),
        ("Sorry, I can't help with that.", FILTER),
        ("The user seems to want to know something about a pump, so first...", FILTER),
        ("", FILTER),
        (" \n\t", FILTER),
        (f'"{GOOD}"', GOOD),
        (f"**{GOOD}**", GOOD),
        (f"```\n{GOOD}\n```", GOOD),
        (f"Standalone question: {GOOD}", GOOD),
    ],
)
async def test_the_query_is_taken_out_of_its_wrapping_or_it_is_what_was_typed_and_the_command_shows_which(
    quill: MakeQuill, rewrite: str, expected: str
):
    """B02: a lead-in, a refusal or musings of a small model were searched."""
    bot = quill(rewrite=[rewrite], generate=["0.8 L [1].", "Every 90 days [1]."])
    out = await bot.at_a_pipe(OIL, FILTER, "/rewrite")
    assert "Every 90 days [1]." in out
    assert f"\nSearched for: {expected}\n" in out
    assert f"Status:       {'rewritten' if expected == GOOD else 'rejected'}" in out
    assert Counter(bot.searches.queries) == Counter({OIL, FILTER, expected})


@pytest.mark.parametrize(
    ("rewrite", "expected"),
    [(f"<think>pump {{or}} valve?</think>\n{GOOD}", GOOD), ("<think>pump or", FILTER)],
    ids=["closed", "never closed"],
)
async def test_thinking_in_a_rewrite_is_no_part_of_the_query(quill: MakeQuill, rewrite: str, expected: str):
    """B03: a reasoning model's `<think>` text broke the query and every search came back empty."""
    bot = quill(rewrite=[rewrite], generate=["0.8 L [1].", "Every 90 days [1]."])
    await bot.asks(OIL)
    outcome = await bot.asks(FILTER)
    assert outcome.query == expected
    # The typed words are always searched, beside the query where that is another; neither twice.
    assert Counter(bot.searches.queries) == Counter({OIL, FILTER, expected})
    assert outcome.answer.passages


async def test_an_english_rewrite_of_a_dutch_question_is_not_all_that_the_model_sees(quill: MakeQuill):
    """B05: the condensed question came out in English, and the chat then stayed in English."""
    bot = quill(
        rewrite=["How often does the Kestrel filter need changing?"],
        generate=["De Kestrel neemt 0,8 L olie [1].", "Om de 90 dagen [1]."],
    )
    await bot.asks("Hoeveel olie neemt de Kestrel?")
    outcome = await bot.asks("en het filter?")
    assert "Write in the language of the last message." in text_of(bot.rewrites[0])
    assert messages_of(bot.generations[-1])[-1][1].endswith("\n\nQuestion: en het filter?")
    assert "need changing" not in text_of(bot.generations[-1])
    assert outcome.text == "Om de 90 dagen [1]."


@pytest.mark.parametrize(
    "rewrite",
    [
        "At what pressure does the Heron valve open?",
        "What is the Kestrel's rated pressure and at what pressure does the Heron valve open?",
        "At what pressure does the Heron valve of the Kestrel pump open?",
    ],
    ids=["as typed", "both glued", "old subject put in"],
)
@pytest.mark.parametrize("small", [False, True], ids=["", "in small letters"])
async def test_a_new_subject_is_searched_without_the_old_one(
    quill: MakeQuill, library: Index, rewrite: str, small: bool
):
    """B07: a second, independent question was glued to the first."""
    said = ["What is the Kestrel's rated pressure?", "At what pressure does the Heron valve open?"]
    bot = quill(rewrite=[rewrite], generate=["6 bar [1].", "At 4 bar [1]."], retriever=library.retriever)
    await bot.asks(said[0].casefold() if small else said[0])
    outcome = await bot.asks(said[1].casefold() if small else said[1])
    assert "heron" in outcome.query.casefold()
    assert "kestrel" not in outcome.query.casefold()
    assert not [query for query in bot.searches.queries[1:] if "kestrel" in query.casefold()]
    assert outcome.answer.passages[0].text == HERON.text


async def test_greetings_and_thanks_are_not_searched_and_name_no_source(quill: MakeQuill):
    """B08: a greeting was turned into a made-up question and answered from documents."""
    bot = quill(rewrite=["What oil does the Kestrel take?"] * 3, generate=["It takes 0.8 L [1]."])
    out = await bot.at_a_pipe(OIL, "hello", "thanks!", "👍", "/rewrite")
    assert out.count("Sources:") == 1
    assert out.count("0.8 L") == 1
    assert "Searched for: (nothing)" in out
    assert bot.searches.queries == [OIL]
    assert len(bot.model.requests) == 1


CODES = "Does HV-12 fit a 1 mm gap on the Heron?"


@pytest.mark.parametrize(
    ("typed", "rewrite"),
    [
        (CODES, "Is the sealing set right for a small opening?"),
        (CODES, "Does HV-12 fit the gap on the Heron valve?"),
        (CODES, "Does the seal kit fit a 1 mm gap on the Heron?"),
        ('Which kit does the "Heron valve" page name for the gap?', "Which kit does the page name for the gap?"),
    ],
    ids=["reworded", "number lost", "code lost", "quoted words lost"],
)
async def test_codes_numbers_and_quoted_words_are_searched_as_typed(
    quill: MakeQuill, library: Index, typed: str, rewrite: str
):
    """B09: a clear technical question was reworded, its exact terms were gone and nothing was found."""
    bot = quill(rewrite=[rewrite], generate=["0.8 L [1].", "It fits [1]."], retriever=library.retriever)
    await bot.asks(OIL)
    outcome = await bot.asks(typed)
    assert typed in bot.searches.queries
    assert outcome.query == typed or outcome.answer.query.beside_typed
    assert HERON.text in context_of(bot.generations[-1])


async def test_the_same_conversation_asks_the_same_rewrite_at_temperature_zero(
    wired: MakeQuill, endpoint: OpenAIServer
):
    """B10: two calls on one input gave two different queries."""
    bot = wired()
    for thread in ("t1", "t2"):
        await bot.asks(OIL, thread)
        await bot.asks(FILTER, thread)
    first, second = rewrites_in(endpoint.chats)
    assert (first["temperature"], first["seed"], first["n"]) == (0.0, 0, 1)
    assert first == second


async def test_the_query_shown_is_the_one_stored_with_that_thread_and_costs_no_call(quill: MakeQuill):
    """B10: the user could not see which of two queries had been searched."""
    odd = 'the "Kestrel" filter\u2026 [0.8] *interval*'
    bot = quill(
        rewrite=["Kestrel filter change interval", odd],
        generate=["0.8 L [1].", "Every 90 days [1]."] * 2,
    )
    await bot.at_a_pipe(OIL, FILTER, "/new", OIL, FILTER)
    again = quill()
    out = await again.at_a_pipe("/open 2", "/rewrite", "/open 1", "/rewrite")
    shown = [line.removeprefix("Searched for: ") for line in out.splitlines() if line.startswith("Searched for: ")]
    assert shown == ["Kestrel filter change interval", odd]
    assert set(shown) < set(bot.searches.queries)
    assert again.model.requests == []
    assert again.searches.queries == []


async def test_the_rewrite_is_kept_apart_from_what_was_typed(quill: MakeQuill):
    """B11: the rephrased query was passed on in place of the user's message."""
    typed, rewrite = "when does it open??", "At what pressure does the Heron valve open?"
    bot = quill(
        rewrite=[rewrite, "Heron valve seal kit"],
        generate=["The Heron valve [1].", "At 4 bar [1].", "HV-12 [1]."],
    )
    await bot.asks("Tell me of the Heron valve.")
    await bot.asks(typed)
    row = (await bot.rows())[-1]
    assert (row.typed, row.searched, row.query_status) == (typed, rewrite, QueryStatus.REWRITTEN)
    assert messages_of(bot.generations[-1])[-1][1].endswith(f"Question: {typed}")
    await bot.asks("and its seal kit?")
    assert ("user", typed) in messages_of(bot.generations[-1])
    for request in (bot.rewrites[-1], bot.generations[-1]):
        assert typed in text_of(request)
        assert rewrite not in text_of(request)


async def test_a_rewriter_that_is_switched_off_is_never_called(quill: MakeQuill):
    """B12: the rewrite step was switched off, yet each turn still spent time in it."""
    bot = quill(generate=["0.8 L [1].", "Every 90 days [1].", "6 bar [1]."], rewriting=False)
    for text in (OIL, FILTER, "and the pressure?"):
        assert (await bot.asks(text)).query == text
    assert bot.rewrites == []
    assert len(bot.generations) == 3


@pytest.mark.parametrize("reset", ["/new", "/forget"])
async def test_no_rewrite_for_a_first_question_and_none_after_a_reset(quill: MakeQuill, reset: str):
    """B12: the skip rule of a first turn was not honoured, nor the one after a reset."""
    bot = quill(generate=["0.8 L [1]."] * 4, rewrite=[GOOD])
    await bot.at_a_pipe(OIL, reset, OIL)
    assert bot.rewrites == []
    await bot.at_a_pipe(OIL, FILTER)
    assert len(bot.rewrites) == 1


async def test_no_rewrite_while_no_earlier_pair_is_complete_and_one_as_soon_as_there_is(quill: MakeQuill):
    """B12: a first turn that failed at the endpoint counted as history."""
    bot = quill(generate=[ModelUnavailable(), "0.8 L [1].", "Every 90 days [1]."], rewrite=[GOOD])
    assert (await bot.asks(OIL)).text.startswith(MODEL_DOWN)
    await bot.asks(OIL)
    assert bot.rewrites == []
    await bot.asks(FILTER)
    assert len(bot.rewrites) == 1


async def test_a_rewriter_that_hangs_costs_its_own_deadline_and_then_nothing(
    wired: MakeQuill, endpoint: OpenAIServer, logged: pytest.LogCaptureFixture
):
    """B13: a helper service was down, every turn waited for its full timeout and the bot looked dead."""
    answers = gemma_endpoint("0.8 L [1].")
    endpoint.default = lambda body: Reply(before="hang") if is_rewrite(body) else answers(body)
    bot = wired(limits=Limits(rewrite_seconds=0.3), rewrite_seconds=0.15)
    await bot.asks(OIL)
    for typed in ("and the filter?", "and the pressure?", "and its oil?"):
        logged.clear()
        asked_at = time.monotonic()
        outcome = await bot.asks(typed)
        generated_at = endpoint.requests[-1].at
        assert 0.1 < generated_at - asked_at < 1.0
        assert (outcome.query, outcome.text) == (typed, "0.8 L [1].")
        assert outcome.answer.query.status is QueryStatus.FAILED
        assert logged.text.count("rewrite fell back") == 1
    await endpoint.until(lambda: endpoint.in_flight == 0)
    assert endpoint.disconnects == 3
    # After five failures in a row nobody waits for it any more.
    for typed in ("and its weight?", "and its price?", "and its colour?", "and its maker?"):
        assert (await bot.asks(typed)).query == typed
    assert len(rewrites_in(endpoint.chats)) == 5


async def test_a_fact_of_the_turn_before_is_verbatim_in_the_answer_prompt(quill: MakeQuill):
    """B14: history fed only the rewrite, so what the user had just said was unknown."""
    named = "My pump is named Berta. What oil does a Kestrel take?"
    bot = quill(rewrite=["name of the pump Berta"], generate=["0.8 L [1].", "Berta."])
    await bot.asks(named)
    await bot.asks("What did I name my pump?")
    (first, answer, question) = messages_of(bot.generations[-1])
    assert first[0] == "user"
    assert first[1].endswith(f"\n\n{named}")
    assert answer == ("assistant", "0.8 L [1].")
    assert question[1].endswith("Question: What did I name my pump?")


@pytest.mark.parametrize(
    "rewrite",
    [
        "How many leave days do I get?",
        "How many leave days does the director get?",
        "director's shoe size and leave days",
    ],
    ids=["as typed", "old subject put in", "both glued"],
)
async def test_a_question_without_an_answer_does_not_steer_the_next_one(quill: MakeQuill, library: Index, rewrite: str):
    """B15: after one unanswerable question the next good one was refused, or searched with the old subject."""
    bot = quill(rewrite=[rewrite], generate=["24 days [1]."], retriever=library.retriever)
    assert (await bot.asks("What is the director's shoe size?")).text == NOT_IN_DOCUMENTS
    outcome = await bot.asks("How many leave days do I get?")
    assert outcome.text == "24 days [1]."
    assert not [query for query in bot.searches.queries[1:] if "shoe" in query or "director" in query]
    assert LEAVE.text in context_of(bot.generations[-1])


async def test_a_rewrite_in_progress_holds_up_no_other_thread(wired: MakeQuill, endpoint: OpenAIServer):
    """B13: one hanging helper call must not stop the others either."""
    answers = gemma_endpoint("0.8 L [1].")
    endpoint.default = lambda body: Reply(before="hang") if is_rewrite(body) else answers(body)
    bot = wired(limits=Limits(rewrite_seconds=1.0), rewrite_seconds=1.0)
    await bot.asks(OIL)
    hanging = asyncio.create_task(bot.asks(FILTER))
    await endpoint.until(lambda: bool(rewrites_in(endpoint.chats)))
    assert (await bot.asks(OIL, "t2")).text == "0.8 L [1]."
    assert not hanging.done()
    assert (await hanging).text == "0.8 L [1]."
