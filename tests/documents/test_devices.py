"""docs/devices.md has a verdict for each form of request that the API has, and each has a test."""

from __future__ import annotations

import re

import pytest

from tests.documents.pages import ROOT

PAGE = (ROOT / "docs" / "devices.md").read_text()
ROWS = dict(re.findall(r"^\| (.+) \| (.*\*\*.+\*\*.*) \|$", PAGE, re.MULTILINE))
VERDICTS = {"counted", "passed through", "refused"}
HERE = "tests/core/test_device_claims.py"
FORMS = (
    *("exactly", "firstAvailable", "allocationMode: All", "adminAccess", "tolerations", "capacity", "constraints"),
    *("template", "several pods", "allocated", "extendedResourceName", "deviceclass.resource.kubernetes.io/CLASS"),
    *("MIG", "several nodes", "shared counters", "selector", "serve several claims", "does not exist"),
)
TESTS: dict[str, tuple[str, ...]] = {
    "`exactly` with a count, several requests in a claim, several claims in a pod": (
        "test_a_gang_with_claims_goes_where_devices_are_free",
        "tests/core/test_device_preemption.py::test_requests_that_are_alike_in_one_claim_are_each_counted",
    ),
    'requests that overlap, as "any GPU" and "a GPU with 80Gi"': (
        "test_requirements_that_overlap_are_counted_right",
        "tests/policies/devices/test_lines.py::test_requests_fit_where_each_gets_devices_of_its_own",
    ),
    "`allocationMode: All`": ("test_all_devices_of_a_node_go_to_one_pod",),
    "`firstAvailable`": (
        "test_the_first_of_several_alternatives_that_is_there_will_do",
        "test_alternatives_with_counts_of_their_own_are_tried_in_order_on_each_node",
    ),
    "`adminAccess`": ("test_admin_access_takes_nothing_and_needs_devices_that_are_there",),
    "taints of devices and DeviceTaintRules, tolerations of requests": (
        "test_devices_with_taints_are_for_those_who_tolerate_them",
    ),
    "a MIG profile, by class and selector": ("test_mig_profiles_are_counted_by_the_class_of_such_devices",),
    "a claim of a template, one for each pod, also of a suspended job": (
        "test_a_job_is_planned_before_its_pods_exist",
    ),
    "a claim that several pods name": (
        "test_a_claim_of_several_pods_is_counted_once_and_keeps_them_together",
        "test_the_pods_of_a_suspended_job_share_a_claim_before_they_exist",
    ),
    "a claim that is allocated": ("test_a_claim_that_has_devices_holds_its_pod_to_their_node",),
    "an extended resource of a class (`extendedResourceName`, or `deviceclass.resource.kubernetes.io/CLASS`)": (
        "test_an_extended_resource_that_a_class_offers_is_counted_by_its_devices",
        "test_by_its_implicit_name_too",
    ),
    "devices that several nodes reach": (
        "test_a_pool_of_some_nodes_counts_on_those",
        "test_a_claim_of_a_device_that_all_nodes_reach_keeps_nobody_together",
    ),
    "`constraints` (`matchAttribute`, `distinctAttribute`)": (
        "test_constraints_between_devices_are_left_to_kube_scheduler_and_named",
    ),
    "`capacity` of a request": ("test_what_cannot_be_counted_is_left_to_kube_scheduler",),
    "devices that serve several claims": ("test_devices_that_serve_several_claims_never_run_out",),
    "shared counters (partitions of one GPU)": (
        "test_partitions_of_a_device_count_each_and_what_they_exclude_is_named",
    ),
    "a selector beyond the part of CEL that is read": ("test_what_cannot_be_counted_is_left_to_kube_scheduler",),
    "a claim, template or class that does not exist": (
        "test_what_a_claim_needs_and_is_not_there_is_the_reason",
        "test_a_claim_that_is_not_there_is_the_reason",
        "test_without_any_class_the_reason_is_that",
    ),
}
"""The form of a request -> its tests, of ``HERE`` where no file is named."""


def test_each_form_has_tests() -> None:
    assert ROWS.keys() == TESTS.keys()


@pytest.mark.parametrize("form", TESTS)
def test_each_form_has_a_verdict_and_a_test_that_exists(form: str) -> None:
    assert {*re.findall(r"\*\*(.+?)\*\*", ROWS[form])} <= VERDICTS
    for named in TESTS[form]:
        path, _, name = named.rpartition("::")
        path = path or HERE
        assert f"\ndef {name}(" in (ROOT / path).read_text(), f"{path} has no test {name}"


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_the_api_is_in_the_table(form: str) -> None:
    assert any(form in request for request in ROWS)
