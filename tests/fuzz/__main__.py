"""`python -m tests.fuzz`: hostile documents until there have been enough, a line of progress now and then.

A seed that fails is printed with the command that repeats it, and its traceback; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
import traceback

from tests.fuzz.target import Target

DOCUMENTS = 40
"""The number of documents for one Muster."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="how many documents (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; each makes one Muster's worth of them")
    arguments = parser.parse_args()
    logging.getLogger("muster").propagate = False
    began = reported_at = time.monotonic()
    inputs, seed = 0, arguments.seed
    with asyncio.Runner() as loop:
        while inputs < arguments.inputs:
            target = Target(seed)
            try:
                loop.run(target.attack(DOCUMENTS))
            except Exception:
                traceback.print_exc()
                sys.stdout.write(f"seed {seed} failed; again: python -m tests.fuzz --seed {seed} --inputs 1\n")
                return 1
            inputs, seed = inputs + target.inputs, seed + 1
            if time.monotonic() - reported_at > 10:
                reported_at = time.monotonic()
                sys.stdout.write(f"{inputs:,} documents, seed {seed}, {reported_at - began:.0f} s\n")
                sys.stdout.flush()
    took = time.monotonic() - began
    sys.stdout.write(
        f"{inputs:,} hostile documents, seeds {arguments.seed} to {seed - 1}, in {took:.0f} s: none did harm\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
