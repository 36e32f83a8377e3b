"""No file imports another one in a circle, which the import contracts of pyproject.toml cannot say."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp

PACKAGES = ("dashboard", "extender", "policies", "devcluster", "benchmarks", "charts", "tests")


def test_no_file_imports_another_one_in_a_circle() -> None:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    files = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    try:
        TopologicalSorter(files).prepare()
    except CycleError as circle:
        raise AssertionError(" -> ".join(circle.args[1])) from None
