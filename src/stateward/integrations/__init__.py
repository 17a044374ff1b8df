"""Stateward as the memory of agent frameworks. Each is imported only by whoever uses it."""
