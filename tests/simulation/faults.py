"""The faults. Each strikes now, and repairs after some time what it has broken for a limited time."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation import object_faults, process_faults
from tests.simulation.device_plan import REGISTERS
from tests.simulation.process_plan import FAILS_THE_CORE
from tests.simulation.trouble import Trouble

FAULTS: dict[str, Callable[[Trouble], None]] = {
    "the extender is killed": process_faults.kill_extender,
    "the extender is replaced at once": process_faults.replace_extender,
    "kube-scheduler is killed": process_faults.kill_scheduler,
    "both are killed": process_faults.kill_both,
    "the leader changes": process_faults.change_leader,
    "the extender is suspended": process_faults.freeze_extender,
    "kube-scheduler is suspended": process_faults.freeze_scheduler,
    "a watch of the extender breaks": process_faults.break_watches,
    "a watch of the extender stops in silence": process_faults.stop_watch,
    "a line of a watch is cut in half": process_faults.cut_watch,
    "watches are refused with 410": process_faults.expire_watch,
    "a write hangs": process_faults.hang_write,
    "the API server is slow": process_faults.slow_api,
    "the watches of kube-scheduler break": process_faults.break_scheduler_watches,
    "the API server is down": process_faults.api_down,
    "answers are lost": process_faults.storm,
    "a node is cordoned": object_faults.cordon,
    "a GPU is lost": object_faults.lose_gpu,
    "a node is removed": object_faults.remove_node,
    "a node is down": object_faults.node_down,
    "a node is added": object_faults.add_node,
    "a pod is deleted": object_faults.delete_pod,
    "a pod fails": object_faults.fail_pod,
    "all pods are touched": object_faults.touch_pods,
    "a job is deleted": object_faults.delete_job,
    "a PodGroup is made anew": object_faults.remake_group,
    "a PodGroup is edited": object_faults.edit_group,
    "a PodGroup is being deleted": object_faults.mark_group_deleting,
    "a pod's annotations are edited": object_faults.edit_annotations,
    "a foreign pod is bound": object_faults.foreign_pod,
}

SHARP_FAULTS: dict[str, Callable[[Trouble], None]] = {
    "a pod is made twice": object_faults.make_twin,
    "a release breaks": object_faults.break_release,
    "the API server hangs": process_faults.hang,
    "all pods of a node fail": object_faults.fail_node,
    "no job can be read": process_faults.jobs_unread,
    FAILS_THE_CORE: object_faults.fail_the_core,
    REGISTERS: object_faults.register_devices,
    "writes are refused": process_faults.refuse_writes,
}
"""The faults that need a certain moment or a certain kind of seed to do harm."""
