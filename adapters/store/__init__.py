"""The memory of conversations, in a SQL database: what was typed, searched, answered, cited and degraded.

files.py       the database file: where it is, whether it is sound, which version made it
database.py    connections: one writer, a few readers, their settings and transactions
migrations/    how the tables came to be, step by step (Alembic)
models.py      the tables
columns.py     column types that take any text and any clock
rows.py        rows <-> the values of `adapters.ports` and `core.types`
store.py       conversations: lists, summaries, forgetting
window.py      what of a conversation goes into a prompt
jobs.py        inbox, jobs, outbox: taken once, worked on by one process, answered in one place
job_rows.py    their rows <-> values
changes.py     questions that their askers edit or delete
facts.py       what people said of themselves, if that is to be remembered
installations.py  the workspaces in which a Slack app is installed, and their tokens
ticks.py       how long ago something was, whatever the wall clock says
faults.py      SQL and file errors -> `DataDirError`
"""

from adapters.store.store import SqlConversationStore

__all__ = ["SqlConversationStore"]
