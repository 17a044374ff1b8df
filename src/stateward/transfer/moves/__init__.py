"""Conversations of other frameworks, moved into a store: what `stateward import` does."""
