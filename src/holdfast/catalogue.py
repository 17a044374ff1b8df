"""Every metric there is: its name, type and labels, and what it says."""

from __future__ import annotations

from msgspec import Struct

from holdfast.metrics import Type


class Described(Struct, frozen=True):
    """One family of the catalogue."""

    name: str
    type: Type
    labels: tuple[str, ...]
    help: str


DURATION = "holdfast_operation_duration_seconds"
OPERATIONS = "holdfast_operations_total"
ERRORS = "holdfast_operation_errors_total"
LOOKUP_SUCCESS = "agent_state_lookup_success_total"
LOOKUP_ERROR = "agent_state_lookup_error_total"
LOOKUP_LATENCY = "agent_state_lookup_latency_seconds"
RETRIES = "holdfast_retries_total"
CONSISTENCY = "holdfast_consistency_errors_total"
CACHE = "holdfast_cache_lookups_total"
SUPPRESSED = "holdfast_suppressed_writes_total"
SPILLED = "holdfast_spilled_writes_total"
REPLAYED = "holdfast_replayed_writes_total"
DROPPED = "holdfast_dropped_writes_total"
SPILL_DEPTH = "holdfast_spill_depth"
SPILL_AGE = "holdfast_spill_age_seconds"
BREAKER = "holdfast_breaker_open"
BREAKER_REFUSED = "holdfast_breaker_refused_total"
TAKEOVERS = "holdfast_lease_takeovers_total"
LEASES_LOST = "holdfast_leases_lost_total"
RENEWALS_FAILED = "holdfast_lease_renewal_failures_total"
BATCH = "holdfast_batch_size"
CONTEXT_BREAKS = "holdfast_context_breaks_total"
STORAGE_BYTES = "holdfast_storage_bytes"
STORAGE_ROWS = "holdfast_storage_rows"
STORAGE_CAPACITY = "holdfast_storage_capacity_bytes"
STORAGE_GROWTH = "holdfast_storage_growth_bytes_per_day"
STORAGE_DAYS = "holdfast_storage_days_to_full"

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
