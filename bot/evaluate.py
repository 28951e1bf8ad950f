"""`threadwise eval`: what the follow-ups of labelled conversations find, by the words that were searched."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bot.config import Settings
from bot.wiring import open_bench
from core import smalltalk
from core.errors import IngestError
from core.evaluation import COLUMNS, DEPTH, Fields, Item, Outcome, items, quantile, table
from core.gate_effect import CALLED, gate_effect
from core.index.document import Block, Document, Kind
from core.index.index import Index
from core.index.ingest import Progress, ingest, ingest_documents
from core.intake import clean_question
from core.pipeline import Pipeline
from core.retrieve import CANDIDATES
from core.types import Hits, Passage, Query, QueryStatus, Question

CANDIDATES_RANKED: Final = 4 * DEPTH
"""Passages fused before those of one section are counted once."""

Advance = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """All outcomes of a run."""

    outcomes: Sequence[Outcome]

    @property
    def rewrites(self) -> list[float]:
        """Seconds of each rewrite that asked the model."""
        return [o.seconds for o in self.outcomes if o.status in CALLED]

    def as_json(self) -> dict[str, Any]:
        """Scores, shares and every item, as one value for JSON."""
        return {
            "items": len(self.outcomes),
            "groups": [
                {"group": row.group, "items": row.count, "scores": {c: asdict(s) for c, s in row.scores.items()}}
                for row in table(self.outcomes)
            ],
            "rewrites": dict(Counter(outcome.status for outcome in self.outcomes)),
            "rejections": dict(Counter(o.reason for o in self.outcomes if o.status == "rejected")),
            "nothing_found": self.nothing_found(),
            "seconds_per_rewrite": {"p50": quantile(self.rewrites, 0.5), "p95": quantile(self.rewrites, 0.95)},
            "gate": asdict(effect) if (effect := gate_effect(self.outcomes)) else None,
            "outcomes": [
                {"id": o.item.id, "question": o.item.question, "query": o.query, "status": o.status, "reason": o.reason}
                | {"ranked": {column: list(ranked) for column, ranked in o.rankings.items()}}
                for o in self.outcomes
            ],
        }

    def nothing_found(self) -> dict[str, str]:
        """By kind of the items that no passage answers: how many really found nothing."""
        kinds: dict[str, list[bool]] = {}
        for outcome in self.outcomes:
            if not outcome.item.relevant:
                kinds.setdefault(outcome.item.kind, []).append(not outcome.rankings["searched"])
        return {kind: f"{sum(found)} of {len(found)}" for kind, found in sorted(kinds.items())}


async def evaluate(
    settings: Settings, file: Path, docs: Path | None, corpus: Path | None, limit: int | None, advance: Advance
) -> Evaluation:
    """Runs the items of `file` against the documents in `docs`, or the passages in the lines of `corpus`.

    The index is kept in `DATA_DIR`/eval, so a second run embeds nothing. Raises `ThreadwiseError`.
    """
    with _naming(file):
        wanted = items(_read(file))[:limit]
    source = (docs or corpus or file).resolve()
    directory = settings.data_dir / "eval" / hashlib.sha256(str(source).encode()).hexdigest()[:12]
    async with open_bench(settings, directory, lambda step: advance(step, 0, 0)) as bench:

        def progress(step: Progress) -> None:
            advance("reading documents", step.done, step.total)

        if docs is not None:
            await ingest([docs], bench.index, on_progress=progress)
        elif corpus is not None:
            with _naming(corpus):
                documents = _documents(_read(corpus))
            await ingest_documents(documents, bench.index, on_progress=progress)
        outcomes = []
        async for outcome in _outcomes(wanted, bench.index, bench.pipeline, sections=docs is not None):
            outcomes.append(outcome)
            advance("asking", len(outcomes), len(wanted))
    found = {id_ for outcome in outcomes for ranked in outcome.rankings.values() for id_ in ranked}
    labels = {id_ for outcome in outcomes for id_ in outcome.item.relevant}
    if labels and not found & labels:
        raise IngestError(f"no relevant id of {file} was found, e.g. {min(labels)!r}: are these the right documents?")
    return Evaluation(outcomes=outcomes)


async def _outcomes(
    wanted: Sequence[Item], index: Index, pipeline: Pipeline, *, sections: bool
) -> AsyncIterator[Outcome]:
    for item in wanted:
        asked, _ = clean_question(Question(text=item.question, history=item.history))
        searched: dict[str, Hits] = {}
        rankings: dict[str, list[str]] = {}

        async def hits(text: str, known: dict[str, Hits] = searched, asked: Question = asked) -> Hits | None:
            if text and text not in known:
                known[text] = await index.retriever.search(text, asked.scope, CANDIDATES)
            return known.get(text)

        started = time.monotonic()
        query = await _query(pipeline, asked)
        seconds = time.monotonic() - started
        typed, rewritten = await hits(asked.text), await hits(query.text)
        columns: dict[str, tuple[Hits | None, Hits | None]] = {
            "typed": (typed, None),
            "rewrite": (None, rewritten),
            "searched": (typed if query.text else None, rewritten if query.text != asked.text else None),
        }
        if gold := item.gold or ("" if item.history else item.question):
            columns["gold"] = (None, await hits(gold))
        for column in COLUMNS:
            if column in columns:
                passages = pipeline.fuse(asked, query, *columns[column], limit=CANDIDATES_RANKED)
                rankings[column] = await _ids(passages, index, sections=sections)
        yield Outcome(
            item=item,
            rankings=rankings,
            query=query.text,
            status=query.status.value,
            reason=query.reason,
            seconds=seconds,
        )


async def _query(pipeline: Pipeline, asked: Question) -> Query:
    if smalltalk.reply_to(asked.text) is not None:
        return Query(text="", status=QueryStatus.SKIPPED, reason="small talk")
    query, _mark = await pipeline.rewrite(asked)
    return query


async def _ids(passages: Sequence[Passage], index: Index, *, sections: bool) -> list[str]:
    """What the labels call the passages, each once, best first: a corpus id, or `path#Heading`."""
    if not sections:
        return list(dict.fromkeys(passage.source for passage in passages))[:DEPTH]
    headings = await index.catalog.sections([passage.id for passage in passages])
    # A source begins with the name of the ingested folder, a label inside it.
    ids = [f"{p.source.split('/', 1)[-1]}#{headings.get(p.id) or p.title}" for p in passages]
    return list(dict.fromkeys(ids))[:DEPTH]


def _documents(text: str) -> list[Document]:
    documents: dict[str, Document] = {}
    for row in Fields.of_lines(text, "passage of the corpus"):
        id_ = row.id("id").encode("utf-8", "replace").decode()
        if id_ in documents:
            raise row.wrong(f"its id {id_!r} is that of a line before")
        block = Block(kind=Kind.TEXT, text=row.text("text"))
        documents[id_] = Document(title=row.optional("title"), source=id_, blocks=(block,))
    return list(documents.values())


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors say which file it is."""
    try:
        yield
    except IngestError as error:
        raise IngestError(f"{path}: {error}") from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise IngestError(f"it cannot be read: {reason}") from error


