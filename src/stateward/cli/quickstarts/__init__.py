"""The agents that `stateward quickstart` writes: each its own program, to copy and change."""
