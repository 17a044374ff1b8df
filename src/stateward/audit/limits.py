"""What answers are held against. Every name can be set under `[thresholds]` in the config file."""

from __future__ import annotations

THRESHOLDS: dict[str, float] = {
    "lookup_p95_ms": 100.0,
    "lookup_p99_ms": 250.0,  # more is a warning
    "errors_percent": 0.1,  # of calls under load
    "generator_lag_ms": 5.0,  # of the generator itself, p99
    "achieved_percent": 95.0,  # of the intended rate
    "read_deadline_s": 3.0,  # a read of a store that is down has failed by then
    "write_deadline_s": 8.0,
    "recovery_warn_s": 5.0,
    "recovery_fail_s": 30.0,
    "alarm_s": 60.0,  # after the tenth suppressed write
    "history_warn": 2.0,  # times slower, or larger a turn, with a long history
    "history_fail": 10.0,
    "history_floor_ms": 2.0,  # below this, slower does not matter
    "cold_warn": 2.0,  # times slower in a replica that has just started
    "cold_floor_ms": 5.0,  # below this, slower does not matter
    "history_floor_bytes": 4096.0,  # below this, more bytes a turn do not matter
    "days_warn": 90.0,
    "days_fail": 30.0,
    "pools_warn_percent": 80.0,  # of max_connections
    "pools_fail_percent": 100.0,
    "fewest_lookups": 50.0,  # fewer show no 95th percentile
    "fewest_turns": 20.0,  # fewer prove nothing about races
    "turns_a_day": 10_000.0,  # your own figure, for growth
    "retention_days": 30.0,  # that a conversation is kept, for costs
    "agents": 100.0,  # for costs
    "state_fits_gb": 5.0,  # of memory, in which the state is meant to fit
}
