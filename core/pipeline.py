"""One turn, all stages in order, with their deadlines and fallbacks.

    sanitize   never fails open: it is pure
    rewrite    on failure the typed words are the query      (3 s; the typed words are searched beside it)
    retrieve   on failure the answer says so                 (5 s a search)
    window     which turns stay, what fits the budget        (pure)
    generate   on failure before any text: the best passages, labelled; later: the text so far, marked

    summarize  after the turn, in the background; on failure the old summary and all turns stay      (30 s)
    remember   likewise, if it is switched on; on failure nothing is remembered of the turn          (30 s)

Every fallback leaves a `Degradation` on the answer, a log line and a count. On a seat (`core.load`) each
call to the model waits for a slot first; the seconds are those after that wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from core import metrics, smalltalk
from core.clock import Clock
from core.counting import Count, Counts
from core.errors import ContextTooLong, ModelError, NoSlot, Preempted, PromptCut
from core.fact_prompts import choice_request, facts_block
from core.fail_open import fail_open, record
from core.gate import is_complete
from core.generate import Show, generate
from core.intake import clean_history, clean_passage, clean_question, clean_request, clean_summary
from core.nonce import fresh_nonce
from core.outcome import NOTHING_ASKED, SEARCH_FAILED, Marks, borne_out, count, finished, passages_instead, stand_in
from core.output import Hygiene
from core.ports import ChatModel, Retriever
from core.prompts import (
    MAX_SUMMARY_TOKENS,
    Manners,
    generate_request,
    heard_block,
    instructions,
    rewrite_request,
    summary_request,
    told,
)
from core.remember import candidates, select
from core.retrieve import CANDIDATES, Threshold, Weights, fuse
from core.rewrite import rewrite
from core.shedding import ShedLevel
from core.summarize import extract, summarize, without_citations
from core.types import (
    CARRIED_OVER,
    NOT_IN_DOCUMENTS,
    Answer,
    ChatRequest,
    Degradation,
    Hits,
    Passage,
    Query,
    QueryStatus,
    Question,
    Retrieval,
    Turn,
    Usage,
)
from core.window import MAX_PAIRS, Fitted, budget_of, fewest_tokens, fit, shortened, texts_of

log = logging.getLogger(__name__)


CHECKED_FROM_TOKENS: Final = 400
"""Shorter prompts fit everywhere, and their counts vary too much to tell."""
PICKINGS: Final = 3
"""Times that the choice of facts is begun when questions keep coming in between."""
SHED_TURNS: Final = 2
"""Turns of a conversation that reach the model under the heaviest load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Numbers of a turn. Seconds are wall time, tokens are the model's."""

    rewrite_seconds: float = 3.0
    search_seconds: float = 5.0
    summarize_seconds: float = 30.0
    remember_seconds: float = 30.0
    passages: int = 5
    context_tokens: int = 4096
    answer_tokens: int = 512
    slot_seconds: float = 0.0
    """How long a call that may be left out waits for its slot, besides its own seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriter:
    """Who rewrites, where that is not simply the model that answers."""

    manners: Manners
    model: ChatModel | None = None
    """None: the model that answers, in its queue, but spoken to in another way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Everything a turn needs. `answer` is the function that a dispatcher is given, `summarize` the one after it."""

    model: ChatModel
    retriever: Retriever
    manners: Manners
    rewriter: Rewriter | None = None
    """None: the model that answers, spoken to as for answers."""
    limits: Limits = field(default_factory=Limits)
    weights: Weights = field(default_factory=Weights)
    threshold: Threshold = field(default_factory=Threshold)
    names: tuple[str, ...] = ("Threadwise",)
    """Names the bot goes by."""
    rewriting: bool = True
    gate: bool = False
    """Whether a question that is complete as it was typed is not rewritten."""
    counts: Counts = field(default_factory=Counts)
    level: ShedLevel = ShedLevel.NONE
    """What is left out under load. Leaving out the rewrite is the queue's business: see `core.gpu`."""

    async def answer(self, question: Question, show: Show) -> Answer:
        """The answer to `question`; `show` gets the whole text so far while it grows.

        A stage that fails is no error here but a mark on the answer.
        """
        clock = Clock()
        asked, too_long = clean_question(question)
        if not asked.text:
            return count(stand_in(NOTHING_ASKED, _not_searched("nothing asked"), clock))
        if (reply := smalltalk.reply_to(asked.text)) is not None:
            return count(Answer(text=reply, query=_not_searched("small talk"), timings=clock.timings()))
        query, retrieval, marks = await self.find(asked, clock)
        if too_long:
            marks = (*marks, Degradation(stage="question", reason="too_long"))
        if self.level >= ShedLevel.SHORTER:
            marks = (*marks, Degradation(stage="load", reason=self.level.name.lower()))
        if retrieval.failed:
            return count(stand_in(SEARCH_FAILED, query, clock, marks))
        if not retrieval.passages and asked.history:
            retrieval, carried = await self._carry_over(asked)
            marks = (*marks, *carried)
        if not retrieval.passages and not asked.history and not asked.summary:
            return count(Answer(text=NOT_IN_DOCUMENTS, query=query, degraded=marks, timings=clock.timings()))
        return count(await self._generate(asked, query, retrieval.passages, marks, show, clock))

    async def find(self, asked: Question, clock: Clock) -> tuple[Query, Retrieval, Marks]:
        """The query and the passages for a sanitized question.

        The typed words are searched while the rewrite runs, so that falling back costs no time.
        """
        typed_search = asyncio.create_task(self._search(asked.text, asked.scope))
        try:
            with clock.stage("rewrite"):
                query, rewrite_mark = await self.rewrite(asked)
            with clock.stage("retrieve"):
                rewritten, rewritten_mark = None, None
                if query.text != asked.text:
                    rewritten, rewritten_mark = await self._search(query.text, asked.scope)
                typed, typed_mark = await typed_search
        finally:
            typed_search.cancel()
            with suppress(asyncio.CancelledError):
                await typed_search
        marks = tuple(mark for mark in (rewrite_mark, rewritten_mark or typed_mark) if mark)
        if typed is None and rewritten is None:
            return query, Retrieval(failed=True), marks
        passages = self.fuse(asked, query, typed, rewritten, limit=self.limits.passages)
        metrics.RETRIEVED_PASSAGES.observe(len(passages))
        return query, Retrieval(passages=tuple(map(clean_passage, passages))), marks

    async def _carry_over(self, asked: Question) -> tuple[Retrieval, Marks]:
        """What the last question found, marked: "and then?" may find nothing by itself."""
        last = asked.history[-1]
        hits, _mark = await self._search(last.searched or last.question, asked.scope)
        again = Query(text=last.searched or last.question, status=QueryStatus.SKIPPED)
        passages = self.fuse(asked, again, hits, None, limit=self.limits.passages)
        marks = (Degradation(stage="retrieve", reason=CARRIED_OVER),) if passages else ()
        return Retrieval(passages=tuple(map(clean_passage, passages))), marks

    def fuse(
        self, asked: Question, query: Query, typed: Hits | None, rewritten: Hits | None, *, limit: int
    ) -> tuple[Passage, ...]:
        """The best passages of the searches for the typed words and for the query, where that is another."""
        return fuse(
            typed,
            rewritten,
            queries=(asked.text, query.text),
            limit=limit,
            weights=self.weights.even() if query.beside_typed else self.weights,
            threshold=self.threshold,
        )

    async def rewrite(self, asked: Question) -> tuple[Query, Degradation | None]:
        """What is searched for a sanitized question, and the mark of a failed rewrite."""
        query = Query(text=asked.text, status=QueryStatus.SKIPPED, reason="switched off")
        if asked.exact:
            query = replace(query, reason="your exact words were wanted")
        mark = None
        if self.gate and self.rewriting and not asked.exact and _follows(asked) and is_complete(asked.text):
            query = replace(query, status=QueryStatus.COMPLETE, reason="complete as it was typed")
        elif self.rewriting and not asked.exact:
            # More than a window of turns stands there only while their summary is late.
            history = told(asked.history[-MAX_PAIRS:], asked.heard)
            by = self.rewriter or Rewriter(manners=self.manners)
            model = by.model or self.model
            request = clean_request(rewrite_request(asked.text, history, asked.summary, by.manners))

            async def work() -> Query:
                try:
                    return await rewrite(model, request, asked.text, history, asked.summary)
                except NoSlot:
                    return Query(text=asked.text, status=QueryStatus.SHED, reason="others wait for the model")

            query, mark = await fail_open(
                "rewrite",
                work,
                fallback=Query(text=asked.text, status=QueryStatus.FAILED),
                seconds=self.limits.rewrite_seconds + self.limits.slot_seconds,
            )
        if mark is not None:
            query = replace(query, reason=mark.reason)
        metrics.REWRITER_REQUESTS.labels(status=query.status.value).inc()
        if query.status is QueryStatus.REJECTED:
            log.info("rewrite rejected: %s", query.reason)
        return query, mark

    async def _search(self, text: str, scope: frozenset[str]) -> tuple[Hits | None, Degradation | None]:
        async def search() -> Hits | None:
            return await self.retriever.search(text, scope, CANDIDATES)

        return await fail_open("retrieve", search, fallback=None, seconds=self.limits.search_seconds)

    async def _generate(
        self, asked: Question, query: Query, passages: tuple[Passage, ...], marks: Marks, show: Show, clock: Clock
    ) -> Answer:
        """Generates; once more with half the context where the endpoint takes less than was thought."""
        if self.level >= ShedLevel.LAST_TURNS and len(asked.history) > SHED_TURNS:
            asked = replace(asked, history=asked.history[-SHED_TURNS:])
        for context in (self.limits.context_tokens, self.limits.context_tokens // 2):
            request, fitted = await self._request(asked, passages, context)
            hygiene = Hygiene(
                passages=fitted.passages,
                question=asked.text,
                names=self.names,
                stops=request.stop,
                trusts_markers=self.manners.trained or not self.manners.flat,
            )
            try:
                with clock.stage("generate"):
                    made = await generate(self.model, request, hygiene, _unseen if self.manners.flat else show)
                _check_whole(request, made.usage)
            except ModelError as error:
                mark = record("generate", error)
                if not isinstance(error, ContextTooLong):
                    break
            else:
                answer = finished(made, query, hygiene, marks, fitted.kept, clock)
                return borne_out(answer, asked.text) if self.manners.flat else answer
        return passages_instead(asked.text, query, passages, (*marks, mark), clock)

    async def _request(
        self, asked: Question, passages: tuple[Passage, ...], context_tokens: int
    ) -> tuple[ChatRequest, Fitted]:
        fixed = "".join(
            (
                instructions(asked.summary),
                heard_block(asked.heard),
                facts_block(asked.facts),
                asked.author,
                asked.text,
            )
        )
        answer_tokens = self.limits.answer_tokens

        def make(count: Count) -> tuple[Fitted, int]:
            fitted = fit(
                fixed=fixed,
                history=asked.history,
                passages=passages,
                context_tokens=context_tokens,
                answer_tokens=answer_tokens,
                count=count,
            )
            return fitted, count(asked.summary)

        texts = [fixed, asked.summary, *texts_of(asked.history, passages)]
        (fitted, summary_tokens), counted = await self.counts.settled(
            make, texts, budget_of(context_tokens, answer_tokens)
        )
        # A model in whose prompt there is no place for facts or for the summary is told none.
        flat, trained = self.manners.flat, self.manners.trained
        kept = replace(
            fitted.kept,
            counted=counted,
            turns_summarized=0 if trained else asked.summarized,
            summary_tokens=0 if trained else summary_tokens,
            facts=0 if flat else len(asked.facts),
        )
        fitted = replace(fitted, kept=kept)
        metrics.TURNS_DROPPED.inc(kept.turns_dropped)
        request = generate_request(
            asked.text,
            fitted.history,
            asked.summary,
            fitted.passages,
            self.manners,
            heard=asked.heard,
            facts=asked.facts,
            nonce=fresh_nonce(),
            max_tokens=self.limits.answer_tokens,
            asker=asked.author,
        )
        return clean_request(request), fitted

    async def summarize(self, earlier: str, turns: Sequence[Turn]) -> str | None:
        """The running summary of `earlier` and the `turns` that leave the window; None if it could not be made."""
        history, notes = clean_history(turns), clean_summary(earlier)
        if self.manners.flat:
            return extract(notes, history)
        history = tuple(map(without_citations, history))

        async def work() -> str:
            try:
                return await self._summarize(notes, history, self.limits.context_tokens)
            except ContextTooLong:
                return await self._summarize(notes, history, self.limits.context_tokens // 2)

        seconds = self.limits.summarize_seconds + self.limits.slot_seconds
        summary, _mark = await fail_open("summarize", work, fallback=None, seconds=seconds)
        return summary

    async def _summarize(self, earlier: str, turns: tuple[Turn, ...], context_tokens: int) -> str:
        fixed = summary_request(earlier, (), self.manners).messages[0].content

        def make(count: Count) -> tuple[Turn, ...]:
            tokens = {"context_tokens": context_tokens, "answer_tokens": MAX_SUMMARY_TOKENS}
            return shortened(turns, fixed=fixed, count=count, **tokens)

        texts = [fixed, *texts_of(make(lambda text: 0), ())]
        quoted, _counted = await self.counts.settled(make, texts, budget_of(context_tokens, MAX_SUMMARY_TOKENS))
        request = clean_request(summary_request(earlier, quoted, self.manners))
        summary, usage = await summarize(self.model, request, earlier, quoted)
        _check_whole(request, usage)
        return summary

    async def remember(self, message: str) -> tuple[str, ...]:
        """The sentences of a raw message that are facts about its author; none also if they could not be picked.

        A base model is not asked: it cannot choose.
        """
        sentences = () if self.manners.flat else candidates(message)
        if not sentences:
            return ()
        request = clean_request(choice_request(sentences, self.manners.stop))

        async def work() -> tuple[str, ...]:
            for _ in range(PICKINGS - 1):
                with suppress(Preempted):
                    return await self._select(request, sentences)
            return await self._select(request, sentences)

        seconds, nothing = self.limits.remember_seconds + self.limits.slot_seconds, tuple[str, ...]()
        facts, _mark = await fail_open("remember", work, fallback=nothing, seconds=seconds)
        metrics.FACTS.inc(len(facts))
        return facts

    async def _select(self, request: ChatRequest, sentences: tuple[str, ...]) -> tuple[str, ...]:
        facts, usage = await select(self.model, request, sentences)
        _check_whole(request, usage)
        return facts


def _follows(asked: Question) -> bool:
    return bool(asked.history or asked.heard or asked.summary)


async def _unseen(text: str) -> None:
    """What a weak model says is shown only after it was found to be borne out."""


def _check_whole(request: ChatRequest, usage: Usage) -> None:
    """Raises `PromptCut` if the endpoint counted far fewer tokens than the prompt has.

    Ollama, for one, drops the front of a long prompt, instructions first, and answers with status 200.
    """
    fewest = sum(fewest_tokens(message.content) for message in request.messages)
    if fewest >= CHECKED_FROM_TOKENS and 0 < usage.prompt_tokens < fewest:
        raise PromptCut


def _not_searched(reason: str) -> Query:
    metrics.REWRITER_REQUESTS.labels(status=QueryStatus.SKIPPED.value).inc()
    return Query(text="", status=QueryStatus.SKIPPED, reason=reason)
