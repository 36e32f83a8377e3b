"""`python -m charts` (`make chart`): writes what the chart has of the manifests, its values and Muster's settings."""

from __future__ import annotations

import shutil
import sys

from charts.templates import CHART, ChartError
from charts.written import written


def main() -> int:
    """Write all of it; files that are made no more go."""
    try:
        files = written()
    except ChartError as error:
        print(f"charts: {error}", file=sys.stderr)  # noqa: T201
        return 1
    for folder in ("templates/base", "templates/components", "files"):
        shutil.rmtree(CHART / folder, ignore_errors=True)
    for name, text in files.items():
        (CHART / name).parent.mkdir(parents=True, exist_ok=True)
        (CHART / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
