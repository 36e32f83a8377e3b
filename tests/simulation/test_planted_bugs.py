"""The campaign can fail: planted bugs are found, each by a seed that Muster as it is passes.

The referee judges by the objects and the effects alone: it does not look into the core.
"""

from __future__ import annotations

import re
import warnings
from functools import cache

import pytest

from tests.simulation.campaign import SeedError, play
from tests.simulation.plants import (
    acts,
    asking,
    backfill,
    changes,
    claims,
    domains,
    drifting,
    driving,
    elastic,
    failing,
    hearing,
    jobs,
    owners,
    pending,
    platforms,
    preemption,
    queues,
    relations,
    statements,
    statuses,
    storage,
)
from tests.simulation.plants.mutants import Plant
from tests.simulation.test_campaign import SEEDS
from tests.simulation.verifying import SelfChecks

TRIES = 40
"""The seeds that are tried after the remembered one: a change of the core changes the course of a seed."""

_TOO_FEW = r"is to be bound when \d+ of \d+ members|is promised room, and \d+ of \d+ members exist"
_UNLIKE = r"is to be started on .*, (which are closed to it|which its pods do not fit|where .* is left)"
_IDLE = "waits, and (there is room for|its reason names .*, which is gone)"
_HELD_ELSEWHERE = "and its claim .* is held to|claims of .* are promised"
_SHORT_OF_NODES = "waits, and there is room for|could have been planned for"
_PROMISED_DEVICES = "is to be started on|is promised .*, where the room is"
_VOLUMES_MADE = "claims of .* in all are promised|is promised .*, for which no volume is made"
FOUND: list[tuple[Plant, int, str]] = [
    (claims.devices_of_claims_promised_once_more, 1_000_006, "is to be started on|is promised n"),
    (claims.plan_leaves_the_devices_of_an_earlier_start, 1_000_004, "and its claim .* has devices on"),
    (claims.allocation_taken_back_while_a_binding_is_under_way, 1_000_001, "is deallocated, and .* (bound with it)"),
    (claims.devices_that_come_back_are_taken_for_lost, 1_600_055, "is to be suspended without a cause"),
    (claims.devices_of_extended_resources_are_not_counted, 1_800_001, "waits, and there is room for"),
    (claims.restarts_recover_before_devices_are_counted, 1_000_010, "is to be suspended without a cause"),
    (claims.allocations_of_failed_starts_are_never_taken_back, 1_600_066, "keeps . devices from others, for no pod"),
    (claims.allocations_of_pods_that_are_gone_wait_for_their_bindings, 601_000_281, "keeps 1 devices from others"),
    (claims.taints_of_devices_unheard, 1_000_009, _PROMISED_DEVICES),
    (claims.devices_with_shared_counters_unheard, 1_000_004, "waits, and there is room for"),
    (claims.tolerations_of_requests_unheard, 1_000_009, "waits, and there is room for"),
    (claims.alternatives_beyond_the_first_unheard, 1_000_013, "waits, and there is room for"),
    (claims.alternatives_ask_for_one_device_each, 1_000_035, _PROMISED_DEVICES),
    (claims.admin_access_takes_the_device, 1_000_042, "waits, and there is room for"),
    (hearing.quorum_off_by_one, 2, r"is to be bound when \d+ of \d+ members"),
    (hearing.minimum_of_a_role_one_lower, 167, r"members of .* are there, \d+ of \d+ of role"),
    (hearing.bound_members_not_counted, 1, "is bound in part"),
    (hearing.twins_of_an_index_counted_as_two, 309, _TOO_FEW),
    (hearing.members_of_an_earlier_podgroup_counted, 1259, _TOO_FEW),
    (hearing.others_seen_together_unheard, 2, "at rest: the extender knows"),
    (hearing.lost_member_keeps_its_gang_placed, 134, r"is promised room, and \d+ of \d+ members exist"),
    (hearing.old_watch_event_unbinds_a_pod, 21, "makes its gang whole, .* and is not stamped so"),
    (hearing.required_level_ignored, 19, "its gang would be in cliques"),
    (hearing.members_bound_elsewhere_not_noticed, 86008779, "its gang would be in cliques"),
    (hearing.deadline_ignored, 3, "was held until kube-scheduler gave it up"),
    (hearing.holds_wait_for_a_later_deadline, 21, "was held until kube-scheduler gave it up"),
    (hearing.calls_that_were_given_up_still_held, 129, "is to be bound, and nobody waits for it"),
    (hearing.unknown_outcome_taken_for_refused, 129, "and may have been bound to|in doubt for"),
    (hearing.unknown_outcome_taken_for_done, 39, "was called a success, but the pod is on"),
    (hearing.promised_room_ignored, 1, "where the room is promised to"),
    (hearing.forgetting_frees_no_room, 3, "could have been planned for"),
    (hearing.no_room_kept_for_a_lost_member, 2404, "where the room is kept for"),
    (hearing.kept_room_never_lapses, 699, "waits, and there is room for|could have been planned for"),
    (hearing.room_of_a_lost_member_given_away, 47, "where the room is kept for the replacement of"),
    (hearing.room_of_a_lost_member_kept_for_ever, 783, "waits, and there is room for|could have been planned for"),
    (hearing.twice_the_room, 1, "where the room is promised to"),
    (changes.changed_gangs_not_looked_at, 1, "could have been planned for"),
    (changes.room_of_bound_pods_is_not_claimed, 2, "wait, and after a restart|where the room is promised to"),
    (changes.room_of_pods_that_are_gone_is_not_freed, 4, "could have been planned for"),
    (changes.plans_of_several_slices_are_not_looked_at_again, 830002607, "is promised .*, where the room is"),
    (changes.changed_nodes_are_not_noticed, 2, "is promised .*, where the room is|could have been planned for"),
    (changes.new_nodes_are_not_noticed, 19, "waits, and there is room for"),
    (changes.pods_that_end_are_not_noticed, 4, "could have been planned for"),
    (changes.lost_reports_are_not_noticed, 501, "runs, and its PodGroup does not say so"),
    (changes.freed_room_is_compared_with_the_latest, 4, "could have been planned for"),
    (changes.edited_podgroups_are_not_noticed, 12, _TOO_FEW),
    (changes.refused_nodes_never_forgiven, 5, "could have been planned for"),
    (changes.singles_stand_in_no_line, 123, "default/single.*, of priority .*, could have started"),
    (changes.later_releases_are_not_confirmed, 700000037, "a restart would have the consequence Confirm"),
    (changes.what_could_not_be_written_is_not_asked_for_again, 3802, "a restart would have the consequence Confirm"),
    (changes.stamps_not_read_after_a_restart, 1259, _TOO_FEW),
    (changes.bound_pods_take_no_room_after_a_restart, 3, "where the room is promised to"),
    (changes.nominations_not_read_after_a_restart, 79, "as it reads already: that wakes nobody"),
    (changes.acts_before_the_lists_are_read, 26, "a restart would have the consequence"),
    (changes.an_array_is_grown_behind_a_reference, 28, "IndexError: index 0 is out of bounds"),
    (failing.an_object_fails_the_core_again_and_again, 27, "has ended the extender 3 times"),
    (failing.the_quarantine_evicts_a_running_gang, 434, "is suspended because of a node that is left out"),
    (failing.what_is_left_out_is_never_taken_in_again, 27, "at rest: .* is left out|at rest: the extender knows"),
    (failing.what_is_taken_in_again_is_not_woken, 6015339, "at rest: pod there.* waits, and has room on"),
    (asking.calls_answered_twice, 1, "is answered, but is not open"),
    (asking.failed_binding_called_a_success, 3, "was called a success, but the pod is on None"),
    (asking.held_calls_never_refused, 3, "was held until kube-scheduler gave it up"),
    (asking.filter_answers_only_once, 1, "asked twice about"),
    (asking.member_of_a_gang_preempted, 11, "of a gang, may be preempted"),
    (asking.evicted_for_singles_that_promised_room_keeps_out, 68007398, "and promised room keeps it out"),
    (asking.reasons_kept_to_itself, 2, "waits, and the last that was reported is None"),
    (asking.bindings_posted_twice, 1, "is being bound twice at once"),
    (asking.binding_to_another_node, 1, "is not what was asked for"),
    (asking.release_complete_always_stamped, 1, "is stamped as the end of a whole release"),
    (asking.release_complete_never_stamped, 1, "is the last of the release, and is not stamped so"),
    (asking.last_binding_of_a_release_forgotten, 1, "goes on for ever"),
    (asking.whole_gang_evicted_when_it_loses_a_member, 7, "is evicted, although its gang"),
    (asking.half_released_gangs_never_evicted, 109, "is bound in part"),
    (asking.confirmed_before_the_release_is_whole, 2, "is to say that its release is whole"),
    (asking.gates_off_before_nominations_are_written, 1, "the gate of .* is to come off before the nomination"),
    (asking.gates_never_taken_off, 2, "goes on for ever"),
    (asking.pinned_to_another_node, 2, "where the room is promised to"),
    (asking.equal_nominations_not_renewed, 9, "as it reads already: that wakes nobody"),
    (asking.stale_nominations_kept, 137, "waits, and is nominated for"),
    (asking.nominations_of_lost_promises_kept, 167, "is told to be forgotten, and keeps its nomination"),
    (asking.two_members_nominated_for_one_node, 1, "where the room is promised to"),
    (driving.write_that_hangs_keeps_its_lane, 1, "a restart would have the consequence|goes on for ever"),
    (driving.time_counts_in_which_nobody_is_answered, 190, "has answered nobody for"),
    (driving.unanswered_look_taken_for_an_unbound_pod, 43, "is reported as refused .*, and was written"),
    (driving.unanswered_binding_taken_for_refused, 1, "is reported as refused .*, and was written"),
    (driving.overload_taken_for_done, 5, "is reported as written"),
    (driving.answer_given_to_another_write, 5, "is reported as (written|refused)"),
    (driving.writes_sent_twice, 1, "is sent while an earlier one of the pod is under way"),
    (
        driving.older_nomination_overtakes,
        25,
        "is sent while an earlier one of the pod is under way|and the last that was sent is",
    ),
    (driving.bindings_linger_before_they_are_sent, 1, "is sent after its deadline|and nobody waits for it"),
    (driving.evictions_never_sent, 109, "is bound in part"),
    (driving.lanes_without_bounds, 4, "requests are under way already"),
    (driving.pauses_never_end, 197, "a restart would have the consequence (Nominate|Ungate)"),
    (driving.half_a_line_taken_for_the_whole, 5, "wait, and after a restart|the extender knows"),
    (driving.watch_given_up_after_410_in_a_loop, 55, "goes on for ever|the extender knows"),
    (driving.silent_watch_never_opened_anew, 15, "goes on for ever|the extender knows"),
    (driving.crowd_too_small, 199, "could have been planned for"),
    (relations.host_ports_ignored, 9, "lets in no order of"),
    (relations.affinity_ignored, 22, "lets in no order of"),
    (relations.anti_affinity_of_pods_that_are_there_ignored, 141, "lets in no order of"),
    (relations.spread_counted_without_the_pods_that_are_there, 1769, "lets in no order of"),
    (relations.no_look_at_who_has_come_before_a_release, 41000100, "in the way of"),
    (
        relations.nominations_of_singles_ignored,
        31001069,
        "is planned on .*, (where default/single|in the way of single)",
    ),
    (relations.rounds_let_in_at_once, 187, "waits, and there is room for|is given up, and nothing has changed"),
    (relations.related_pods_that_come_are_not_noticed, 11, "could have been planned for"),
    (
        relations.members_that_others_keep_away_are_not_woken,
        360001497,
        "wait, and after a restart|waits, and there is room",
    ),
    (acts.committed_plans_start_no_job, 6, "could have been planned for"),
    (acts.broken_starts_are_never_completed, 12, "is evicted, although its gang"),
    (acts.jobs_that_lose_their_plan_are_not_suspended, 68, "is started, and 0 of 1 are bound"),
    (acts.suspended_jobs_keep_their_plan, 18, "waits for no reason"),
    (jobs.plans_not_read_after_a_restart, 20, "is to be suspended without a cause"),
    (jobs.stopped_when_it_is_suspended, 18, "is cleaned while it runs|is to be started as it is"),
    (jobs.held_jobs_do_not_wait, 8, "is to be started as it is|waits for no reason"),
    (jobs.terminating_pods_of_jobs_are_gone, 100, r"is to be started on .*, where|of its last start are there"),
    (jobs.refusals_of_nodes_of_a_plan_not_heard_of, 4270, "waits, and there is room for|is started, and"),
    (jobs.edited_jobs_not_heard_of, 10, "is to be started with a plan for other pods"),
    (jobs.required_level_of_jobs_ignored, 8, "is to be started with a plan for other pods|is to be started in cliques"),
    (jobs.started_without_a_node_for_the_last, 6, r"is to be started with \d+ nodes for"),
    (jobs.started_on_one_node, 8, r"is to be started on .*, (which are closed|where)"),
    (jobs.started_with_another_minimum, 6, "is to be started with minMember"),
    (jobs.suspended_when_its_first_pod_comes, 6, "is to be suspended without a cause"),
    (jobs.a_start_of_its_own_is_doubted_again, 418, "is to be suspended without a cause"),
    (jobs.no_inherited_start_has_quota, 406, "is to be suspended without a cause"),
    (jobs.jobs_never_cleaned, 6, "has ended, and something of ours|is suspended, and something of ours"),
    (jobs.jobs_never_suspended, 18, "something of ours is on it|is started, and"),
    (jobs.starts_that_were_not_sent_give_their_nodes_up, 126, "that was not sent, and is not asked for again"),
    (jobs.writes_that_were_not_sent_are_believed, 126, "that was not sent, and is not asked for again"),
    (jobs.refused_start_taken_for_done, 556, r"is to be started on .*, where"),
    (jobs.quorum_of_a_job_counted_as_a_total, 1776, r"members of .* are there, 0 of 1 of podset"),
    (jobs.what_has_ended_counts_for_the_next_start, 546, r"is to be bound when \d+ of \d+ members"),
    (jobs.jobs_that_make_no_more_pods_are_not_known, 1678, "is complete then without what its other pods do"),
    (jobs.later_waves_counted_on, 51001016, "lets in no order of|is given up, and nothing has changed"),
    (jobs.started_jobs_lose_their_room_before_their_start_is_shown, 71004410, r"is to be started on .*, where"),
    (owners.quorum_of_an_ordered_owner_counts_all_waves, 24, "is given up, and nothing has changed: only 1 of"),
    (owners.size_of_a_scaled_owner_not_read, 267, r"is to be bound when \d+ of \d+ members"),
    (owners.pods_that_come_later_not_planned_with_the_first, 62, "of which some come later, find no room"),
    (owners.pods_asked_for_before_they_are_planned, 59, "is to be taken up, and has no plan"),
    (owners.podgroups_never_taken_up, 59, "is not taken up, and there is room for its pods"),
    (jobs.pods_before_a_job_give_it_no_time, 846, "is started over .* yet in its queue"),
    (jobs.starts_that_broke_off_are_left_to_whoever_started_the_job_again, 398000170, "is bound in part"),
    (jobs.jobs_that_wait_for_the_pods_of_others_are_not_looked_at_again, 2150, "could have been planned for"),
    (jobs.names_of_pods_do_not_matter, 480000068, "is to be started while .* of its last start are there"),
    (jobs.room_of_a_pod_that_has_ended_is_not_kept_for_the_next_one, 472004316, "where the room is being bound"),
    (jobs.nobody_looks_again_before_a_start_that_had_to_wait, 85514, "lets in no order of"),
    (
        jobs.starts_that_were_not_sent_and_lost_their_nodes_are_not_looked_at,
        399001100,
        "could have been planned for",
    ),
    (jobs.every_plan_is_given_up_while_kube_scheduler_stands_still, 626, "and kube-scheduler has tried nobody"),
    (jobs.held_members_do_not_wait_for_kube_schedulers_queue, 1286, "is started over .* yet in its queue"),
    (jobs.writes_to_a_job_at_once, 60, "is sent while an earlier write to the job is under way"),
    (preemption.victims_told_before_it_is_written_down, 56, "is evicted before it is written down"),
    (preemption.a_write_that_was_refused_is_given_up_for_good, 11116, "a restart would have the consequence Reserve"),
    (preemption.one_pod_of_a_gang_is_spared, 70, "of the same gang are not"),
    (preemption.surplus_of_one_too_many, 336, "is evicted as a surplus, and .* has . without it"),
    (preemption.nobody_is_too_young, 266, "is to give way to .* after"),
    (preemption.budgets_not_read, 182, "and budget .* lets . of them go"),
    (preemption.nobody_says_how_long_he_runs, 756, "is to give way to .* after"),
    (preemption.checkpoints_ignored, 2660, "is to give way to .* and loses .* device-hours, and .*"),
    (preemption.checkpoints_to_come_ignored, 6776, "is to give way to .* and loses .* device-hours, and .*"),
    (preemption.unread_checkpoints_protect, 3052, "waits, and .* could give way to it"),
    (preemption.evictions_not_counted, 4704, "and has done so . times in an hour"),
    (preemption.saturated_queues_evict, 9254, "would use as much of its own as"),
    (preemption.equals_are_evicted, 56, r"its priority \d+ is no lower than"),
    (preemption.rules_of_queues_are_ignored, 5236, "withinClusterQueue is|reclaimWithinCohort of|not in the cohort of"),
    (preemption.victims_that_have_gone_are_not_noticed, 672, "and it is not planned"),
    (preemption.one_victim_too_few, 224, "has no room for it even then"),
    (preemption.what_a_victim_has_is_counted_twice, 70, "has no room for it even then"),
    (preemption.nobody_is_too_young_for_a_pod, 8988, "is to give way to .*/pod .* after"),
    (preemption.one_gang_too_few_for_a_pod, 7000, "/pod .* has no room for it even then"),
    (preemption.room_of_a_pod_kept_from_itself, 4704, "were evicted for .*/pod .*, and it is not planned"),
    (preemption.promised_members_keep_no_pod_away, 830001984, "were evicted for .*/pod .*, and it is not planned"),
    (queues.quota_not_given_back, 109, "waits, and there is room for"),
    (queues.quota_that_is_given_back_is_not_noticed, 864, _IDLE),
    (queues.refusal_of_one_queue_holds_for_all, 864, _IDLE),
    (queues.flavors_of_what_is_bound_not_read, 92000484, "and the others of its gang have flavor"),
    (queues.more_members_of_a_broken_start_get_any_flavor, 1524, "and the others of its gang have flavor"),
    (queues.usage_forgotten_at_a_restart, 406, r"is to be bound, and .* would use \d+ GPUs of"),
    (queues.jobs_that_others_have_started_use_no_quota, 268, r"is to be (started|bound), and .* would use \d+ GPUs of"),
    (queues.borrowing_limit_ignored, 23, r"is to be bound, and team\d would use \d+ GPUs of"),
    (queues.capability_of_a_volcano_queue_ignored, 37, r"is to be bound, and volcano/team\d would use \d+ GPUs of"),
    (
        queues.guarantee_of_a_volcano_queue_ignored,
        517,
        r"is to be bound, and cohort volcano/root would use \d+ GPUs of",
    ),
    (queues.lending_limit_ignored, 203, r"is to be bound, and cohort all would use \d+ GPUs of"),
    (queues.past_usage_forgotten_at_a_restart, 113, "has used .*, of which .* GPUs must be left"),
    (queues.past_usage_forgotten_with_its_cluster_queue, 4018, "has used .*, after .*, of which .* must be left"),
    (queues.past_usage_only_fades, 44, "has used .*, of which .* GPUs must be left"),
    (pending.room_that_comes_free_wakes_nothing, 3, "could have been planned for"),
    (pending.quota_that_is_given_back_wakes_nothing, 794, "waits for .*, and has quota and room for"),
    (pending.changes_of_a_parked_workload_do_not_wake_it, 13, "wait, and after a restart"),
    (pending.turns_of_a_namespace_are_not_renewed, 194, "waits for quota as one that is put off by"),
    (pending.what_all_workloads_depend_on_wakes_none, 194, "waits for quota as one that is put off by"),
    (statements.nodes_that_were_tried_stay, 56, "is promised .*, where the room is"),
    (statements.quota_that_was_tried_stays, 37, r"is to be (bound|started), and .* would use \d+ GPUs of"),
    (statements.inner_blocks_are_not_dropped, 3052, "waits, and .* could give way to it"),
    (elastic.jobs_that_await_nodes_use_no_quota, 208, r"is to be (bound|let go), and .* would use \d+ GPUs of"),
    (elastic.quota_is_not_reserved, 838, r"is to be (bound|let go), and .* would use \d+ GPUs of"),
    (elastic.nodes_are_awaited_for_ever, 314, "awaits nodes, and that it did so until .* only"),
    (elastic.nodes_are_awaited_too_short, 74, "is to be suspended at .*, and awaits its nodes until"),
    (elastic.restart_forgets_that_nodes_are_awaited, 118, "awaits nodes, and that it did so until .* only"),
    (elastic.denied_nodes_are_awaited, 1634, "asks for nodes, and was told that there are none"),
    (elastic.quota_of_those_who_ask_is_free, 5518, r"is to be (bound|started|let go), and .* would use \d+ GPUs of"),
    (elastic.restart_forgets_who_rests, 238, "is to be let go at .*, and rests until"),
    (elastic.restart_forgets_who_rests, 1634, "asks for nodes at .*, and rests until"),
    (elastic.jobs_that_await_nodes_start_in_part, 208, "is to be started with a plan for other pods"),
    (elastic.no_labels_for_those_who_make_nodes, 74, "no autoscaler would make nodes of made"),
    (elastic.jobs_that_await_nodes_get_no_time_for_it, 74, "is told to wait 0.0 s"),
    (elastic.plan_is_not_written_once_there_are_nodes, 208, "awaits nodes, and there have been some"),
    (elastic.nodes_stay_for_ever, 208, "are to stay, and nobody is awaited there"),
    (elastic.what_a_flavor_tolerates_is_not_written, 914, "no autoscaler would make nodes of made"),
    (elastic.taints_of_flavors_are_not_read, 928, "no autoscaler would make nodes of made"),
    (
        elastic.others_give_way_to_those_who_await_nodes,
        12838,
        "are to give way to .*, which is let go and awaits nodes",
    ),
    (
        elastic.who_is_before_it_in_a_strict_queue_keeps_a_job_from_its_nodes,
        372009568,
        "awaits nodes, and there have been some",
    ),
    (elastic.no_node_is_kept, 40198, "is taken away, and pods of a job are awaited there"),
    (jobs.pods_unlike_their_template_are_planned_by_it_again, 68, _UNLIKE),
    (jobs.what_pods_ask_for_is_learnt_of_their_requests_alone, 278, _UNLIKE),
    (jobs.dry_runs_that_tell_what_pods_ask_for_are_not_heard, 1088, _UNLIKE),
    (jobs.refused_dry_runs_are_not_heeded, 10298, "although the API server has refused its pods"),
    (jobs.jobs_evict_again_although_their_pods_did_not_come, 2996, "whose pods were not created"),
    (jobs.adopted_starts_hold_nobody_back, 920_100_060, "PENDING, SharedSpread; after a restart: PENDING, NoRoom"),
    (
        queues.changed_queues_are_not_noticed,
        83,
        "and its queue .* does not exist|wait, and after a restart|, and after a restart QueueMissing",
    ),
    (queues.places_in_the_line_stay_whatever_changes, 3, "the order of .* is remembered as"),
    (platforms.names_that_come_late_are_not_seen, 100024, f"{_SHORT_OF_NODES}|a restart would have the consequence"),
    (platforms.zero_counts_as_absent, 100009, "where nvidia.com/gpu is short|is promised .*, where the room is"),
    (platforms.thousandths_are_read_as_cores, 100052, f"{_SHORT_OF_NODES}|is promised .*, where the room is"),
    (platforms.requests_of_daemons_are_forgotten, 100052, "is promised .*, where the room is"),
    (domains.labels_of_domains_unheard, 1000019, "is led to .*, which is prepared for"),
    (domains.two_channels_to_a_node, 1000019, "is promised .*, where the room is"),
    (statuses.releases_are_not_recorded, 1, "no act has led its status from HOLDING to RELEASING"),
    (statuses.lost_members_are_not_recorded, 7, "its status is recorded as RUNNING, and is PARTIAL"),
    (platforms.pods_that_are_not_ready_count_as_ended, 100072, "is promised .*, where the room is"),
    (drifting.room_of_a_pod_that_was_deleted_stays_taken, 11, "the self-check finds drift: pod "),
    (drifting.quota_of_every_fifth_pod_is_counted_twice, 46, "the self-check finds drift: ClusterQueue "),
    (drifting.every_seventh_workload_is_parked_for_no_cause, 4, "the self-check finds drift: .* no cause wakes it"),
    (backfill.ends_of_backfilled_workloads_ignored, 3000004, "was to start by|may go to .*, where .* is kept"),
    (backfill.reservations_outlive_their_owners, 3000012, "waits no more, and has"),
    (backfill.reservations_for_members_beyond_the_minimum, 3000109, "waits no more, and has"),
    (backfill.reservations_forgotten_at_a_restart, 3000004, "has Reservation.*, and is to have"),
    (backfill.room_that_comes_free_is_not_kept, 3000004, "may go to .*, where .* is kept|was to start by"),
    (backfill.workloads_are_ended_as_soon_as_they_overrun, 3000031, "is ended because it overruns after"),
    (backfill.forecasts_stay_when_something_has_changed, 3000000, "the forecast of .* was not renewed"),
    (backfill.forecasts_stay_when_an_end_has_not_come, 3000025, "the forecast of .* was not renewed"),
    (storage.volumes_are_not_counted, 2000001, "claims of .* are promised"),
    (storage.nodes_that_kube_scheduler_has_chosen_ignored, 2000005, _HELD_ELSEWHERE),
    (storage.capacities_unheard, 2000004, _VOLUMES_MADE),
    (storage.each_volume_may_use_the_whole_capacity, 2000004, _VOLUMES_MADE),
    (storage.volumes_that_come_free_wake_nobody, 2000021, "waits?, and (there is room for|after a restart)"),
]
"""The bug, the seed that is remembered to find it, and the complaint."""
DRIFTS = (
    drifting.room_of_a_pod_that_was_deleted_stays_taken,
    drifting.quota_of_every_fifth_pod_is_counted_twice,
    drifting.every_seventh_workload_is_parked_for_no_cause,
    jobs.adopted_starts_hold_nobody_back,
)
"""The self-check alone finds them."""
INSIDE = (
    pending.turns_of_a_namespace_are_not_renewed,
    pending.what_all_workloads_depend_on_wakes_none,
    statuses.releases_are_not_recorded,
    statuses.lost_members_are_not_recorded,
)
"""Little or nothing that Muster asks for tells of these: the core is looked into after every event."""


