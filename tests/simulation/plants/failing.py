"""Bugs in the handling of an object that the core fails on."""

from __future__ import annotations

import pytest

from extender.core.calls import Calls
from extender.runtime import quarantine
from extender.runtime.quarantine import Quarantine
from tests.simulation.model import apiserver


def an_object_fails_the_core_again_and_again(patch: pytest.MonkeyPatch) -> None:
    """The object is not recorded."""
    patch.setattr(Quarantine, "blame", lambda *_, **__: "")


def the_quarantine_evicts_a_running_gang(patch: pytest.MonkeyPatch) -> None:
    """Nothing is kept of the object: the rest of its gang looks as though its start had broken off."""
    patch.setattr(quarantine, "bare", lambda _: ())
    patch.setattr(apiserver, "bare", lambda _: ())


def what_is_left_out_is_never_taken_in_again(patch: pytest.MonkeyPatch) -> None:
    """An object that has changed is taken for the one that the core has failed on."""
    patch.setattr(quarantine, "_digest", lambda _: "")


def what_is_taken_in_again_is_not_woken(patch: pytest.MonkeyPatch) -> None:
    """kube-scheduler tried the pod when it changed, and not again when Muster took it in."""
    patch.setattr(Calls, "take_up_refusal", lambda *_: None)
