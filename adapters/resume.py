"""In which order unfinished jobs go on after a start."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from adapters.jobs import Job, JobState


def fair_order(jobs: Iterable[Job]) -> Iterator[Job]:
    """What is answered already first, since it costs no model; then one of each asker in turn, oldest first."""
    by_asker: dict[str, deque[Job]] = {}
    for job in sorted(jobs, key=lambda job: (job.state is JobState.QUEUED, job.id)):
        if job.state is JobState.QUEUED:
            by_asker.setdefault(job.asker, deque()).append(job)
        else:
            yield job
    while by_asker:
        for asker, theirs in list(by_asker.items()):
            yield theirs.popleft()
            if not theirs:
                del by_asker[asker]
