"""Reads the facts. Objects that may not be read are noted as skipped; nothing is written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from pydantic import ValidationError

from extender.cli.doctor.facts import Facts, Kueue, Tree, member_from, owner_from, pod_spec
from extender.cli.doctor.finding import Finding, Severity, error, skipped
from extender.cli.doctor.leftovers import look
from extender.cli.doctor.rights import EXTENDER, SCHEDULER, Right, needed
from extender.config.aliases import rename_settings
from extender.config.mistakes import mistakes
from extender.config.reading import NOT_YAML, UnreadableYamlError, parse_yaml, read_yaml
from extender.config.settings import Settings, SettingsError, load
from extender.kube.api.connection import ApiError
from extender.kube.client import Kube
from extender.kube.convert import node_from, readable
from extender.kube.devices.objects import ComputeDomainObject, DeviceClassObject, ResourceClaimObject, SliceObject
from extender.kube.devices.reading import claim_from, class_from, domain_from, slice_from
from extender.kube.discovery import served
from extender.kube.queues.following import kueue_runs
from extender.kube.reading.objects import GroupObject, NodeObject, OwnerObject, PodObject
from extender.kube.resources import COMPUTE_DOMAINS, DEVICE_CLAIMS, DEVICE_CLASSES, GROUPS, NODES, PODS, SLICES

_MUTATION = ("/apis/admissionregistration.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1beta1")
"""The versions in which mutating policies may be served: that of 1.36 and newer, and the beta of 1.34 and 1.35."""
_VALIDATION = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_KUEUE_WEBHOOKS, _KUEUE_CONFIG = "kueue-validating-webhook-configuration", "kueue-manager-config"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_OWNERS = (
    ("Job", "/apis/batch/v1/jobs"),
    ("StatefulSet", "/apis/apps/v1/statefulsets"),
    ("Deployment", "/apis/apps/v1/deployments"),
)
_VOLCANO_JOBS = "/apis/batch.volcano.sh/v1alpha1/jobs"
_VOLCANO_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
_AT_ONCE = 8
_LABEL = "app.kubernetes.io/name=muster"

ObjectT = TypeVar("ObjectT")
ValueT = TypeVar("ValueT")


class DoctorError(Exception):
    """Nothing can be read at all; the message says why."""


def read_files(config: Path | None, scheduler_config: Path | None) -> Facts:
    """Read Muster's settings and kube-scheduler's configuration. Raises DoctorError if a file cannot be used."""
    try:
        facts = Facts(load(config))
    except SettingsError as problem:
        raise DoctorError(str(problem)) from None
    if scheduler_config is not None:
        facts.scheduler, facts.scheduler_source = _file(scheduler_config), str(scheduler_config)
    return facts


async def gather(kube: Kube, namespace: str, facts: Facts, *, settings_given: bool) -> None:
    """Add the facts of the cluster. Raises DoctorError if the cluster does not answer.

    ``namespace``: that of Muster's Deployment. Files take precedence over the ConfigMaps that the Deployment mounts.
    """
    try:
        version = json.loads(await kube.call("GET", "/version"))
        facts.version, facts.now = version.get("gitVersion"), await kube.clock()
    except ApiError as problem:
        raise DoctorError(f"the API server does not answer: {problem}") from None
    reading = _Reading(kube, namespace, facts)
    await reading.installed()
    await reading.mounted(settings=not settings_given, scheduler=facts.scheduler is None)
    if facts.scheduler is None:
        facts.skipped.append(no_configuration(namespace, facts))
    await asyncio.gather(
        reading.objects(),
        reading.devices(),
        reading.owners(),
        reading.admission(),
        reading.kueue(),
        reading.lease(),
        reading.rights(),
        reading.kinds(),
        reading.volcano(),
    )


class _Reading:
    """Reads the facts of one cluster, once."""

    def __init__(self, kube: Kube, namespace: str, facts: Facts) -> None:
        self._kube = kube
        self._namespace = namespace
        self._facts = facts
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def installed(self) -> None:
        """Read the Deployment, found by its label."""
        path = f"/apis/apps/v1/namespaces/{self._namespace}/deployments?labelSelector={_LABEL}"
        deployments = await self._read("Muster's Deployment", path)
        items = (deployments or {}).get("items") or []
        self._facts.deployment = items[0] if items else None

    async def mounted(self, *, settings: bool, scheduler: bool) -> None:
        """Read Muster's settings and kube-scheduler's configuration from the ConfigMaps that the Deployment mounts."""
        if not settings and not scheduler:
            return
        for volume in pod_spec(self._facts.deployment).get("volumes") or []:
            name = (volume.get("configMap") or {}).get("name")
            if not name:
                continue
            path = f"/api/v1/namespaces/{self._namespace}/configmaps/{name}"
            content = await self._read(f"ConfigMap {name}", path)
            for key, text in ((content or {}).get("data") or {}).items():
                self._adopt(f"ConfigMap {name}, {key}", text, settings, scheduler)

    def _adopt(self, source: str, text: str, settings: bool, scheduler: bool) -> None:
        facts, why = self._facts, ""
        try:
            tree = parse_yaml(text) or {}
        except NOT_YAML as problem:
            tree, why = None, f": {' '.join(str(problem).split())}"
        if not isinstance(tree, dict):
            facts.skipped.append(error("BadConfigMap", source, f"it is not a YAML mapping{why}", "correct it"))
        elif "kind" in tree or "extenders" in tree:
            if scheduler:
                facts.scheduler, facts.scheduler_source = tree, source
        elif settings:
            wrong = rename_settings(tree)
            try:
                facts.settings = Settings.model_validate(tree)
            except ValidationError as problem:
                wrong += mistakes(problem, Settings).splitlines()
            if wrong:
                complaints = "; ".join(wrong)
                facts.skipped.append(error("BadSettings", source, f"Muster does not start: {complaints}", "correct it"))

    async def objects(self) -> None:
        """Read pods, nodes and PodGroups."""
        facts = self._facts
        nodes, pods, groups = await asyncio.gather(
            self._or_skipped("nodes", lambda: self._list(NODES.path, NodeObject)),
            self._or_skipped("pods", lambda: self._list(PODS.path, PodObject)),
            self._or_skipped("PodGroups", lambda: self._list(GROUPS.path, GroupObject), missing=False),
        )
        facts.nodes = None if nodes is None else readable(node_from, nodes)
        facts.members = None if pods is None else readable(member_from, pods)
        facts.groups_exist = groups is not False
        if isinstance(groups, list):
            metas = [(group.metadata, group) for group in groups]
            facts.groups = {f"{meta.namespace}/{meta.name}": group for meta, group in metas if meta is not None}

    async def devices(self) -> None:
        """Read devices, claims and ComputeDomains, of the kinds that exist."""
        facts = self._facts
        classes, slices, claims, domains = await asyncio.gather(
            self._or_skipped("DeviceClasses", lambda: self._list(DEVICE_CLASSES.path, DeviceClassObject), missing=()),
            self._or_skipped("ResourceSlices", lambda: self._list(SLICES.path, SliceObject), missing=()),
            self._or_skipped("ResourceClaims", lambda: self._list(DEVICE_CLAIMS.path, ResourceClaimObject), missing=()),
            self._or_skipped(
                "ComputeDomains", lambda: self._list(COMPUTE_DOMAINS.path, ComputeDomainObject), missing=False
            ),
        )
        for class_seen in readable(class_from, classes or ()):
            facts.devices.note(class_seen)
        if slices is not None:
            facts.drivers = frozenset(slice_.pool.driver for slice_ in readable(slice_from, slices))
        facts.claims = readable(claim_from, claims or ())
        metas = [claim.metadata for claim in claims or ()]
        facts.claim_versions = {meta.uid: meta.resource_version or "" for meta in metas if meta and meta.uid}
        facts.domains = readable(domain_from, domains) if isinstance(domains, list) else None

    async def owners(self) -> None:
        """Read Jobs, StatefulSets and Deployments: their pod templates show what their next pods will look like."""
        by_kind = await asyncio.gather(
            *(self._or_skipped(f"{kind}s", partial(self._list, path, OwnerObject)) for kind, path in _OWNERS)
        )
        self._facts.owners = [
            owner_from(kind, obj) for (kind, _), objects in zip(_OWNERS, by_kind, strict=True) for obj in objects or ()
        ]

    async def admission(self) -> None:
        """Read the API server's policies that change pods, and their bindings."""
        facts = self._facts
        for group in _MUTATION:
            policies = await self._read("mutating admission policies", f"{group}/mutatingadmissionpolicies", missing={})
            bound = await self._read("their bindings", f"{group}/mutatingadmissionpolicybindings", missing={})
            facts.policies = None if policies is None else _by_name(policies)
            facts.policy_bindings = None if bound is None else _by_name(bound)
            if policies != {}:
                return

    async def kueue(self) -> None:
        """Read Kueue's controller, found by its webhooks. Its ConfigMap, if readable, names the kinds that it
        manages."""
        self._facts.kueue_runs = bool(await self._or_skipped("Kueue's Lease", lambda: kueue_runs(self._kube)))
        if not self._facts.kueue_runs:
            self._facts.leftovers = await look(self._read)
        webhooks = await self._read("validating webhooks", _WEBHOOKS, missing={})
        for name, webhook in _by_name(webhooks or {}).items():
            services = [(hook.get("clientConfig") or {}).get("service") or {} for hook in webhook.get("webhooks") or []]
            if name == _KUEUE_WEBHOOKS and services:
                namespace = services[0].get("namespace")
                path = f"/api/v1/namespaces/{namespace}/configmaps/{_KUEUE_CONFIG}"
                try:
                    config = json.loads(await self._kube.call("GET", path))
                except ApiError:
                    config = {}
                self._facts.kueue = Kueue(
                    f"ConfigMap {namespace}/{_KUEUE_CONFIG}", _frameworks(config.get("data") or {})
                )

    async def kinds(self) -> None:
        """Read the kinds that exist, and the policies that limit Muster's writes."""
        facts = self._facts
        facts.served = await self._or_skipped("kinds that are served", lambda: served(self._kube))
        policies = await self._read("validating admission policies", _VALIDATION, missing={})
        facts.guards = None if policies is None else _by_name(policies)

    async def volcano(self) -> None:
        """Read Volcano Jobs without pods, whose PodGroup waits without a condition from any scheduler."""
        jobs, groups = await asyncio.gather(
            self._read("Volcano Jobs", _VOLCANO_JOBS, missing={}),
            self._read("PodGroups of Volcano", _VOLCANO_GROUPS, missing={}),
        )
        silent = {
            owner["uid"]: group["metadata"].get("creationTimestamp")
            for group in (groups or {}).get("items") or []
            if (group.get("status") or {}).get("phase") in (None, "", "Pending")
            and not (group.get("status") or {}).get("conditions")
            for owner in group["metadata"].get("ownerReferences") or []
        }
        for job in (jobs or {}).get("items") or []:
            meta, born = job["metadata"], silent.get(job["metadata"]["uid"])
            if born is not None and self._facts.is_old(datetime.fromisoformat(born)):
                name = (job.get("spec") or {}).get("schedulerName") or "volcano"
                self._facts.untaken[f"Job {meta['namespace']}/{meta['name']}"] = name

    async def lease(self) -> None:
        """Read the Lease that kube-scheduler's configuration names."""
        facts = self._facts
        election: Tree = (facts.scheduler or {}).get("leaderElection") or {}
        if facts.scheduler is None or election.get("leaderElect", True) is False:
            return
        namespace, name = election.get("resourceNamespace", "kube-system"), election.get("resourceName")
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name or 'kube-scheduler'}"
        facts.lease = await self._read(f"Lease {namespace}/{name}", path, missing={})

    async def rights(self) -> None:
        """Ask the API server for the rights of the two ServiceAccounts."""
        facts = self._facts
        for account in (EXTENDER, SCHEDULER):
            path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}"
            account_found = await self._read(f"ServiceAccount {account}", path, missing={})
            if account_found is not None:
                facts.service_accounts[account] = bool(account_found)
        election = None if facts.scheduler is None else dict(facts.scheduler.get("leaderElection") or {})
        wanted = list(needed(facts.settings, election, self._namespace, claims=True))

        async def ask() -> dict[Right, bool]:
            granted = await asyncio.gather(*(self._may(right) for right in wanted))
            return dict(zip(wanted, granted, strict=True))

        facts.rights = await self._or_skipped("rights of the ServiceAccounts", ask)

    async def _may(self, right: Right) -> bool:
        user = f"system:serviceaccount:{self._namespace}:{right.account}"
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{self._namespace}", "system:authenticated"]
        spec = {"user": user, "groups": groups, "resourceAttributes": right.attributes()}
        async with self._room:
            review = await self._kube.call("POST", _REVIEWS, body={"spec": spec})
        return bool(json.loads(review)["status"].get("allowed"))

    async def _read(self, subject: str, path: str, missing: Any = None) -> Any:
        async def get() -> Any:
            async with self._room:
                return json.loads(await self._kube.call("GET", path))

        return await self._or_skipped(subject, get, missing)

    async def _list(self, path: str, kind: type[ObjectT]) -> list[ObjectT]:
        decoder = msgspec.json.Decoder(kind)
        return [decoder.decode(item) async for page in self._kube.list_pages(path) for item in page.items]

    async def _or_skipped(
        self, subject: str, read: Callable[[], Awaitable[ValueT]], missing: Any = None
    ) -> ValueT | Any:
        """The result of ``read``; ``missing`` if the object does not exist; None, with a skipped finding, if
        unreadable."""
        try:
            return await read()
        except ApiError as problem:
            if problem.status == 404:
                return missing
            problem_text, fix = problem.brief, "run it with an account that may read this"
        except (msgspec.MsgspecError, ValueError) as problem:
            problem_text, fix = f"the answer cannot be read: {problem}", "report this"
        self._facts.skipped.append(skipped(subject, problem_text[:300], fix))
        return None


