"""Every metric there is: its name, type and labels, and what it says."""

from __future__ import annotations

from msgspec import Struct

from stateward.observe.metrics import Type


class Described(Struct, frozen=True):
    """One family of the catalogue."""

    name: str
    type: Type
    labels: tuple[str, ...]
    help: str


DURATION = "stateward_operation_duration_seconds"
OPERATIONS = "stateward_operations_total"
ERRORS = "stateward_operation_errors_total"
LOOKUP_SUCCESS = "agent_state_lookup_success_total"
LOOKUP_ERROR = "agent_state_lookup_error_total"
LOOKUP_LATENCY = "agent_state_lookup_latency_seconds"
RETRIES = "stateward_retries_total"
CONSISTENCY = "stateward_consistency_errors_total"
CACHE = "stateward_cache_lookups_total"
SUPPRESSED = "stateward_suppressed_writes_total"
SPILLED = "stateward_spilled_writes_total"
REPLAYED = "stateward_replayed_writes_total"
DROPPED = "stateward_dropped_writes_total"
SPILL_DEPTH = "stateward_spill_depth"
SPILL_AGE = "stateward_spill_age_seconds"
BREAKER = "stateward_breaker_open"
BREAKER_REFUSED = "stateward_breaker_refused_total"
TAKEOVERS = "stateward_lease_takeovers_total"
LEASES_LOST = "stateward_leases_lost_total"
RENEWALS_FAILED = "stateward_lease_renewal_failures_total"
BATCH = "stateward_batch_size"
CONTEXT_BREAKS = "stateward_context_breaks_total"
STORAGE_BYTES = "stateward_storage_bytes"
STORAGE_ROWS = "stateward_storage_rows"
STORAGE_CAPACITY = "stateward_storage_capacity_bytes"
STORAGE_GROWTH = "stateward_storage_growth_bytes_per_day"
STORAGE_DAYS = "stateward_storage_days_to_full"

_WHERE = ("engine", "kind", "operation")

CATALOGUE = (
    Described(DURATION, "histogram", _WHERE, "Time an operation took, retries included"),
    Described(OPERATIONS, "counter", (*_WHERE, "outcome"), "Operations that the store answered"),
    Described(ERRORS, "counter", (*_WHERE, "error"), "Operations that failed"),
    Described(LOOKUP_SUCCESS, "counter", ("engine",), "Reads that the store answered"),
    Described(LOOKUP_ERROR, "counter", ("engine", "error"), "Reads that failed"),
    Described(LOOKUP_LATENCY, "histogram", ("engine",), "Time that reads took"),
    Described(RETRIES, "counter", ("reason",), "Tries after the first one"),
    Described(CONSISTENCY, "counter", ("engine", "problem"), "Signs that replicas disagree"),
    Described(CACHE, "counter", ("result",), "Reads by what the cache had"),
    Described(SUPPRESSED, "counter", (), "Appends whose failure was kept from the caller"),
    Described(SPILLED, "counter", (), "Suppressed appends kept locally"),
    Described(REPLAYED, "counter", (), "Spilled appends that reached the store later"),
    Described(DROPPED, "counter", (), "Suppressed appends that were lost"),
    Described(SPILL_DEPTH, "gauge", (), "Appends kept locally now"),
    Described(SPILL_AGE, "gauge", (), "Age of the oldest append kept locally"),
    Described(BREAKER, "gauge", (), "1 while calls fail at once because the store is down"),
    Described(BREAKER_REFUSED, "counter", (), "Calls that failed at once for that"),
    Described(TAKEOVERS, "counter", ("engine", "kind"), "Expired leases taken over"),
    Described(LEASES_LOST, "counter", ("engine",), "Leases lost while their holder was at work"),
    Described(RENEWALS_FAILED, "counter", ("engine",), "Renewals that failed"),
    Described(BATCH, "histogram", ("engine", "lane"), "Operations in one round trip"),
    Described(CONTEXT_BREAKS, "counter", ("reason",), "Conversations that lost context"),
    Described(STORAGE_BYTES, "gauge", ("engine",), "Size of the store"),
    Described(STORAGE_ROWS, "gauge", ("engine",), "Rows in the store, as estimated"),
    Described(STORAGE_CAPACITY, "gauge", ("engine",), "Size the store can grow to"),
    Described(STORAGE_GROWTH, "gauge", ("engine",), "Growth of the store a day, by its last day"),
    Described(STORAGE_DAYS, "gauge", ("engine",), "Days until the store is full at that growth"),
)
