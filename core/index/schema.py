"""Tables of `passages.db`: what was ingested, as text. All of it can be made again from the documents.

`passages_fts` holds the words of `passages` for keyword search, kept up by triggers. Its tokenizer was
chosen by trial (Recall@5 of the gold rewrites, k8s-followups | the Wikipedia conversations):
porter 0.926 | 0.543, without stemming 0.922 | 0.488. It splits `kube-proxy` and `HV-12` into their parts;
searching for the parts in a row finds them again.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Boolean, Column, ForeignKey, Integer, MetaData, Table, Text

VERSION: Final = 1
"""Of this schema. An index with a higher number was made by a newer Threadwise."""

metadata = MetaData()

meta = Table("meta", metadata, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

roots = Table(
    "roots",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("path", Text, nullable=False, unique=True),  # absolute: where files are missed if they are gone
    Column("label", Text, nullable=False, unique=True),  # first part of `source`
    Column("whole", Boolean, nullable=False),  # false: only single files of this folder were asked for
)

documents = Table(
    "documents",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("source", Text, nullable=False, unique=True),
    Column("root_id", Integer, ForeignKey("roots.id"), nullable=True, index=True),
    Column("title", Text, nullable=False),
    Column("scope", Text, nullable=False, index=True),
    Column("content_hash", Text, nullable=False),
    Column("passages", Integer, nullable=False),
    Column("ingested_at", Text, nullable=False),  # ISO 8601, UTC
)

passages = Table(
    "passages",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),  # opaque; the only thing that the vectors share
    Column("document_id", Integer, ForeignKey("documents.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("ordinal", Integer, nullable=False),
    Column("title", Text, nullable=False),
    Column("heading", Text, nullable=False),
    Column("section", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("line", Integer, nullable=False),
    Column("scope", Text, nullable=False),
    Column("scope_key", Text, nullable=False),  # the scope as one word, for the full-text index
)

_COLUMNS: Final = "title, heading, text, scope_key"
_NEW: Final = "new.number, new.title, new.heading, new.text, new.scope_key"
_OLD: Final = "old.number, old.title, old.heading, old.text, old.scope_key"

FULL_TEXT: Final = (
    f"CREATE VIRTUAL TABLE passages_fts USING fts5({_COLUMNS}, content='passages', content_rowid='number', "
    "tokenize='porter unicode61 remove_diacritics 2')",
    "CREATE TRIGGER passages_added AFTER INSERT ON passages BEGIN "
    f"INSERT INTO passages_fts (rowid, {_COLUMNS}) VALUES ({_NEW}); END",
    "CREATE TRIGGER passages_gone AFTER DELETE ON passages BEGIN "
    f"INSERT INTO passages_fts (passages_fts, rowid, {_COLUMNS}) VALUES ('delete', {_OLD}); END",
)
