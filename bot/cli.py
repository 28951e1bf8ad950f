"""The command `threadwise`: from its first moment on Ctrl-C ends it without a traceback, SIGTERM what serves with 0."""

from __future__ import annotations

import os
import signal
import sys

EXIT_INTERRUPTED = 130


def main() -> None:
    """Runs the command line and exits."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        # Nothing is open yet, and an exception in the middle of an import may come out as another one.
        signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    if sys.argv[1:2] == ["run"]:
        # Until `bot.shutdown` takes over; the other commands have not done their work when they are ended.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    # Late: it takes a third of a second.
    from bot.command_line import run

    try:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
