"""Column types that take any text and any clock, and store them the same way in every database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Dialect, Text
from sqlalchemy.types import TypeDecorator

REPLACEMENT = "\ufffd"


def storable(text: str) -> str:
    """The text with U+FFFD where it has half a surrogate pair or a NUL; both halves of a pair become one.

    SQLite cannot encode the halves, and PostgreSQL takes neither them nor NUL. A turn must not be lost over it.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\x00", REPLACEMENT)


def storable_json(value: Any) -> Any:
    """The same for every string inside lists and mappings: JSON would hide the bad halves as escapes."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): storable_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable_json(item) for item in value]
    return value


class AnyText(TypeDecorator[str]):
    """Text from outside. Cleaned here, on the way in and in comparisons, so that no column can forget to."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class AnyJson(TypeDecorator[Any]):
    """JSON whose strings come from outside."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return storable_json(value)


class Moment(TypeDecorator[datetime]):
    """A point in time: stored as UTC, returned as an aware UTC datetime (SQLite has no time zones)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a time zone cannot be stored")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
