"""The shipped installation, to be examined as it is or spoilt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from extender.cli.doctor.command import examine
from extender.cli.doctor.facts import Facts
from extender.config.settings import load

BASE = Path(__file__).parent.parent / "manifests" / "base"
Tree = dict[str, Any]


def shipped() -> Tree:
    tree: Tree = yaml.safe_load((BASE / "kube-scheduler-config.yaml").read_text())
    return tree


def codes(facts: Facts) -> list[str]:
    return [finding.code for finding in examine(facts).findings]


class Config:
    """The shipped configuration, to be spoilt: all of it, the entry that asks, the entry that binds."""

    def __init__(self) -> None:
        self.all = shipped()
        self.ask, self.bind = self.all["extenders"]


def configured(change: Callable[[Config], Any], **settings: Any) -> list[str]:
    """The codes of the findings in the shipped configuration after this change."""
    config = Config()
    change(config)
    return codes(Facts(load(None, **settings), scheduler=config.all))


POLICY, BINDING = "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"


def admission(*components: str) -> Facts:
    """An installation with these components of admission policies."""
    files = [file for component in components for file in (BASE.parent / "components" / component).glob("*.yaml")]
    documents = [document for file in files for document in yaml.safe_load_all(file.read_text())]
    kinds = {
        kind: {document["metadata"]["name"]: document for document in documents if document["kind"] == kind}
        for kind in (POLICY, BINDING)
    }
    return Facts(load(None), scheduler=shipped(), policies=kinds[POLICY], policy_bindings=kinds[BINDING])
