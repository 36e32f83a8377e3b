"""Plays seeds of the fault campaign until it is stopped, or one breaks a promise: `make soak`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count, islice
from random import SystemRandom

from tests.simulation.campaign import SeedError, Tally, play

_FRESH = 1_000_000, 1_000_000_000
"""The range of random seeds: beyond those of the suite, so that most were never played before."""
_AHEAD = 8
"""Seeds given out in advance for each process, so that none is idle while another one plays a long seed."""
_EVERY_N_LINES = 100
"""Without a terminal the progress is written once for this many seeds."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a seed: its tally, or the story of how it broke a promise."""

    seed: int
    tally: Tally | None
    story: str = ""


class Progress:
    """The line of progress on standard error: over itself on a terminal, now and then elsewhere."""

    def __init__(self) -> None:
        self.failed: list[int] = []
        self._began = time.monotonic()
        self._played = self._steps = self._events = self._faults = 0

    def add(self, result: Result) -> None:
        if result.tally is None:
            self.failed.append(result.seed)
            return
        self._played += 1
        self._steps += result.tally.steps
        self._events += result.tally.events
        self._faults += result.tally.faults
        if sys.stderr.isatty():
            print(f"\r{self.line()}\x1b[K", end="", flush=True, file=sys.stderr)
        elif self._played % _EVERY_N_LINES == 0:
            print(self.line(), flush=True, file=sys.stderr)

    def line(self) -> str:
        seconds = time.monotonic() - self._began
        rate = self._played / max(seconds, 1e-3)
        return (
            f"{self._played:,} seeds without a violation in {seconds:,.0f} s ({rate:.1f}/s): "
            f"{self._steps:,} steps, {self._events:,} events, {self._faults:,} faults"
        )

    def end(self, how: str) -> None:
        lead = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(f"{lead}{how}: {self.line()}", flush=True, file=sys.stderr)


def main() -> int:
    options = _options()
    if options.seed is not None:
        return _replay(options.seed, verbose=options.verbose)
    start = options.start or SystemRandom().randrange(*_FRESH)
    print(f"from seed {start} on; to play the same ones again: make soak ARGS='--start {start}'", flush=True)
    seeds = count(start, options.step)
    progress, wanted = Progress(), seeds if options.count is None else islice(seeds, options.count)
    # The signal ends the worker processes, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for result in _results(wanted, options.jobs, options.every):
            progress.add(result)
            if result.story:
                # print it in full, unless the run goes on: then only its first line
                print(result.story.splitlines()[0] if options.keep_going else result.story, flush=True)
                if not options.keep_going:
                    break
    except KeyboardInterrupt:
        progress.end("stopped")
        return 130
    progress.end("ended")
    if progress.failed:
        print(f"failed: {' '.join(map(str, progress.failed))}")
    return 1 if progress.failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make soak ARGS=...",
        description=__doc__,
        epilog="Ends with 0 when every seed kept its promises, 1 when one did not, 130 when it was stopped by Ctrl-C.",
    )
    parser.add_argument("--seed", type=_number, help="play this one seed and tell its story if it fails")
    parser.add_argument("--verbose", action="store_true", help="with --seed: print everything that happens")
    parser.add_argument("--start", type=_number, metavar="SEED", help="the first seed (default: one by chance)")
    parser.add_argument(
        "--step",
        type=_number,
        default=1,
        metavar="N",
        help="play every Nth seed only (from 14 on, 14: all with preemption)",
    )
    parser.add_argument("--count", type=_number, metavar="N", help="how many seeds; without it, until stopped")
    parser.add_argument(
        "--jobs", type=_number, default=os.cpu_count() or 1, metavar="N", help="processes (default: one per core)"
    )
    parser.add_argument(
        "--every", type=_number, default=8, metavar="N", help="look into the core after every Nth event (default 8)"
    )
    parser.add_argument(
        "--keep-going", action="store_true", help="go on after a failure, and list all of them at the end"
    )
    options = parser.parse_args()
    if options.verbose and options.seed is None:
        parser.error("--verbose tells the story of one seed: name it with --seed")
    return options


def _number(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return number


def _replay(seed: int, *, verbose: bool) -> int:
    """Replay with a look into the core after every event, so that a violation is reported when it happens."""
    try:
        tally = play(seed, print if verbose else None)
    except SeedError as failure:
        print(failure)
        return 1
    except KeyboardInterrupt:
        return 130
    print(f"seed {seed} keeps every promise: {tally.steps:,} steps, {tally.events:,} events, {tally.faults} faults")
    return 0


def _results(seeds: Iterator[int], jobs: int, every: int) -> Iterator[Result]:
    """The results in the order of the seeds, whichever process has played them."""
    with ProcessPoolExecutor(jobs, initializer=_leave_interrupts_to_the_parent) as pool:
        given: deque[Future[Result]] = deque()
        try:
            while True:
                given.extend(pool.submit(_play, seed, every) for seed in islice(seeds, jobs * _AHEAD - len(given)))
                if not given:
                    return
                yield given.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _play(seed: int, every: int) -> Result:
    try:
        return Result(seed, play(seed, every=every))
    except SeedError as failure:
        return Result(seed, None, str(failure))


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
