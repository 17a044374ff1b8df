"""Run the program of a seed: `PYTHONPATH=tests python -m matrix SEED [SEED] [--trace]`."""

from __future__ import annotations

import argparse
import asyncio

from matrix.program import Violation
from matrix.runner import carry_out, pair_of

parser = argparse.ArgumentParser(prog="matrix")
parser.add_argument("seed", type=int)
parser.add_argument("last", type=int, nargs="?", help="run all programs from SEED to this one")
parser.add_argument("--trace", action="store_true", help="print what the program did")
arguments = parser.parse_args()
for seed in range(arguments.seed, (arguments.last or arguments.seed) + 1):
    try:
        program = asyncio.run(carry_out(seed))
    except Violation as violation:
        print(violation)
    else:
        if arguments.trace:
            print(" × ".join(pair_of(seed)), *program.trace, sep="\n  ")
