"""What reason codes and statuses mean, from docs/waiting.md: `python -m tests.documents.meanings` reads its tables."""

from __future__ import annotations

import json
from pathlib import Path

_TABLES: dict[str, dict[str, dict[str, str]]] = json.loads((Path(__file__).parent / "meanings.json").read_text())
REASONS = _TABLES["reasons"]
"""By code: ``meaning``, and ``helps``, which says what helps."""
STATUSES = _TABLES["statuses"]
"""By status: ``meaning``."""
