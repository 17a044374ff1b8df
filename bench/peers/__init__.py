"""Holdfast beside other ways to keep an agent's state, interleaved in one run. See ../README.md."""
