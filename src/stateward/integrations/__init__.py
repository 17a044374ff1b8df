"""Stateward as the memory of agent frameworks. Each is imported only when it is used."""
