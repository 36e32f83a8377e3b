"""docs/waiting.md: every reason that there is and no other, and the words that kube-scheduler repeats on the pod."""

from __future__ import annotations

import re

from extender.api.models import GangView
from extender.core.explain.reasons import CODES as REASONS
from extender.core.ledger.kube_scheduler import GANG_WAITS, ROOM_RESERVED
from extender.core.limits import Limits
from extender.core.workload.status import Status
from extender.observe.explain.remedies import CODES
from policies.model import GANG_GATE
from tests.documents.pages import ROOT

TEXT = (ROOT / "docs" / "waiting.md").read_text()
TABLE, _, AFTER = TEXT.partition("## The gang's reason")[2].partition("On the way to its start")


def test_every_reason_is_told_and_no_other() -> None:
    waiting = re.findall(r"^\| `(\w+)` \|", TABLE, re.MULTILINE)
    passing = re.findall(r"`([A-Z]\w+)`", AFTER.partition("\n\n")[0])
    assert sorted([*waiting, *passing]) == sorted(REASONS)


def test_every_status_is_told_in_its_order() -> None:
    table = TEXT.partition("## The gang's status")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [*Status]


def test_what_would_help_is_known_for_reasons_that_there_are() -> None:
    assert {*CODES} <= {*REASONS}


def test_what_the_pod_says_is_what_muster_answers() -> None:
    for phrase in (ROOM_RESERVED, GANG_WAITS, f"gate `{GANG_GATE}`"):
        assert phrase in TEXT


def test_the_fields_that_are_named_exist() -> None:
    assert "`waiting_on_nodes` of `/api/v1/gangs/" in TEXT
    assert "waiting_on_nodes" in GangView.model_fields


def test_the_limits_are_those_of_the_core() -> None:
    for setting, value in (
        ("max_gang_members", Limits().members),
        ("max_gang_shapes", Limits().shapes),
        ("max_waiting_gangs", Limits().waiting),
    ):
        assert re.search(rf"`{setting}` allows \({value:,}\)", TEXT)
    assert Limits().report_s == 2, "A reason is reported when it has lasted two seconds"
