"""The tests that this run of pytest collects: `conftest.py` decides, before any is collected.

Two of three tests are for `make soak` alone, and every process of a run collects all tests: where
they cannot be selected anyway, they are not made.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable

soak = True
SHARES = 6  # so many versions of Python that follow each other run all tests between them


def share(tests: Iterable[str], version: int) -> set[str]:
    """Return the tests for one more version of Python: each function, with some parameters.

    The next version runs each function with others of its parameters.
    """
    functions = defaultdict(list)
    for test in tests:
        functions[test.partition("[")[0]].append(test)
    chosen: set[str] = set()
    for name, cases in functions.items():
        wanted = (zlib.crc32(name.encode()) + version) % SHARES
        chosen.update(case for number, case in enumerate(cases) if number % SHARES == wanted)
        if chosen.isdisjoint(cases):
            chosen.add(cases[wanted % len(cases)])
    return chosen
