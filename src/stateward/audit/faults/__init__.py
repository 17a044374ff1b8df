"""Faults of the store and of the processes around it. Each can be undone."""