def no_configuration(namespace: str, facts: Facts) -> Finding:
    """Explain why kube-scheduler's configuration is not known."""
    subject, fix = "kube-scheduler's configuration", "pass --kube-scheduler-config FILE"
    if facts.deployment is not None:
        return skipped(subject, "none of the ConfigMaps that Muster's Deployment mounts contains it", fix)
    what = f"no Muster Deployment found in namespace {namespace} (label {_LABEL})"
    return Finding(Severity.SKIPPED, "NoDeployment", subject, what, f"{fix}, or the right --muster-namespace")


def _frameworks(data: Tree) -> tuple[str, ...] | None:
    """``integrations.frameworks`` of Kueue's configuration; by default it manages batch Jobs."""
    for text in data.values():
        try:
            tree = parse_yaml(text)
        except NOT_YAML:
            continue
        if isinstance(tree, dict) and str(tree.get("apiVersion")).startswith("config.kueue.x-k8s.io/"):
            integrations = tree.get("integrations")
            integration = integrations.get("frameworks") if isinstance(integrations, dict) else None
            return tuple(map(str, integration)) if isinstance(integration, list) else ("batch/job",)
    return None


def _by_name(listed: Tree) -> dict[str, Tree]:
    return {obj["metadata"]["name"]: obj for obj in listed.get("items") or []}


def _file(path: Path) -> Tree:
    try:
        tree = read_yaml(path)
    except UnreadableYamlError as problem:
        raise DoctorError(str(problem)) from None
    if not isinstance(tree, dict):
        raise DoctorError(f"{path}: expected a KubeSchedulerConfiguration, found no mapping")
    return tree
