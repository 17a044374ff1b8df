"""The agents that `stateward quickstart` writes: each a program of its own, to copy and change."""
