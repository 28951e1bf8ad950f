"""The command line: what was typed becomes one call; what goes wrong becomes one line."""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import re
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from rich.console import Console

from bot import logs
from bot.config import SCOPE_NAME, Settings, from_environment
from core.errors import ConfigError, ThreadwiseError
from core.types import PUBLIC_SCOPE

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
MOST_DIGITS: Final = 9

_DESCRIPTION: Final = "Answers questions from your own documents in chat threads, with follow-ups that work."
_EXAMPLES: Final = """\
examples:
  threadwise ingest docs/ README.md      read documents into the index
  threadwise chat                        ask about them, in the terminal
  threadwise chat --docs docs/           both: read what has changed, then ask
  threadwise run                         answer on Discord and Slack
  threadwise doctor                      check model, index, tokens and permissions
  threadwise eval FILE --docs docs/      measure what follow-ups find
  echo 'How do I install it?' | threadwise chat
  LLM_BASE_URL=http://127.0.0.1:8000/v1 threadwise chat      with your own model

Settings are environment variables or lines of a file .env; .env.example shows all of them.
"""
_INGEST_EXAMPLES: Final = """\
examples:
  threadwise ingest docs/                all Markdown, text and HTML files below docs/
  threadwise ingest docs/ faq.html       folders and files together
  threadwise ingest --scope staff hr/    only for channels that CHANNEL_SCOPES gives the scope staff

Run it again after documents have changed: only what changed is read, and files that are gone disappear
from the index. Ends with exit code 1 if a file could not be read; the others are ingested all the same.
"""
_EVAL_EXAMPLES: Final = """\
examples:
  threadwise eval questions.jsonl --docs docs/
  threadwise eval questions.jsonl --corpus passages.jsonl --json > result.json

A line of FILE: {"id": "1", "turns": [{"role": "user", "text": "..."}, {"role": "assistant", "text": "..."}],
"question": "and on ARM?", "relevant": ["install.md#ARM"], "kind": "followup", "gold_rewrite": "..."}
With --docs a relevant id is path#Heading, with the path inside DIR; with --corpus it is the id of a passage,
{"id": "p1", "title": "...", "text": "..."}. See docs/evaluation.md.
"""
_RUN_EXAMPLES: Final = """\
examples:
  DISCORD_BOT_TOKEN=... threadwise run       see docs/discord.md for the token
  SLACK_BOT_TOKEN=... SLACK_APP_TOKEN=... threadwise run       see docs/slack.md
  SLACK_BOT_TOKEN=... SLACK_SIGNING_SECRET=... threadwise run  the same over HTTP

Documents are read before, with `threadwise ingest`. Questions that are under way when it is stopped get 20 s to
be answered; the rest go on at the next start.
"""
_CHAT_EXAMPLES: Final = """\
examples:
  threadwise chat                        /help inside lists the commands
  threadwise chat --docs docs/           ingest first what has changed
  printf 'How do I install it?\\nand on ARM?\\n/rewrite\\n' | threadwise chat
"""


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command line and exits."""
    try:
        arguments = _parser().parse_args(argv)
        _check_streams(arguments.command)
        settings = from_environment()
        sys.exit(asyncio.run(_run(arguments, settings)))
    except ConfigError as error:
        _fail(error, EXIT_USAGE)
    except ThreadwiseError as error:
        _fail(error, EXIT_FAILED)
    except BrokenPipeError:
        # Whoever read our output has gone: not an error of ours, and nothing to say it to.
        sys.stderr.close()
        sys.exit(EXIT_FAILED)
    except OSError as error:
        # What is left in the buffer would fail once more when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _fail(ThreadwiseError(f"Reading or writing failed: {error.strerror or type(error).__name__}."), EXIT_FAILED)


async def _run(arguments: argparse.Namespace, settings: Settings) -> int:
    # Imported late: `--help` and a wrong setting need none of it, and it takes half a second.
    from bot.commands import chat, evaluate, ingest

    if arguments.command == "eval":
        return await evaluate(
            settings, arguments.file, arguments.docs, arguments.corpus, arguments.limit, arguments.json
        )
    if arguments.command == "doctor":
        from bot.doctor import doctor

        logs.set_up(settings.log_level)
        return await doctor(settings)
    if arguments.command == "run":
        from bot.run import run as run_platforms

        logs.set_up(settings.log_level)
        return await run_platforms(settings)
    if arguments.command == "ingest":
        logs.set_up(settings.log_level)
        return await ingest(settings, arguments.paths, arguments.scope)
    return await chat(settings, arguments.docs)


def _check_streams(command: str) -> None:
    """Raises `ThreadwiseError` if a standard stream that `command` needs is closed."""
    missing = sys.stdout is None and command in ("chat", "eval")
    if missing or (sys.stdin is None and command == "chat"):
        name = "output" if missing else "input"
        raise ThreadwiseError(f"Standard {name} is closed: threadwise {command} needs it.")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _fail(error: ThreadwiseError, code: int) -> None:
    message = " ".join(str(error).split())
    Console(stderr=True, soft_wrap=True, highlight=False).print("threadwise:", message, markup=False)
    sys.exit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="threadwise",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"threadwise {version('threadwise')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    ingest = commands.add_parser(
        "ingest",
        help="read documents into the index",
        description="Reads Markdown, text and HTML files into the index.",
        epilog=_INGEST_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    ingest.add_argument(
        "--scope",
        type=_scope,
        default=PUBLIC_SCOPE,
        metavar="NAME",
        help="only channels that CHANNEL_SCOPES lists with this name see these documents",
    )
    ingest.add_argument("paths", nargs="+", type=_path, metavar="PATH", help="a file, or a folder with all below it")

    evaluation = commands.add_parser(
        "eval",
        help="measure what follow-ups find",
        description="Runs labelled conversations and compares what the typed words, the rewrite, the fused search and "
        "a gold rewrite find.",
        epilog=_EVAL_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    evaluation.add_argument("file", type=_path, metavar="FILE", help="conversations, one JSON object a line")
    documents = evaluation.add_mutually_exclusive_group(required=True)
    documents.add_argument("--docs", type=_path, metavar="DIR", help="the documents, as for ingest")
    documents.add_argument("--corpus", type=_path, metavar="FILE", help="passages, one JSON object a line")
    evaluation.add_argument("--limit", type=_positive, metavar="N", help="only the first N conversations")
    evaluation.add_argument("--json", action="store_true", help="print JSON instead of a table")

    commands.add_parser(
        "run",
        help="answer on chat platforms",
        description="Answers on every chat platform that has a token, until it is stopped (Ctrl-C or SIGTERM).",
        epilog=_RUN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    commands.add_parser(
        "doctor",
        help="check what has to work, and say what to do",
        description="Looks at the model, the embedder, the index and the chat platforms. Ends with exit code 1 if "
        "something is to be looked at. Stop `threadwise run` before: both use the same data.",
    )

    chat = commands.add_parser(
        "chat",
        help="ask in the terminal",
        description="Opens a chat thread in the terminal.",
        epilog=_CHAT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    chat.add_argument(
        "--docs", action="append", type=_path, default=[], metavar="PATH", help="ingest this first, if it has changed"
    )
    return parser


def _path(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return Path(text)


def _scope(text: str) -> str:
    if not re.fullmatch(SCOPE_NAME, text):
        raise argparse.ArgumentTypeError("must be lower-case letters, digits and hyphens, a letter first")
    return text


def _positive(text: str) -> int:
    # Python refuses to read numbers of more than 4300 digits.
    if not text.isdecimal() or len(text) > MOST_DIGITS or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number from 1, of {MOST_DIGITS} digits at most")
    return int(text)
