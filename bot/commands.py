"""The commands behind the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from prometheus_client import start_http_server
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from adapters.terminal import TerminalChannel
from bot import logs
from bot.config import Settings
from bot.wiring import mend, open_app, open_index_only, outdated_index
from core.errors import ConfigError, EmbedderError, IndexOutdated, RetrievalError, ThreadwiseError
from core.index.index import Index
from core.index.ingest import IngestReport
from core.index.ingest import Progress as Step
from core.index.ingest import ingest as ingest_paths
from core.types import PUBLIC_SCOPE

LOG_FILE: Final = "threadwise.log"
DEMONSTRATION: Final = (
    "This is the embedded demonstration model (Gemma 3 270M, on the CPU): it shows how threads, follow-ups and "
    "sources work, but its answers are often wrong. For a real model set LLM_BASE_URL, LLM_MODEL and LLM_API_KEY "
    "(and EMBEDDING_BASE_URL for the search); see docs/your-own-model.md."
)


NO_DOCUMENTS: Final = (
    "There are no documents yet: run `threadwise ingest PATH` first (DATA_DIR tells where the index is)."
)


async def ingest(settings: Settings, paths: Sequence[Path], scope: str = PUBLIC_SCOPE) -> int:
    """`threadwise ingest`: 0, or 1 if a file could not be read. Raises `ThreadwiseError`."""
    console = Console(stderr=True, highlight=False)
    with telling(console) as tell:
        async with open_index_only(settings, tell) as index:
            tell("")
            report = await _ingest(index, paths, console, scope)
    print_report(report, console)
    return 1 if report.failed else 0


async def chat(settings: Settings, docs: Sequence[Path]) -> int:
    """`threadwise chat`: until end of file or `/quit`; 1 if something could not be stored. Raises `ThreadwiseError`."""
    # First of all: a port that is taken is no reason to wait for a model.
    if settings.metrics_port is not None:
        serve_metrics(settings.metrics_port)
    # Into a file: the terminal belongs to the conversation.
    logs.set_up(settings.log_level, settings.data_dir / LOG_FILE)
    errors = Console(stderr=True, highlight=False)
    console = Console(highlight=False)
    with telling(errors) as tell:
        async with open_app(settings, tell) as app:
            tell("")
            if docs:
                await _ingest_before_chat(app.index, docs, errors)
            state = await app.index.catalog.state()
            if not app.embedded:
                documents = f"Index: {state.documents} documents, {state.total} passages."
                errors.print(f"{app.about} {documents}", style="dim", markup=False, soft_wrap=True)
            if not state.total:
                errors.print(NO_DOCUMENTS, style="yellow", soft_wrap=True)
            if warning := await outdated_index(app.index):
                errors.print(warning, style="yellow", soft_wrap=True)
            if app.embedded:
                errors.print(DEMONSTRATION, style="yellow", soft_wrap=True)
            all_stored = await TerminalChannel(app.dispatcher, app.store, stdin=sys.stdin, console=console).run()
    return 0 if all_stored else 1


async def _ingest_before_chat(index: Index, docs: Sequence[Path], errors: Console) -> None:
    """Says what changed. If nothing can be ingested, the documents of before do; raises only if there are none."""
    try:
        report = await _ingest(index, docs, errors)
    except ThreadwiseError as error:
        if not (await index.catalog.state()).total:
            raise
        errors.print(" ".join(str(error).split()), style="red", markup=False, soft_wrap=True)
        return
    if report.failed or report.added or report.changed or report.removed:
        print_report(report, errors)


def serve_metrics(port: int) -> None:
    """For Prometheus, on this machine only. Raises `ConfigError` if the port is taken."""
    try:
        start_http_server(port, addr="127.0.0.1")
    except OSError as error:
        raise ConfigError(f"METRICS_PORT {port} cannot be used: {error.strerror}.") from error


async def evaluate(
    settings: Settings, file: Path, docs: Path | None, corpus: Path | None, limit: int | None, as_json: bool
) -> int:
    """`threadwise eval`: prints a table, or JSON. Raises `ThreadwiseError`."""
    from bot import evaluate as evaluation

    logs.set_up(settings.log_level, settings.data_dir / LOG_FILE)
    console = Console(stderr=True, highlight=False)
    with _bar(console) as advance:
        result = await evaluation.evaluate(settings, file, docs, corpus, limit, advance)
    if as_json:
        print(json.dumps(result.as_json(), indent=1, ensure_ascii=False))  # noqa: T201 - this is its output
    else:
        # Wider than some terminals: a line that is broken can be read, a cell that is cut cannot.
        evaluation.print_evaluation(result, Console(highlight=False, width=160))
    return 0


async def _ingest(index: Index, paths: Sequence[Path], console: Console, scope: str = PUBLIC_SCOPE) -> IngestReport:
    with _progress(console) as advance:
        try:
            return await ingest_paths(paths, index, scope=scope, on_progress=advance)
        except (EmbedderError, IndexOutdated):
            raise
        except RetrievalError:
            # Damaged vectors: the text is all there, so they are made again, once.
            await mend(index)
            return await ingest_paths(paths, index, scope=scope, on_progress=advance)


def print_report(report: IngestReport, console: Console) -> None:
    """One line a file that could not be read, then one line of counts."""
    for path, reason in report.failed:
        console.print(f"not read: {path}: {reason}", style="red", markup=False, soft_wrap=True)
    counts = f"{report.added} added, {report.changed} changed, {report.removed} removed, {report.unchanged} unchanged"
    if report.skipped:
        counts += f", {report.skipped} skipped"
    if report.failed:
        counts += f", {len(report.failed)} not read"
    console.print(f"Documents: {counts}. Passages embedded: {report.passages}.", soft_wrap=True)


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[Step], None]]:
    """A bar for an ingest at a terminal; nothing in a pipe."""
    with _bar(console) as advance:

        def step(progress: Step) -> None:
            what = "embedding passages again" if progress.stage == "passages" else "reading documents"
            advance(what, progress.done, progress.total)

        yield step


@contextmanager
def _bar(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A bar that is told what goes on, how much is done, and of how much (0: not known)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def advance(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield advance


@contextmanager
def telling(console: Console) -> Iterator[Callable[[str], None]]:
    """Says what takes long at the start: a spinner at a terminal, a line in a pipe."""
    status = console.status("starting ...") if console.is_terminal else None
    if status is not None:
        status.start()

    def tell(step: str) -> None:
        if status is None:
            if step:
                console.print(step, soft_wrap=True)
        elif step:
            status.update(step)
        else:
            status.stop()

    try:
        yield tell
    finally:
        if status is not None:
            status.stop()
