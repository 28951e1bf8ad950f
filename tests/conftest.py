"""What holds for all tests."""

from __future__ import annotations

import signal

# Whoever is started by `&` in a script gets SIGINT ignored, and hands that on: tests that send it would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
