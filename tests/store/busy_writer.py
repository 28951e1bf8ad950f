"""A process that asks and answers until it is killed, and says which message ids are committed.

`python -m tests.store.busy_writer PATH START [COUNT]`; with COUNT it ends by itself, without closing the store.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from adapters.ports import TurnState
from adapters.store import SqlConversationStore
from tests.store.builders import answer, ask, finish, said


async def write(path: Path, start: int, count: int) -> None:
    store = await SqlConversationStore.open(path)
    for n in range(start, start + count):
        job = await ask(store, said(f"m{n}", "why? " * 200))
        assert job is not None
        sys.stdout.write(f"asked m{n}\n")
        sys.stdout.flush()
        await finish(store, job, answer("because " * 200), TurnState.ANSWERED)
        sys.stdout.write(f"answered m{n}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2]), int((sys.argv[3:] or ["1000000"])[0])))
    sys.stdout.write(f"alembic: {'imported' if 'alembic' in sys.modules else 'not imported'}\n")
