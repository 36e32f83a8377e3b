"""Settings: what can be configured, with defaults and limits. A YAML file, then MUSTER_* variables, then flags."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import replace
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import Field, PositiveInt, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError as NotJsonError

from extender.config import catalogue
from extender.config.aliases import rename_settings
from extender.config.job_kinds import JobKinds
from extender.config.mistakes import PREFIX, mistakes, unread
from extender.config.reading import UnreadableYamlError, read_mapping
from extender.config.tls_files import TlsFiles, unguarded
from extender.config.values import NAME, NO_FLAVORS, AdmissionFairSharing, Elastic, File, HostName, Text
from extender.core.engine import Engine
from extender.core.gate.advisory import Mode
from extender.core.gate.steering import SteeringMode
from extender.core.limits import Limits, Preempts, Reserving
from extender.runtime.election import LeaderElection
from policies.chosen import Policies
from policies.model.levels import LevelKey, levels_from

SettingsT = TypeVar("SettingsT", bound=BaseSettings)
_METHODS = {"queue_policy": "order", "topology_policy": "domains", "score_policies": "score"}
"""The method that the policy named by each of these settings must have."""


class SettingsError(ValueError):
    """The settings cannot be used; the message says which and why, one line each."""


class FromFile(BaseSettings):
    """Settings of a process: what ``load_as`` reads from the file, and variables over it."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # ``load_as`` passes the file's values as init arguments, and the environment overrides the file.
        return (env_settings, init_settings)