def print_evaluation(evaluation: Evaluation, console: Console) -> None:
    """The table of scores, then the shares and the times."""
    grid = Table(title="Recall@1 / Recall@5 / Recall@10 / nDCG@5", title_justify="left")
    grid.add_column("kind of turn", no_wrap=True)
    grid.add_column("n", justify="right")
    for column in COLUMNS:
        grid.add_column(column, justify="right", no_wrap=True)
    for row in table(evaluation.outcomes):
        cells = []
        for column in COLUMNS:
            s = row.scores.get(column)
            cells.append(f"{s.recall_1:.3f} {s.recall_5:.3f} {s.recall_10:.3f} {s.ndcg_5:.3f}" if s else "-")
        grid.add_row(row.group, str(row.count), *cells)
    console.print(grid)
    total = len(evaluation.outcomes)
    shares = Counter(outcome.status for outcome in evaluation.outcomes)
    console.print(
        "Turns by what became of the rewrite: "
        + ", ".join(f"{name} {count / total:.0%}" for name, count in shares.most_common())
    )
    reasons = Counter(o.reason for o in evaluation.outcomes if o.status == "rejected")
    if reasons:
        console.print("Rejected for: " + ", ".join(f"{reason} ({count})" for reason, count in reasons.most_common()))
    failures = Counter(o.reason for o in evaluation.outcomes if o.status == QueryStatus.FAILED)
    if failures:
        why = ", ".join(f"{reason} ({count})" for reason, count in failures.most_common())
        console.print(f"The rewriter failed, and the typed words were searched: {why}. The log says more.", style="red")
    for kind, share in evaluation.nothing_found().items():
        console.print(f"Nothing found, as it should be, for {kind}: {share}")
    effect = gate_effect(evaluation.outcomes)
    for told in effect.lines() if effect else ():
        console.print(told, soft_wrap=True)
    p50, p95 = quantile(evaluation.rewrites, 0.5), quantile(evaluation.rewrites, 0.95)
    console.print(f"Seconds per rewrite: {p50:.2f} at the median, {p95:.2f} at p95")
