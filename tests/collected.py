"""The tests that this run of pytest collects: `conftest.py` decides, before any is collected.

Two of three tests are for `make soak` alone, and every process of a run collects all tests: where
they cannot be selected anyway, they are not made.
"""

soak = True