class Settings(FromFile):
    """Everything about one running extender."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, allow_inf_nan=False)

    scheduler_names: tuple[Text, ...] = Field(
        ("muster",), min_length=1, description="Profiles of the kube-scheduler that calls this extender."
    )
    mode: Mode = Field(
        Mode.ENFORCE,
        description="enforce: gangs start all or none. advise: kube-scheduler decides alone; Muster scores nodes, "
        "explains, and counts what it would have rejected or held.",
    )
    listen_host: str = Field(
        "127.0.0.1",
        description="Address to listen on. Beyond loopback mutual TLS is required.",
    )
    listen_port: int = Field(10290, ge=0, le=65535, description="Port to listen on.")
    allowed_hosts: tuple[HostName, ...] = Field(
        (),
        description="Host names that plain HTTP is answered under, besides localhost, listen_host and addresses.",
    )
    metrics_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Serve /metrics alone on this port of all addresses, with the certificates below if there are "
        "any. 0: off.",
    )
    tls_cert_file: File = Field(
        None, description="Serve HTTPS with this certificate (PEM, with its chain). Read again when it changes."
    )
    tls_key_file: File = Field(None, description="The key of that certificate (PEM, not encrypted).")
    tls_client_ca_file: File = Field(
        None, description="Answer only callers that show a certificate signed by one of these authorities (PEM)."
    )
    tls_client_names: tuple[str, ...] = Field(
        (),
        description="Accept only certificates with one of these names (common name, DNS name or URI). Empty: any "
        "name. Needed if the authority signs for others, too.",
    )
    dashboard_url: str = Field(
        "",
        pattern=r"^(https?://[^\s/?#]+/?)?$",
        description="The dashboard that the extender keeps up to date (docs/dashboard.md).",
    )
    dashboard_token_file: File = Field(
        None, description="The token that proves to the dashboard who this is. Read again at each connection."
    )
    dashboard_ca_file: File = Field(None, description="The authority of the dashboard's certificate.")
    kubeconfig: File = Field(None, description="Credentials. Default: as kubectl finds them, else those of the pod.")
    bind_timeout_s: float = Field(
        600.0, ge=5, le=3600, description="The httpTimeout of the extender entry with bindVerb: no bind waits longer."
    )
    hold_timeout_s: float = Field(
        30.0,
        ge=5,
        description="How long the first held bind of a gang waits for the others. The time begins again with each "
        "new pod of a job, each round, and each pod before the gang in kube-scheduler's queue "
        "(docs/steering.md).",
    )
    bind_margin_s: float = Field(2.0, ge=0.1, description="Time set aside before that for posting a gang's Bindings.")
    plan_timeout_s: float = Field(
        20.0,
        ge=1,
        description="How long kube-scheduler may take to try the pods of a plan. The time begins again with each "
        "pod before them in its queue. While it tries no pod at all, one plan in that time is revoked.",
    )
    partial_grace_s: float = Field(
        60.0, ge=1, description="How long a broken release keeps room for replacements of lost members."
    )
    evict_partial: bool = Field(
        default=True, description="Evict the bound members after that time if the gang never became whole."
    )
    replacement_grace_s: float = Field(
        60.0,
        ge=0,
        description="How long a running gang of pods keeps the room of a lost member after that pod ended. A job "
        "keeps the nodes of its pods while it runs.",
    )
    incomplete_grace_s: float = Field(
        900.0,
        ge=10,
        description="A job that has run with too few pods for this time is suspended and planned again. Keep it "
        "above the Job controller's longest pause between failures, 600 s.",
    )
    evict_incomplete: bool = Field(
        default=False,
        description="Evict the members of a gang of pods after that time, too; not of a StatefulSet, Deployment or "
        "LeaderWorkerSet. `muster.dev/evict-incomplete` on the pods goes before this.",
    )
    node_loss_s: float = Field(
        60.0,
        ge=1,
        description="How long a node may be not ready before jobs with pods on it are suspended and planned without "
        "it. A deleted node counts at once. Keep it below the 300 s after which Kubernetes evicts those "
        "pods: a job with backoffLimit 0 then fails.",
    )
    steering: SteeringMode = Field(
        SteeringMode.AUTO,
        description="How kube-scheduler puts pods on planned nodes (docs/steering.md). auto: by the filter alone in "
        "clusters of up to 500 nodes, else by nominations. A pin saves a write for each pod, and cannot "
        "be undone.",
    )
    topology_levels: tuple[str, ...] = Field(
        (),
        description="Topology levels, nearest first: presets (nvidia, topograph, topograph-0.5, aws, gke, oci, "
        "coreweave, zone), label keys, or NAME=KEY (docs/topology.md). Empty: those of the presets that "
        "nodes have.",
    )
    compute_domains_require_clique: bool = Field(
        default=False,
        description="Pods of a ComputeDomain without a topology of their own require one clique. Else they prefer it.",
    )
    queue_policy: str = Field(
        "priority-then-age",
        description="Which waiting gang is served first. proportion and drf order queues, too (docs/shares.md).",
    )
    default_queue: str = Field(
        "",
        max_length=253,
        pattern=f"{NAME}|^$",
        description="The LocalQueue of workloads that name none, if their namespace has it.",
    )
    name_other_namespaces: bool = Field(
        default=False,
        description="Events and statuses in a namespace name workloads of other namespaces. Else these are counted.",
    )
    require_queue: bool = Field(default=False, description="A workload without a queue waits.")
    workload_objects: bool = Field(default=True, description="Keep a Workload object (kueue.x-k8s.io) for each job.")
    fair_sharing: bool = Field(
        default=False,
        description="The queue with the least dominant resource share over its weight is served first.",
    )
    admission_fair_sharing: AdmissionFairSharing = Field(
        AdmissionFairSharing(), description="Between LocalQueues, by what they have used. docs/shares.md."
    )
    elastic: Elastic = Field(NO_FLAVORS, description="Flavors for whose nodes Muster asks. docs/elastic.md.")
    preemption: Preempts = Field(
        Preempts.OFF, description="Whether workloads are evicted for others (docs/preemption.md)."
    )
    preemption_timeout_s: float = Field(
        300.0, ge=10, description="How long victims may take to go before the preemption ends."
    )
    preemption_min_runtime_s: float = Field(0.0, ge=0, description="No workload is evicted that has run for less.")
    preemption_min_runtime_limit_s: float = Field(
        86_400.0, ge=0, description="The most that `muster.dev/min-runtime` of a workload may say in place of that."
    )
    preemption_evictions_per_hour: int = Field(
        4, ge=0, description="How often a workload may be evicted in an hour. 0: no limit."
    )
    preemption_saturation: float = Field(
        0.0,
        ge=0,
        le=1000,
        description="A queue beyond its quota reclaims from another one only while its use divided by its quota, times "
        "this, is below the other's. 0: no such rule; KAI's default is 1.",
    )
    pods_preempt_gangs: bool = Field(
        default=True, description="Gangs are evicted for pods without a gang (docs/preemption-steps.md)."
    )
    backfill: Reserving = Field(
        Reserving.EASY,
        description="easy: the first workloads of a queue tree that lack room get a reservation; others get that "
        "room only if they are expected to end in time. conservative: every workload that lacks room "
        "gets one. off: nothing is reserved.",
    )
    reserve_after_s: float = Field(
        21_600.0,
        ge=0,
        le=10 * 365 * 86_400,
        description="How long a workload waits until it gets a reservation.",
    )
    reservations: int = Field(
        1, ge=1, description="How many workloads of a queue tree have a reservation at a time, with `backfill: easy`."
    )
    drain_share: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Share of all GPUs that may be drained for reservations where no end of running workloads is "
        "known. One workload of a queue tree is drained for at a time, even if it alone needs more.",
    )
    overrun_grace_s: float = Field(
        0.0,
        ge=0,
        le=10 * 365 * 86_400,
        description="How long a workload with `muster.dev/evict-overrun` runs on after its "
        "`muster.dev/expected-duration` where room is reserved for another one. Then its job is suspended, or its pods "
        "are evicted; it waits again. 0: nothing is ended.",
    )
    forecast_s: float = Field(
        60.0,
        ge=0,
        le=86_400,
        description="How often, at most, the expected starts of waiting workloads are worked out. 0: never.",
    )
    pod_trials: bool = Field(
        default=True,
        description="Before a job is planned, ask the API server by a dry run what it makes of a pod of a new shape "
        "(docs/pod-trials.md). Needs the component pod-trials.",
    )
    topology_policy: str = Field("best-fit", description="Which domain a gang gets.")
    score_policies: dict[str, PositiveInt] = Field(
        {"affinity": 2, "packing": 1},
        description="Policies and their weights that choose among nodes with room.",
    )
    job_kinds: JobKinds = Field(
        (),
        description="Your own kinds of jobs that are planned before their pods exist (docs/own-kinds.md).",
    )
    allreduce_bandwidth_ratio: float = Field(
        18.0,
        ge=1,
        description="For the modelled slowdown in /metrics: bandwidth of a GPU inside a nearest domain over that "
        "between two (docs/placement.md).",
    )
    leader_election: LeaderElection = Field(
        LeaderElection(), description="For more than one replica: who may act. docs/high-availability.md."
    )
    writes_at_once: int = Field(
        64, ge=1, le=512, description="Most writes to the API server under way at the same time."
    )
    max_connections: int = Field(
        16_384,
        ge=64,
        description="Most connections of callers at the same time; every held bind has one. Beyond that, the one "
        "that has waited longest without a complete request is closed.",
    )
    max_body_mib: int = Field(
        4,
        ge=1,
        le=1024,
        description="Larger request bodies are refused. 4 MiB are enough for 50,000 names of nodes.",
    )
    max_candidates: int = Field(50_000, ge=1, description="Requests that name more nodes are refused.")
    max_gang_members: int = Field(10_000, ge=1, description="A larger gang is not planned.")
    max_gang_shapes: int = Field(
        16,
        ge=1,
        le=64,
        description="Most different pod templates, as far as nodes are concerned, that a gang may have.",
    )
    max_waiting_gangs: int = Field(
        20_000, ge=1, description="Most gangs of one namespace that are looked at; later ones wait for a place."
    )
    verify_every_s: float = Field(
        600.0,
        ge=0,
        description="How often the self-check runs, which restarts the core for a difference (docs/self-repair.md). "
        "0: only by `muster verify`, and nothing is restarted.",
    )
    failures_file: File = Field(
        None,
        description="Where a replica notes which objects its core has failed on, so that its next start leaves them "
        "out (docs/self-repair.md). Each replica needs its own.",
    )
    prometheus_url: str = Field(
        "",
        pattern=r"^(https?://[^\s/?#@]+(/[^\s?#@]*)?)?$",
        description="The Prometheus that knows from DCGM exporter how busy GPUs are (docs/utilisation.md).",
    )
    prometheus_token_file: File = Field(None, description="A bearer token for it. Read again at each request.")
    prometheus_ca_file: File = Field(None, description="The authority of its certificate (PEM).")
    idle_below_percent: float = Field(
        10.0,
        ge=0,
        le=100,
        description="A gang is idle if its GPUs were used less than that, in the mean over idle_after_s.",
    )
    idle_after_s: int = Field(1800, ge=60, le=86_400, description="The time of that mean, in which all members ran.")
    log_format: str = Field("text", pattern="^(text|json)$", description="json: one object to a line.")
    log_level: str = Field(
        "info", pattern="^(debug|info|warning|error)$", description="From this level on lines are written."
    )

    @field_validator(*_METHODS)
    @classmethod
    def _known(cls, value: str | dict[str, int], info: ValidationInfo) -> str | dict[str, int]:
        for name in [value] if isinstance(value, str) else value:
            catalogue.policy(name, _METHODS[info.field_name or ""])
        return value

    @field_validator("topology_levels")
    @classmethod
    def _readable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        levels_from(value)
        return value

    @model_validator(mode="after")
    def _one_order(self) -> Self:
        if self.fair_sharing and catalogue.orders_queues(self.queue_policy):
            raise ValueError(f"fair_sharing and queue_policy {self.queue_policy} both order queues: choose one")
        return self

    @model_validator(mode="after")
    def _time_to_hold(self) -> Self:
        if self.bind_margin_s >= self.bind_timeout_s:
            raise ValueError(
                f"bind_margin_s {self.bind_margin_s:g} leaves nothing of bind_timeout_s {self.bind_timeout_s:g}: no "
                "bind could wait for the others"
            )
        return self

    @model_validator(mode="after")
    def _guarded(self) -> Self:
        """Refuse listening beyond this machine without proof of the caller's identity: any caller of bind can start
        pods."""
        files = self.tls_cert_file, self.tls_key_file, self.tls_client_ca_file
        if wrong := unguarded(self.listen_host, *files, self.tls_client_names):
            raise ValueError(wrong)
        return self

    @property
    def tls(self) -> TlsFiles | None:
        """The TLS files; None for plain HTTP on loopback."""
        if self.tls_cert_file is None or self.tls_key_file is None:
            return None
        return TlsFiles(self.tls_cert_file, self.tls_key_file, self.tls_client_ca_file)

    @property
    def levels(self) -> tuple[LevelKey, ...]:
        """The levels, nearest first; empty if they are to be detected."""
        return levels_from(self.topology_levels)

    @property
    def policies(self) -> Policies:
        return catalogue.policies(self.queue_policy, self.topology_policy, self.score_policies)

    @property
    def limits(self) -> Limits:
        """The limits of the core, under the core's names."""
        return Limits(
            post_margin_s=self.bind_margin_s,
            hold_s=self.hold_timeout_s,
            plan_s=self.plan_timeout_s,
            partial_s=self.partial_grace_s,
            evict_partial=self.evict_partial,
            replacement_s=self.replacement_grace_s,
            incomplete_s=self.incomplete_grace_s,
            evict_incomplete=self.evict_incomplete,
            members=self.max_gang_members,
            shapes=self.max_gang_shapes,
            waiting=self.max_waiting_gangs,
            node_loss_s=self.node_loss_s,
            default_queue=self.default_queue,
            require_queue=self.require_queue,
            fair_sharing=self.fair_sharing,
            past_usage=self.admission_fair_sharing.sampling,
            preemption=self.preemption,
            preemption_s=self.preemption_timeout_s,
            min_runtime_s=self.preemption_min_runtime_s,
            most_min_runtime_s=self.preemption_min_runtime_limit_s,
            evictions_per_hour=self.preemption_evictions_per_hour,
            saturation=Fraction(f"{self.preemption_saturation}") if self.preemption_saturation else None,
            pods_preempt_gangs=self.pods_preempt_gangs,
            elastic=self.elastic.limits,
            names_others=self.name_other_namespaces,
            trials=self.pod_trials,
            reserve_after_s=inf if self.backfill is Reserving.OFF else self.reserve_after_s,
            reservations=inf if self.backfill is Reserving.CONSERVATIVE else self.reservations,
            drain_share=self.drain_share,
            overrun_s=self.overrun_grace_s or inf,
            forecast_s=self.forecast_s or inf,
            clique_of_domains=self.compute_domains_require_clique,
        )

    def engine(self, slice_units: int | None = None) -> Engine:
        """A core by these settings, without any state. ``slice_units``: the length of its slices."""
        limits = self.limits if slice_units is None else replace(self.limits, slice_units=slice_units)
        return Engine(self.scheduler_names, limits, self.policies, self.steering, self.levels, self.mode)


