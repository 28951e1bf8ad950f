"""Rows to the values of `adapters.ports` and `core.types`, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any, TypeVar

from adapters.ports import Inbound, Readers, StoredTurn, ThreadKey, TurnState
from adapters.store.models import ThreadRow, TurnRow
from core.types import Answer, Citation, Degradation, Kept, QueryStatus, Said, Turn

V = TypeVar("V", Citation, Degradation, Kept)


def new_thread(key: ThreadKey, created_at: datetime) -> ThreadRow:
    """The row of a conversation that begins."""
    return ThreadRow(
        platform=key.platform,
        workspace=key.workspace,
        channel=key.channel,
        thread=key.thread,
        created_at=created_at,
    )


def new_turn(inbound: Inbound, thread_id: int, seq: int) -> TurnRow:
    """The row of a question that has no answer yet."""
    return TurnRow(
        thread_id=thread_id,
        seq=seq,
        platform=inbound.thread.platform,
        workspace=inbound.thread.workspace,
        channel=inbound.thread.channel,
        message_id=inbound.message_id,
        author_id=inbound.author_id,
        author=inbound.author,
        typed=inbound.text,
        exact=inbound.exact,
        readers=inbound.readers.value,
        heard=[asdict(aside) for aside in inbound.heard],
        unread=list(inbound.unread),
        state=TurnState.ASKED.value,
        asked_at=inbound.sent_at,
    )


def settled(answer: Answer, state: TurnState, at: datetime) -> dict[str, Any]:
    """The columns that the end of a turn fills in."""
    return {
        "searched": answer.query.text,
        "query_status": answer.query.status.value,
        "query_reason": answer.query.reason,
        # A blank answer in the history would make an endpoint refuse every later prompt.
        "answered": answer.text if _visible(answer.text) else "",
        "citations": [asdict(citation) for citation in answer.citations],
        "degraded": [asdict(degradation) for degradation in answer.degraded],
        "kept": asdict(answer.kept),
        "timings": dict(answer.timings),
        "prompt_tokens": answer.usage.prompt_tokens,
        "completion_tokens": answer.usage.completion_tokens,
        "cached_tokens": answer.usage.cached_tokens,
        "state": state.value,
        "answered_at": at,
    }


def stored_turn(row: TurnRow) -> StoredTurn:
    """The row as a value."""
    return StoredTurn(
        id=row.id,
        seq=row.seq,
        message_id=row.message_id,
        author_id=row.author_id,
        author=row.author,
        typed=row.typed,
        searched=row.searched,
        query_status=None if row.query_status is None else QueryStatus(row.query_status),
        query_reason=row.query_reason,
        answered=row.answered,
        citations=tuple(_value(Citation, item) for item in row.citations),
        degraded=tuple(_value(Degradation, item) for item in row.degraded),
        kept=_value(Kept, row.kept),
        prompt_tokens=row.prompt_tokens,
        cached_tokens=row.cached_tokens,
        state=TurnState(row.state),
        readers=Readers(row.readers),
        asked_at=row.asked_at,
        answered_at=row.answered_at,
    )


def remembered(row: TurnRow, names: Mapping[str, str]) -> Turn:
    """The row as a pair of the history; `names` has what each person is called, by id."""
    answer = f"{row.answered} …" if row.state == TurnState.INCOMPLETE.value else row.answered
    return Turn(
        question=row.typed,
        answer=answer,
        author=names.get(row.author_id, row.author),
        at=row.asked_at,
        heard=heard_by(row),
        searched=row.searched,
    )


def heard_by(row: TurnRow) -> tuple[Said, ...]:
    """What was said before the question and not to the bot."""
    return tuple(Said(author=aside["author"], text=aside["text"]) for aside in row.heard)


def _visible(text: str) -> bool:
    return any(char.isprintable() and not char.isspace() for char in text)


def _value(kind: type[V], data: Mapping[str, Any]) -> V:
    # A field that a later version has dropped must not make old rows unreadable.
    known = {field.name for field in fields(kind)}
    return kind(**{name: item for name, item in data.items() if name in known})
