"""Random placements judged one by one: ``python -m tests.policies.campaign --cases N [--nodes N] [--first SEED]``.

Each is counted out, and set against integer programs, which take 20 ms and more each.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator

from extender.config import catalogue
from policies.placement.place import Placed, Shortfall, place
from tests.policies import program
from tests.policies.judge import Judge
from tests.policies.world import Case, case


def run(
    first: int, cases: int, most_nodes: int, *, against_program: bool = False
) -> Iterator[tuple[Case, Placed | Shortfall, list[str]]]:
    """Yield every case with its placement, and its faults."""
    for seed in range(first, first + cases):
        drawn = case(seed, most_nodes)
        policies = catalogue.policies("priority-then-age", drawn.policy, {"packing": 1})
        plan = place(drawn.pods, drawn.needed, drawn.snapshot(), policies=policies)
        judge = Judge(drawn)
        better = program.complaints(judge, plan) if against_program else ()
        yield drawn, plan, [*judge.complaints(plan), *better]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    args = parser.parse_args()
    outcomes: Counter[str] = Counter()
    for drawn, plan, complaints in run(args.first, args.cases, args.nodes, against_program=True):
        outcomes["placed" if isinstance(plan, Placed) else "without room"] += 1
        for text in complaints:
            outcomes["wrong"] += 1
            print(  # noqa: T201
                f"case {drawn.seed}: {drawn.policy}, {len(drawn.pods)} x {drawn.gpus} GPUs, {drawn.topology}: {text}"
            )
    print(", ".join(f"{count} {what}" for what, count in sorted(outcomes.items())))  # noqa: T201
    return 1 if outcomes["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
