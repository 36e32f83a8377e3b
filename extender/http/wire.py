"""The extender v1 JSON, in and out, and nothing else.

kube-scheduler writes PascalCase keys and decodes them case-insensitively; so does Muster. A document is first read with
exact keys, which is all that kube-scheduler ever sends. Only if that fails are its keys folded. Unknown keys are
ignored, and null is a zero value, as in Go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Raw, Struct, field, inspect

from extender.core.effects import AnswerFilter
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import AnyObject, Meta, PodObject
from extender.kube.recent import pod_sent
from extender.observe.logs import printable
from policies.model import Pod


def folded(value: Any, kind: inspect.Type) -> Any:
    """The value with the keys of its structs in Muster's spelling, without unknown ones; maps keep their keys."""
    match kind:
        case inspect.UnionType(types):
            return folded(value, next(type_ for type_ in types if not isinstance(type_, inspect.NoneType)))
        case inspect.StructType() if isinstance(value, dict):
            known = _fields(kind.cls)
            fields_known = ((known.get(key.lower()), content) for key, content in value.items())
            return {
                field.encode_name: folded(content, field.type) for field, content in fields_known if field is not None
            }
        case inspect.DictType() if isinstance(value, dict):
            return {key: folded(content, kind.value_type) for key, content in value.items()}
        case inspect.ListType() if isinstance(value, list):
            return [folded(content, kind.item_type) for content in value]
        case _:
            return value


@cache
def _fields(struct: type) -> dict[str, inspect.Field]:
    """The fields by their keys in lower case. Cached, since a document has thousands of these structs."""
    kind = inspect.type_info(struct)
    assert isinstance(kind, inspect.StructType)  # noqa: S101 - it was one a moment ago
    return {field.encode_name.lower(): field for field in kind.fields}


ArgsT = TypeVar("ArgsT")
RequestT = TypeVar("RequestT")

MAX_CANDIDATES = 50_000

MOST_PARTS = 30_000
"""Most members of lists and mappings in a Pod: each can cost microseconds, and a short document can have millions."""
LONGEST_FOLDED = 8 << 10
"""Most bytes of a document whose keys are folded. Folding decodes all of it, which costs many times its size."""

LONGEST_ERROR = 1024
"""Most characters of an error text: kube-scheduler copies it into the pod's condition and into an event."""


class WireError(ValueError):
    """The document cannot be read; the text says why in one sentence."""


@dataclass(frozen=True, slots=True)
class FilterRequest:
    """The arguments of filter and prioritize. ``nodes``: the Node objects by name, if they were sent whole."""

    pod: Pod
    candidates: tuple[str, ...]
    nodes: Mapping[str, Raw] | None = None


@dataclass(frozen=True, slots=True)
class BindRequest:
    uid: str
    namespace: str
    name: str
    node: str


@dataclass(frozen=True, slots=True)
class PreemptRequest:
    """The arguments of preempt.

    ``victims``: node -> UIDs of the pods to evict there.
    ``violations``: node -> number of disruption budgets broken.
    """

    pod: Pod
    victims: Mapping[str, tuple[str, ...]]
    violations: Mapping[str, int]


def decode_filter(body: bytes, most: int = MAX_CANDIDATES) -> FilterRequest:
    """Decode the arguments of filter or prioritize, with ``nodeCacheCapable`` true or false. Raises WireError.

    ``most``: how many nodes may be named. They are counted before they are decoded.
    """
    return _decode(body, _ExtenderArgs, lambda args: _filter_request(args, most))


def decode_bind(body: bytes) -> BindRequest:
    """Decode the arguments of bind; all four are required. Raises WireError."""
    return _decode(body, _BindingArgs, _bind_request)


def decode_preempt(body: bytes, most: int = MAX_CANDIDATES) -> PreemptRequest:
    """Decode the arguments of preempt; victims as UIDs or whole pods, on up to ``most`` nodes. Raises WireError."""
    return _decode(body, _PreemptionArgs, lambda args: _preempt_request(args, most))


