"""Alembic's environment for every command."""

from alembic import context

from florin_server.db.tables.tables import METADATA

if context.is_offline_mode():
    # the caller has the transaction
    context.configure(
        dialect_name=context.config.attributes["dialect_name"],
        target_metadata=METADATA,
        transactional_ddl=False,
    )
else:
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=METADATA,
        render_as_batch=True,
    )
with context.begin_transaction():
    context.run_migrations()
