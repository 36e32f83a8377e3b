"""The meanings of reason codes and statuses.

They come from the tables of docs/waiting.md, by `python -m tests.documents.meanings`.
"""

from __future__ import annotations

import json
from pathlib import Path

_TABLES: dict[str, dict[str, dict[str, str]]] = json.loads((Path(__file__).parent / "meanings.json").read_text())
REASONS = _TABLES["reasons"]
"""The ``meaning`` of each code, and ``helps``: what helps."""
STATUSES = _TABLES["statuses"]
"""The ``meaning`` of each status."""