def load(path: Path | None, **flags: Any) -> Settings:
    """Read the settings; a flag that is not None wins over everything. Raises SettingsError."""
    return load_as(Settings, path, flags, rename_settings)


def load_as(
    model: type[SettingsT],
    path: Path | None,
    flags: Mapping[str, Any],
    rename: Callable[[MutableMapping[str, Any], str], Iterable[str]] = lambda *_: (),
) -> SettingsT:
    """Read the settings of any process as ``load`` does.

    ``rename`` renames old settings of a file, or variables with a prefix, and returns what is wrong with them.
    """
    prefix = model.model_config.get("env_prefix", "")
    try:
        values = read_mapping(path) if path is not None else {}
        twice = *rename(values, ""), *rename(os.environ, prefix)
        if wrong := "\n".join((*twice, *unread(os.environ, model, prefix))):
            raise SettingsError(wrong)
        settings = model(**values)
        given = {name: value for name, value in flags.items() if value is not None}
        return model.model_validate(settings.model_dump() | given) if given else settings
    except ValidationError as error:
        raise SettingsError(mistakes(error, model)) from None
    except UnreadableYamlError as error:
        raise SettingsError(str(error)) from None
    except NotJsonError as error:
        _, name, *_ = str(error).split('"')
        raise SettingsError(f"{prefix}{name.upper()}: a list or mapping has to be JSON in a variable") from None
