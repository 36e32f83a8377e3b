"""The manifests with the component that lets Muster evict pods of no gang."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from devcluster.muster import MANIFESTS


def with_preemption(folder: Path) -> Path:
    """A kustomization in that folder."""
    folder.mkdir(parents=True, exist_ok=True)
    base, component = (os.path.relpath(MANIFESTS / part, folder) for part in ("base", "components/preemption"))
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"resources": [base], "components": [component]}))
    return folder
