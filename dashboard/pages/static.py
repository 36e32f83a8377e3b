"""The files that pages load: a style sheet, a small script, and htmx with its licence. Nothing comes from elsewhere."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fastapi import APIRouter, HTTPException, Response

router = APIRouter()
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FILES = {path.name: path.read_bytes() for path in sorted((Path(__file__).parent / "static").iterdir())}
HASHES = {name: hashlib.sha256(content).hexdigest()[:12] for name, content in _FILES.items()}
"""The hash of each file, by its name. Links contain it, so that a browser keeps a file until it changes."""


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """Return one of the files."""
    if name not in _FILES:
        raise HTTPException(404, "there is no such file")
    kind = _TYPES.get(Path(name).suffix, "text/plain; charset=utf-8")
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
    return Response(_FILES[name], headers=headers, media_type=kind)
