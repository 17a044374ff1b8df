"""Tests of the SQLite engine with real processes, real signals and real disks."""
