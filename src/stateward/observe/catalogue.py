"""Catalogue of all metrics: name, type, labels and help."""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from stateward.observe.metrics import Type

CATALOGUE: list[Metric] = []  # in the order in which they are shown


class Metric(Struct, frozen=True):
    """One entry of the catalogue, which is entered by its creation."""

    type: Type
    name: str
    help: str
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        CATALOGUE.append(self)


_counter, _gauge = partial(Metric, "counter"), partial(Metric, "gauge")
_histogram = partial(Metric, "histogram")

_WHERE = ("engine", "kind", "operation")

DURATION = _histogram(
    "stateward_operation_duration_seconds", "Time an operation took, retries included", _WHERE
)
OPERATIONS = _counter(
    "stateward_operations_total", "Operations that were answered", (*_WHERE, "outcome")
)
ERRORS = _counter("stateward_operation_errors_total", "Operations that failed", (*_WHERE, "error"))
LOOKUP_SUCCESS = _counter(
    "agent_state_lookup_success_total", "Reads that the store answered", ("engine",)
)
LOOKUP_ERROR = _counter("agent_state_lookup_error_total", "Reads that failed", ("engine", "error"))
LOOKUP_LATENCY = _histogram(
    "agent_state_lookup_latency_seconds", "Time that reads took", ("engine",)
)
LOOKUPS = _counter(
    "stateward_lookups_total", "Read-only calls, as counted by the alarm for slow lookups"
)
SLOW_LOOKUPS = _counter("stateward_slow_lookups_total", "Read-only calls that took too long")
RETRIES = _counter("stateward_retries_total", "Retries", ("reason",))
CONSISTENCY = _counter(
    "stateward_consistency_errors_total", "Signs that replicas disagree", ("engine", "problem")
)
CACHE = _counter("stateward_cache_lookups_total", "Reads by what the cache had", ("result",))
CACHE_VAIN = _counter(
    "stateward_cache_vain_questions_total", "Round trips that only showed that another was needed"
)
CACHE_EVICTIONS = _counter("stateward_cache_evictions_total", "Entities evicted from the cache")
CACHE_ENTITIES = _gauge("stateward_cache_entities", "Entities in the cache")
CACHE_BYTES = _gauge("stateward_cache_bytes", "Text in the cache")
SUPPRESSED = _counter(
    "stateward_suppressed_writes_total", "Appends whose failure was not raised to the caller"
)
SPILLED = _counter("stateward_spilled_writes_total", "Suppressed appends kept locally")
REPLAYED = _counter(
    "stateward_replayed_writes_total", "Spilled appends that reached the store later"
)
LATE = _counter("stateward_late_writes_total", "Replayed appends stored after newer turns")
ERASED = _counter(
    "stateward_erased_writes_total", "Spilled appends left out because they were erased"
)
ADOPTED = _counter(
    "stateward_adopted_writes_total", "Spilled appends taken over from ended processes"
)
DROPPED = _counter("stateward_dropped_writes_total", "Suppressed appends that were lost")
DROPPED_THREADS = _counter(
    "stateward_dropped_threads_total", "Threads that lost suppressed appends"
)
LOST = _counter(
    "stateward_lost_writes_total", "Spilled appends that will never be stored", ("reason",)
)
SPILL_DEPTH = _gauge("stateward_spill_depth", "Appends currently kept locally")
SPILL_AGE = _gauge("stateward_spill_age_seconds", "Age of the oldest append kept locally")
BREAKER = _gauge(
    "stateward_breaker_open", "1 while calls fail immediately because the store is down"
)
BREAKER_OPENED = _counter("stateward_breaker_opened_total", "Times the breaker opened")
BREAKER_REFUSED = _counter(
    "stateward_breaker_refused_total", "Calls that failed immediately because the breaker was open"
)
ALARMS = _counter("stateward_alarms_raised_total", "Alarms that the store has raised")
HEARTBEATS_FAILED = _counter(
    "stateward_heartbeats_failed_total", "Heartbeats that did not reach the store"
)
TAKEOVERS = _counter(
    "stateward_lease_takeovers_total", "Expired leases taken over", ("engine", "kind")
)
LEASES_LOST = _counter(
    "stateward_leases_lost_total", "Leases lost while their holder was working", ("engine",)
)
RENEWALS_FAILED = _counter(
    "stateward_lease_renewal_failures_total", "Renewals that failed", ("engine",)
)
BATCH = _histogram("stateward_batch_size", "Operations in one round trip", ("engine", "lane"))
SCHEDULE_TICKS = _counter("stateward_schedule_ticks_total", "Ticks of schedules", ("result",))
SUMMARIES = _counter("stateward_summaries_total", "Attempts to summarise older turns", ("result",))
EFFECTS = _counter("stateward_effects_total", "Calls of effect tools, by outcome", ("outcome",))
CONTEXT_BREAKS = _counter(
    "stateward_context_breaks_total", "Conversations that lost context", ("reason",)
)
TENANT_EVENTS = _counter(
    "stateward_tenant_events_total", "Events by tenant of the store", ("tenant", "event")
)
TENANT_BYTES = _counter(
    "stateward_tenant_appended_bytes_total", "Bytes of messages that were stored", ("tenant",)
)
STORAGE_BYTES = _gauge("stateward_storage_bytes", "Size of the store", ("engine",))
STORAGE_ROWS = _gauge("stateward_storage_rows", "Estimated rows in the store", ("engine",))
STORAGE_CAPACITY = _gauge(
    "stateward_storage_capacity_bytes", "Size the store can grow to", ("engine",)
)
STORAGE_GROWTH = _gauge(
    "stateward_storage_growth_bytes_per_day", "Growth of the store over the last day", ("engine",)
)
STORAGE_DAYS = _gauge(
    "stateward_storage_days_to_full", "Days until the store is full at that growth", ("engine",)
)

# Of several engines or workers the highest counts, not the sum.
HIGHEST = frozenset((SPILL_AGE.name, BREAKER.name))
# What is read from the store itself: all workers see the same.
STORAGE = frozenset(
    of.name for of in (STORAGE_BYTES, STORAGE_ROWS, STORAGE_CAPACITY, STORAGE_GROWTH, STORAGE_DAYS)
)
