"""Prometheus metrics: every name and every label value in one file.

Labels come from the enumerations below, never from text that somebody typed, so that the number of
series is fixed.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0)

REWRITER_REQUESTS = Counter(
    "rag_rewriter_requests_total",
    "Turns by what became of the query rewrite: skipped, rewritten, rejected, error, shed, complete.",
    ["status"],
)
STAGE_FALLBACKS = Counter(
    "rag_stage_fallbacks_total",
    "Stages that fell back, by stage and kind of reason.",
    ["stage", "reason"],
)
STAGE_SECONDS = Histogram(
    "rag_stage_seconds",
    "Seconds by stage of a turn, first_token and total among them.",
    ["stage"],
    buckets=SECONDS,
)
TURNS = Counter(
    "rag_turns_total",
    "Finished turns, by outcome: answered, nothing_found, degraded, cut, failed.",
    ["outcome"],
)
RETRIEVED_PASSAGES = Histogram(
    "rag_retrieved_passages", "Passages given to the generator, a turn.", buckets=(0, 1, 2, 3, 4, 5, 6, 8, 10)
)
MODEL_CALLS = Counter(
    "rag_model_calls_total",
    "Calls to the chat model, by purpose and result: ok, cancelled, the class of error, or bug.",
    ["purpose", "result"],
)
PROMPT_TOKENS = Counter(
    "rag_prompt_tokens_total", "Prompt tokens as the endpoint counted them, by purpose.", ["purpose"]
)
CACHED_TOKENS = Counter(
    "rag_cached_prompt_tokens_total",
    "Prompt tokens found in the endpoint's prefix cache, by purpose.",
    ["purpose"],
)
CACHED_SHARE = Histogram(
    "rag_cached_prompt_share",
    "Of a prompt, the share found in the endpoint's prefix cache, by purpose; of endpoints that tell it.",
    ["purpose"],
    buckets=(0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0),
)
SANITIZED = Counter(
    "rag_sanitized_texts_total", "Texts in which the sanitizer broke something, by surface.", ["surface"]
)
TURNS_DROPPED = Counter("rag_turns_dropped_total", "History turns that the token budget left out of a prompt.")
FACTS = Counter("rag_facts_total", "Sentences about their authors that were picked out of messages.")
FACTS_SKIPPED = Counter("rag_facts_skipped_total", "Messages that no facts were picked from, since too many waited.")
EMBEDDINGS = Counter("rag_embedded_texts_total", "Texts sent to the embedder.")

QUEUE_JOBS = Gauge(
    "rag_queue_jobs", "Questions that are admitted and not ended, by state: waiting or begun.", ["state"]
)
QUEUE_WAIT = Histogram(
    "rag_queue_wait_seconds",
    "Seconds from admission of a question to its first call to the model.",
    buckets=(0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 90.0, 180.0, 300.0, 900.0),
)
QUEUE_REFUSALS = Counter(
    "rag_queue_refusals_total",
    "Questions refused since too many wait, by whose limit: total, asker, place; or the disk.",
    ["reason"],
)
SHED_LEVEL = Gauge(
    "rag_shed_level", "What is left out under load: 0 nothing, 1 rewrites, 2 half the passages too, 3 old turns too."
)
SLOTS_IN_USE = Gauge("rag_model_slots_in_use", "Calls to the chat model in flight.")
SLOTS = Gauge("rag_model_slots", "Calls to the chat model that may be in flight at a time.")
MODEL_UP = Gauge("rag_model_up", "1 while the chat model takes calls, 0 while questions wait for it.")

SLACK_NOT_INSTALLED = Counter(
    "rag_slack_not_installed_total", "Requests from Slack workspaces in which the app is not installed (any more)."
)
JOBS_ENDED = Counter(
    "rag_jobs_ended_total",
    "Questions by how they ended: answered, stopped, failed, expired, refused, undeliverable, deleted.",
    ["ending"],
)
CHANNEL_RETRIES = Counter(
    "rag_channel_retries_total", "Requests to a chat platform that have to be repeated, by kind of reason.", ["reason"]
)
JOBS_RESUMED = Counter("rag_jobs_resumed_total", "Questions taken over from a process that ended.")
LOOP_LAG = Gauge("rag_loop_lag_seconds", "How late the event loop is.")
LOOP_BLOCKED = Counter("rag_loop_blocked_total", "Times that something blocked the event loop for a second or more.")

for _ending in ("answered", "stopped", "failed", "expired", "refused", "undeliverable", "deleted"):
    JOBS_ENDED.labels(ending=_ending)
for _reason in ("total", "asker", "place", "disk"):
    QUEUE_REFUSALS.labels(reason=_reason)
for _state in ("waiting", "begun"):
    QUEUE_JOBS.labels(state=_state)
for _status in ("skipped", "rewritten", "rejected", "error", "shed", "complete"):
    REWRITER_REQUESTS.labels(status=_status)
for _outcome in ("answered", "nothing_found", "degraded", "cut", "failed"):
    TURNS.labels(outcome=_outcome)
