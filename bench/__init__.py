"""What Threadwise costs beside its models: `make bench`, or `python -m bench turn search ...` for single parts.

Measures and prints; fails nothing. `docs/benchmarks.md` says what each figure means.
"""
