"""A pipeline in line for the model: its calls wait for their turn, and it does less when many wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from core.pipeline import Pipeline
from core.queued_model import QueuedModel
from core.seat import Background, JobLine
from core.shedding import ShedLevel

SHED_ANSWER_TOKENS: Final = 512
"""Longest answer under load."""


def on_seat(pipeline: Pipeline, seat: JobLine) -> Pipeline:
    """`pipeline` for the job that has `seat`, leaving out what the load says now."""
    return _in_line(shed(pipeline, seat.level), seat)


def in_background(pipeline: Pipeline, line: Background) -> Pipeline:
    """`pipeline` for work that nobody waits for."""
    return _in_line(pipeline, line)


def shed(pipeline: Pipeline, level: ShedLevel) -> Pipeline:
    """`pipeline`, leaving out what `level` says, but for the rewrite, whose call gets no slot then."""
    limits = pipeline.limits
    if level >= ShedLevel.SHORTER:
        passages = max(1, limits.passages // 2)
        limits = replace(limits, passages=passages, answer_tokens=min(limits.answer_tokens, SHED_ANSWER_TOKENS))
    return replace(pipeline, level=level, limits=limits)


def _in_line(pipeline: Pipeline, line: JobLine | Background) -> Pipeline:
    limits = replace(pipeline.limits, slot_seconds=line.patience_seconds)
    return replace(pipeline, model=QueuedModel(pipeline.model, line), limits=limits)
