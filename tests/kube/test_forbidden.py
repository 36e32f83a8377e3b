"""Refusals for lack of a right are read, whatever they are about, and other messages stay as they are."""

from __future__ import annotations

import pytest

from extender.kube.api.forbidden import denied, refusal


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            'jobs.batch "a" is forbidden: User "ann" cannot patch resource "jobs" in API group "batch" in the '
            'namespace "team"',
            "account ann lacks the right to patch jobs.batch in namespace team",
        ),
        (
            'Error from server (Forbidden): nodes is forbidden: User "ann" cannot list resource "nodes" in API group '
            '"" at the cluster scope',
            "account ann lacks the right to list nodes",
        ),
        (
            'User "system:serviceaccount:team:bot" cannot update resource "jobs/status" in API group "batch" in the '
            'namespace "team"',
            "account system:serviceaccount:team:bot lacks the right to update jobs.batch/status in namespace team",
        ),
        ('pods "a" is forbidden: exceeded quota: team', 'pods "a" is forbidden: exceeded quota: team'),
    ],
)
def test_the_account_and_the_right_remain(message: str, text: str) -> None:
    assert refusal(message) == text
    assert (denied(message) is None) is (message == text)
