"""Plays one seed after the other until it is stopped, or one breaks a promise: `make soak`."""

from __future__ import annotations

import argparse
import sys
import time
from itertools import count

from tests.simulation.campaign import SeedError, play


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.soak", description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one seed")
    parser.add_argument("--start", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--count", type=int, help="how many seeds; without it, until stopped")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure, and list them at the end")
    parser.add_argument("--verbose", action="store_true", help="print everything that happens")
    options = parser.parse_args()
    if options.seed is not None:
        seeds = iter((options.seed,))
    else:
        seeds = iter(range(options.start, options.start + options.count) if options.count else count(options.start))
    began = time.monotonic()
    steps = events = faults = played = 0
    failed: list[int] = []
    for seed in seeds:
        try:
            tally = play(seed, print if options.verbose else None)
        except SeedError as failure:
            failed.append(seed)
            print(f"\n{failure}" if not options.keep_going else f"\n{str(failure).splitlines()[0]}")
            if not options.keep_going:
                return 1
            continue
        played, steps, events, faults = played + 1, steps + tally.steps, events + tally.events, faults + tally.faults
        rate = played / (time.monotonic() - began)
        line = f"seed {seed}: {played} played, {rate:.1f}/s, {steps:,} steps, {events:,} events, {faults:,} faults"
        print(f"\r{line}", end="", flush=True, file=sys.stderr)
    print(file=sys.stderr)
    if failed:
        print(f"failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print(file=sys.stderr)
        sys.exit(130)
