"""Stateward beside other ways to keep an agent's state, interleaved in one run: ../README.md."""
