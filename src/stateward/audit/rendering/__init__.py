"""The forms of a report: each a pure function of `Report`, and of what changed since another."""