def encode_filter(answer: AnswerFilter, request: FilterRequest) -> bytes:
    """Encode the answer to filter.

    NodeNames is never null, and never names a node that the request did not: both break the cycle. A refusal goes where
    it starts no preemption. Sent Node objects are echoed byte for byte: without nodeCacheCapable kube-scheduler uses
    the answer as the nodes themselves.
    """
    known = set(request.candidates)
    passed = [name for name in answer.passed if name in known]
    nodes = None if request.nodes is None else {"metadata": {}, "items": [request.nodes[name] for name in passed]}
    return _filter_result(passed, nodes, refused=dict.fromkeys(answer.refused, answer.reason))


def encode_filter_error(text: str) -> bytes:
    """Encode an error of filter. The cycle fails with this text; kube-scheduler retries after its error backoff,
    without preempting."""
    return _filter_result([], None, error=text)


def encode_priorities(nodes: Sequence[str], marks: Sequence[int]) -> bytes:
    """Encode a mark of 0..10 for each of the nodes, as a bare array."""
    return msgspec.json.encode([_Priority(node, mark) for node, mark in zip(nodes, marks, strict=True)])


def encode_bind(error: str = "") -> bytes:
    """Encode the answer to bind. An empty error means that the pod is bound."""
    return msgspec.json.encode({"Error": _sendable(error)})


def encode_preempt(victims: Mapping[str, tuple[str, ...]], request: PreemptRequest | None) -> bytes:
    """Encode the answer to preempt: node -> UIDs of the pods to evict. An empty mapping is a veto.

    A node without victims is left out, because kube-scheduler takes it for an error. A null would crash kube-scheduler.
    """
    violations = request.violations if request else {}
    return msgspec.json.encode(
        {
            "NodeNameToMetaVictims": {
                node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations.get(node, 0)}
                for node, uids in victims.items()
                if uids
            }
        }
    )


class _Priority(Struct, rename="pascal", gc=False):
    """A HostPriority, one for each node: thousands of them must not start the garbage collector."""

    host: str
    score: int


class _NodeList(Struct):
    items: list[Raw] | None = None


_NULL = Raw(b"null")


class _ExtenderArgs(Struct, rename="pascal", forbid_unknown_fields=True):
    """The arguments of filter. Members are counted before they are decoded."""

    pod: Raw = _NULL
    nodes: Raw = _NULL
    node_names: Raw = _NULL


class _WholeExtenderArgs(Struct, rename="pascal"):
    pod: PodObject | None = None
    nodes: _NodeList | None = None
    node_names: list[str] | None = None


class _BindingArgs(Struct, rename="pascal", forbid_unknown_fields=True):
    pod_name: str | None = None
    pod_namespace: str | None = None
    pod_uid: str | None = field(default=None, name="PodUID")
    node: str | None = None


class _Victim(Struct):
    """A MetaPod, which has a UID, or a whole Pod, which has it in its metadata."""

    uid: str | None = field(default=None, name="UID")
    metadata: Meta | None = None


class _Victims(Struct, rename="pascal"):
    pods: list[_Victim] | None = None
    violations: Annotated[int, msgspec.Meta(ge=0, le=1 << 32)] | None = field(default=None, name="NumPDBViolations")


class _PreemptionArgs(Struct, rename="pascal", forbid_unknown_fields=True):
    pod: Raw = _NULL
    node_name_to_victims: Raw = _NULL
    node_name_to_meta_victims: Raw = _NULL


class _WholePreemptionArgs(Struct, rename="pascal"):
    pod: PodObject | None = None
    node_name_to_victims: dict[str, _Victims] | None = None
    node_name_to_meta_victims: dict[str, _Victims] | None = None


_NAMES, _NODES = msgspec.json.Decoder(list[str] | None), msgspec.json.Decoder(_NodeList | None)


