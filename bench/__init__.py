"""Stateward against the raw drivers, interleaved in one run. See README.md."""