def test_plants_patch_what_is_there() -> None:
    """A plant that patches a name that is gone raises AttributeError: this takes no seed."""
    for plant, _, _ in FOUND:
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)


@pytest.mark.parametrize(("plant", "remembered", "complaint"), FOUND, ids=[case[0].__name__ for case in FOUND])
def test_a_planted_bug_is_found(plant: Plant, remembered: int, complaint: str) -> None:
    others: list[str] = []
    for seed in range(remembered, remembered + TRIES + 1):
        if (text := _complaint(plant, seed)) is None:
            continue
        others.append(text)
        if re.search(complaint, text):
            _passes(seed)
            if seed != remembered:
                warnings.warn(f"remember seed {seed} for {plant.__name__}, and not {remembered}", stacklevel=1)
            return
    pytest.fail(
        f"{plant.__name__} is found by none of {TRIES + 1} seeds from {remembered} on; other complaints: {others}"
    )


@cache
def _passes(seed: int) -> None:
    """Muster as it is keeps every promise there. The campaign plays its own seeds, and looks into the core as often."""
    if seed > SEEDS:
        play(seed, every=8)


def _complaint(plant: Plant, seed: int) -> str | None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        if plant not in DRIFTS:
            # The self-check would find many of them first, and the other judges have to find them without it.
            patch.setattr(SelfChecks, "look", lambda _: [])
        try:
            play(seed, every=int(plant in INSIDE))
        except SeedError as error:
            return str(error).splitlines()[0]
    return None
