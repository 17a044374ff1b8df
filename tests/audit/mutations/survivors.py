"""Mutants that the quick profile does not find, and why that is so: every one of them is argued."""

from __future__ import annotations

KNOWN: dict[str, str] = {
    "backup.without_newest": "The drill backs up under load: what the copy lacks was acknowledged "
    "after the backup had begun, and nobody promised that. A backup at rest would show it.",
    "fence.apart": "Found by chance only: the holder must be paused between its check and its "
    "write, which are 0.3 s apart.",
    "lock.case": "Nothing is lost by it: two conversations wait for each other that need not.",
    "metrics.mean": "The metrics are held against how often lookups were made and how long most of "
    "them took, not against the slowest.",
    "outage.kept_in_process": "No replica is killed while the store is away.",
    "outage.kept_untold": "No replica is killed while the store is away.",
    "outage.kept_reversed": "Of turns that were kept through an outage it is asked whether they "
    "came, not in which order.",
    "outage.load_for_ever": "An outage of this profile ends before the time is up that a read may "
    "take; `full` lasts longer and warns.",
    "run_once.ids_numbers": "Tasks are not tried with ids such as 7 and 007; conversations and "
    "users are.",
    "update_user.former_kept": "It is measured how much room a turn takes, not an update.",
    "window.from_user": "Windows are tried on conversations in which one role speaks.",
}
