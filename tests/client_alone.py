"""The client alone, in the process of a test: without the official client of Kubernetes, and with kubectl."""

from __future__ import annotations

import os
import sys

import pytest

from devcluster.binaries import locate


def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands of the rest of the test log in as where `muster-scheduler` is installed without `[server]`."""
    monkeypatch.setenv("PATH", f"{locate()['kubectl'].parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    monkeypatch.delitem(sys.modules, "extender.kube.api.login", raising=False)
