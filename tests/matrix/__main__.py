"""Run the program of a seed: `PYTHONPATH=tests python -m matrix SEED [--trace]`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from itertools import count, islice

from matrix.features import FEATURES
from matrix.program import Violation
from matrix.runner import carry_out, pair_of

parser = argparse.ArgumentParser(prog="matrix")
parser.add_argument("seed", type=int)
parser.add_argument("--programs", type=int, default=1, help="run so many, from SEED on")
parser.add_argument("--trace", action="store_true", help="print what the program did")
parser.add_argument("--first", action="store_true", help="end at the first violation")
parser.add_argument(
    "--crossing", nargs="+", choices=FEATURES, default=(), metavar="FEATURE",
    help="run only programs of this feature, or of these two",
)  # fmt: skip
arguments = parser.parse_args()
wanted = {*arguments.crossing}
seeds = (seed for seed in count(arguments.seed) if wanted <= {*pair_of(seed)})
violations = 0
for number, seed in enumerate(islice(seeds, arguments.programs), 1):
    try:
        program = asyncio.run(carry_out(seed))
    except Violation as violation:
        print(f"program {number}: {violation}")
        violations += 1
        if arguments.first:
            break
    else:
        if arguments.trace:
            print(" × ".join(pair_of(seed)), *program.trace, sep="\n  ")
sys.exit(1 if violations else 0)
