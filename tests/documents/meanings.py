"""The meanings of reasons and statuses, read from docs/waiting.md for the pages of the dashboard.

`python -m tests.documents.meanings` rewrites them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tests.documents.pages import ROOT

FILE = ROOT / "dashboard" / "pages" / "meanings.json"
_ON_THE_WAY = {
    "New": "it was seen just now",
    "Trying": "a dry run shows what the API server makes of its pods",
    "Placed": "every member has a node",
    "Holding": "some members have reached bind, and wait for the others",
    "Releasing": "its Bindings are being written",
    "Running": "as many members as have to run together are on nodes",
    "Ended": "no pod runs or waits",
}
"""The meanings that the page gives in one sentence, about the way to a start."""


def made() -> str:
    """Return the content of the file."""
    text = (ROOT / "docs" / "waiting.md").read_text()
    waiting, _, after = text.partition("## The gang's reason")[2].partition("On the way to its start")
    reasons = {code: {"meaning": meaning, "helps": helps} for code, meaning, helps in _rows(waiting)}
    reasons |= {code: {"meaning": meaning, "helps": "Nothing"} for code, meaning in _ON_THE_WAY.items()}
    statuses = {code: {"meaning": meaning} for code, meaning in _rows(after.partition("## The gang's status")[2])}
    return json.dumps({"reasons": reasons, "statuses": statuses}, indent=1, ensure_ascii=False) + "\n"


def _rows(text: str) -> Iterator[list[str]]:
    """The cells of tables whose first column is a code. Links keep their words alone."""
    plain = re.sub(r" \(\[[^]]*\]\([^)]*\)\)|\[([^]]*)\]\([^)]*\)", lambda link: link[1] or "", text)
    for line in plain.splitlines():
        if line.startswith("| `"):
            code, *cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
            yield [code.strip("`"), *cells]


if __name__ == "__main__":
    FILE.write_text(made())