def _decode(body: bytes, args: type[ArgsT], request: Callable[[ArgsT], RequestT]) -> RequestT:
    try:
        try:
            return request(msgspec.json.decode(body, type=args))
        except (msgspec.ValidationError, WireError):
            if len(body) > LONGEST_FOLDED:
                raise
            respelled = folded(msgspec.json.decode(body), _SHAPES[args])
            return request(msgspec.json.decode(msgspec.json.encode(respelled), type=args))
    except WireError:
        raise
    except RecursionError:
        raise WireError("the request is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeError, OverflowError) as error:
        raise WireError(f"the request is not what kube-scheduler sends: {_sendable(str(error))}") from None


_SHAPES: dict[Any, inspect.Type] = {
    _ExtenderArgs: inspect.type_info(_WholeExtenderArgs),
    _BindingArgs: inspect.type_info(_BindingArgs),
    _PreemptionArgs: inspect.type_info(_WholePreemptionArgs),
}
"""The shapes, made once: making one takes longer than any answer."""


def _filter_request(args: _ExtenderArgs, most: int) -> FilterRequest:
    pod = _pod(args.pod)
    # A list of names has as many members as names.
    _require_few(_parts(args.node_names, most), most)
    names = _NAMES.decode(args.node_names)
    if names is not None or (listed := _NODES.decode(args.nodes)) is None:
        return FilterRequest(pod, tuple(names or ()))
    items = listed.items or []
    _require_few(len(items), most)
    nodes = {_node_name(item): item for item in items}
    return FilterRequest(pod, tuple(nodes), nodes)


def _bind_request(args: _BindingArgs) -> BindRequest:
    if not args.pod_uid or not args.pod_namespace or not args.pod_name or not args.node:
        raise WireError("the bind request needs PodName, PodNamespace, PodUID and Node")
    return BindRequest(args.pod_uid, args.pod_namespace, args.pod_name, args.node)


def _preempt_request(args: _PreemptionArgs, most: int) -> PreemptRequest:
    raw = next((raw for raw in (args.node_name_to_meta_victims, args.node_name_to_victims) if raw != _NULL), _NULL)
    if (parts := _parts(raw, 2 * most)) > 2 * most:
        raise WireError(f"the request has victims of {parts} parts, and twice max_candidates are read")
    nodes = msgspec.json.decode(raw, type=dict[str, _Victims] | None) or {}
    _require_few(len(nodes), most)
    return PreemptRequest(
        pod=_pod(args.pod),
        victims={node: tuple(map(_victim_uid, victims.pods or ())) for node, victims in nodes.items()},
        violations={node: victims.violations or 0 for node, victims in nodes.items()},
    )


def _parts(raw: Raw, most: int) -> int:
    """The number of members of lists and mappings, commas in texts included; 0 if it is too short for ``most`` of
    them."""
    return 0 if len(raw) <= most else len(raw) - len(bytes(raw).translate(None, b",[{"))


def _require_few(nodes: int, most: int) -> None:
    if nodes > most:
        raise WireError(f"the request names {nodes} nodes, and max_candidates is {most}")


def _pod(raw: Raw) -> Pod:
    if (parts := _parts(raw, MOST_PARTS)) > MOST_PARTS:
        raise WireError(f"the request's Pod has {parts} parts, and at most {MOST_PARTS} are read")
    try:
        if (pod := pod_sent(raw)) is not None:
            return pod
    except UnreadableError as error:
        raise WireError(f"the request's Pod cannot be read: {error}") from None
    raise WireError("the request has no Pod")


def _node_name(node: Raw) -> str:
    meta = msgspec.json.decode(node, type=AnyObject).metadata
    if meta is None or not meta.name:
        raise WireError("the request has a node without a name")
    return meta.name


def _victim_uid(victim: _Victim) -> str:
    uid = victim.uid or (victim.metadata.uid if victim.metadata else None)
    if not uid:
        raise WireError("the preempt request has a victim without a UID")
    return uid


def _filter_result(
    passed: list[str], nodes: dict[str, Any] | None, refused: Mapping[str, str] | None = None, error: str = ""
) -> bytes:
    return msgspec.json.encode(
        {
            "Nodes": nodes,
            "NodeNames": passed,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": refused or {},
            "Error": _sendable(error),
        }
    )


def _sendable(text: str) -> str:
    return printable(text[:LONGEST_ERROR].encode("utf-8", "replace").decode())[:LONGEST_ERROR]
