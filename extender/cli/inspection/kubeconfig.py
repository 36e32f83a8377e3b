"""Names in a kubeconfig: its contexts, and the namespace of the one in use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from extender.config.reading import UnreadableYamlError, read_yaml


def home(kubeconfig: Path | None = None, context: str | None = None) -> str:
    """Return the namespace of the context, as kubectl takes it where no -n is typed; else ``default``."""
    files = _files(kubeconfig)
    current = context or next((file["current-context"] for file in files if file.get("current-context")), None)
    for context_entry in _contexts(files):
        if context_entry.get("name") == current:
            return str((context_entry.get("context") or {}).get("namespace") or "default")
    return "default"


def context_names(kubeconfig: Path | None = None) -> list[str]:
    """Return the names of all contexts."""
    return [str(entry["name"]) for entry in _contexts(_files(kubeconfig)) if entry.get("name")]


def _contexts(files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    named = (entry for file in files if isinstance(file.get("contexts"), list) for entry in file["contexts"])
    return [item for item in named if isinstance(item, dict)]


def _files(kubeconfig: Path | None) -> list[dict[str, Any]]:
    """Return the files that can be read, the first one first. The login reports what is wrong with the others."""
    usual = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    paths = [kubeconfig] if kubeconfig is not None else [Path(path) for path in usual.split(os.pathsep) if path]
    contents = []
    for path in paths:
        try:
            content = read_yaml(path)
        except (UnreadableYamlError, OSError):
            continue
        if isinstance(content, dict):
            contents.append(content)
    return contents
