"""Conversation writes while the store is down: spilled on this machine, replayed later."""
