"""Run by Alembic, with a connection in an open transaction: the caller commits, or nothing has happened."""

from alembic import context

from adapters.store.models import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
