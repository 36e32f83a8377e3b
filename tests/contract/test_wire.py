"""The extender v1 JSON by hand: upstream's pinned documents, the rules of the boundary, and noise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core.effects import AnswerFilter
from extender.http import wire

POD: dict[str, Any] = {
    "metadata": {"name": "podname", "namespace": "team", "uid": "myuid"},
    "spec": {"containers": None, "schedulerName": "muster", "nodeName": ""},
    "status": {"nominatedNodeName": "node1"},
}
DECODERS = pytest.mark.parametrize("decode", [wire.decode_filter, wire.decode_bind, wire.decode_preempt])


def filter_body(**fields: Any) -> bytes:
    return json.dumps({"Pod": POD, "Nodes": None, "NodeNames": None, **fields}).encode()


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "managedFields": [{"manager": "x"}]}, "spec": {}, "status": {"images": []}}


def answer(passed: tuple[str, ...], refused: tuple[str, ...] = (), reason: str = "") -> AnswerFilter:
    return AnswerFilter(1, passed, refused, reason)


# The seven types of upstream's TestCompatibility. Pods carry a namespace and a UID here, as in every real request.


def test_extender_args_exact_and_lower_case() -> None:
    exact = json.dumps({"Pod": POD, "Nodes": None, "NodeNames": ["node1"]})
    for text in (exact, exact.lower()):
        request = wire.decode_filter(text.encode())
        assert request.candidates == ("node1",)
        assert (request.pod.uid, request.pod.scheduler, request.pod.nominated_node) == ("myuid", "muster", "node1")


def test_extender_args_with_whole_nodes_exact_and_lower_case() -> None:
    exact = json.dumps({"Pod": POD, "Nodes": {"metadata": {}, "items": [node("nodename")]}, "NodeNames": None})
    for text in (exact, exact.lower()):
        request = wire.decode_filter(text.encode())
        assert request.candidates == ("nodename",)
        assert request.nodes is not None


def test_extender_filter_result() -> None:
    request = wire.decode_filter(filter_body(NodeNames=["node1", "baz"]))
    assert wire.encode_filter(answer(("node1",), ("baz",), "qux"), request) == (
        b'{"Nodes":null,"NodeNames":["node1"],"FailedNodes":{},"FailedAndUnresolvableNodes":{"baz":"qux"},"Error":""}'
    )


def test_extender_binding_args_exact_and_lower_case() -> None:
    exact = '{"PodName":"mypodname","PodNamespace":"mypodnamespace","PodUID":"mypoduid","Node":"mynode"}'
    for text in (exact, exact.lower()):
        assert wire.decode_bind(text.encode()) == wire.BindRequest("mypoduid", "mypodnamespace", "mypodname", "mynode")


def test_extender_binding_result() -> None:
    assert wire.encode_bind("myerror") == b'{"Error":"myerror"}'
    assert wire.encode_bind() == b'{"Error":""}'


def test_host_priority() -> None:
    assert wire.encode_priorities(["myhost"], [1]) == b'[{"Host":"myhost","Score":1}]'


def test_extender_preemption_args_exact_and_lower_case() -> None:
    victims = {"foo": {"Pods": [{"UID": "myuid"}], "NumPDBViolations": 1}}
    exact = json.dumps({"Pod": POD, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims})
    for text in (exact, exact.lower()):
        request = wire.decode_preempt(text.encode())
        assert (request.victims, request.violations) == ({"foo": ("myuid",)}, {"foo": 1})


def test_extender_preemption_args_with_whole_pods_exact_and_lower_case() -> None:
    victims = {"foo": {"Pods": [POD], "NumPDBViolations": 1}}
    exact = json.dumps({"Pod": POD, "NodeNameToVictims": victims, "NodeNameToMetaVictims": None})
    for text in (exact, exact.lower()):
        request = wire.decode_preempt(text.encode())
        assert (request.victims, request.violations) == ({"foo": ("myuid",)}, {"foo": 1})


def test_extender_preemption_result() -> None:
    request = wire.PreemptRequest(wire.decode_filter(filter_body()).pod, {"foo": ("myuid",)}, {"foo": 1})
    assert wire.encode_preempt({"foo": ("myuid",)}, request) == (
        b'{"NodeNameToMetaVictims":{"foo":{"Pods":[{"UID":"myuid"}],"NumPDBViolations":1}}}'
    )


# The rules of the boundary.


def test_any_mixture_of_cases_is_read() -> None:
    body = json.dumps({"POD": POD, "nodeNames": ["node1"]}).encode()
    assert wire.decode_filter(body).candidates == ("node1",)


def test_unknown_keys_are_ignored_and_null_is_a_zero_value() -> None:
    assert wire.decode_filter(filter_body(NodeNames=["node1"], Future={"a": [1]})).candidates == ("node1",)
    assert wire.decode_filter(filter_body()).candidates == ()
    assert wire.decode_preempt(json.dumps({"Pod": POD}).encode()).victims == {}


def test_folding_keys_leaves_maps_alone() -> None:
    labels = {"NodeName": "x", "muster.dev/Pod-Group": "y"}
    pod = {**POD, "metadata": {**POD["metadata"], "labels": labels}, "spec": {"nodeSelector": {"NodeName": "z"}}}
    request = wire.decode_filter(json.dumps({"pod": pod, "nodenames": ["Node1"]}).encode())
    assert request.pod.selection.node_selector == (("NodeName", "z"),)
    assert request.candidates == ("Node1",)


def test_node_names_is_never_null() -> None:
    request = wire.decode_filter(filter_body(NodeNames=["node1"]))
    assert json.loads(wire.encode_filter(answer(()), request))["NodeNames"] == []
    assert json.loads(wire.encode_filter_error("no"))["NodeNames"] == []


def test_only_candidates_can_pass() -> None:
    request = wire.decode_filter(filter_body(NodeNames=["node1"]))
    assert json.loads(wire.encode_filter(answer(("node1", "stranger")), request))["NodeNames"] == ["node1"]


def test_a_refusal_never_starts_a_preemption() -> None:
    request = wire.decode_filter(filter_body(NodeNames=["node1", "node2"]))
    result = json.loads(wire.encode_filter(answer((), ("node1", "node2"), "the gang waits"), request))
    assert result["FailedNodes"] == {}
    assert result["FailedAndUnresolvableNodes"] == {"node1": "the gang waits", "node2": "the gang waits"}


def test_nodes_that_came_whole_go_back_untouched() -> None:
    sent = filter_body(Nodes={"metadata": {}, "items": [node("node1"), node("node2")]})
    result = wire.encode_filter(answer(("node2",)), wire.decode_filter(sent))
    assert json.loads(result)["Nodes"] == {"metadata": {}, "items": [node("node2")]}
    assert json.loads(result)["NodeNames"] == ["node2"]
    assert json.dumps(node("node2")).encode() in result


def test_nodes_are_not_echoed_when_only_names_came() -> None:
    request = wire.decode_filter(filter_body(NodeNames=["node1"]))
    assert json.loads(wire.encode_filter(answer(("node1",)), request))["Nodes"] is None


def test_every_node_has_its_score() -> None:
    assert json.loads(wire.encode_priorities(["a", "b"], [0, 10])) == [
        {"Host": "a", "Score": 0},
        {"Host": "b", "Score": 10},
    ]
    assert wire.encode_priorities([], []) == b"[]"


def test_victims_are_never_null_and_never_none() -> None:
    assert wire.encode_preempt({}, None) == b'{"NodeNameToMetaVictims":{}}'
    assert wire.encode_preempt({"foo": ()}, None) == b'{"NodeNameToMetaVictims":{}}'


def test_an_error_is_a_whole_answer_of_bounded_length() -> None:
    result = json.loads(wire.encode_filter_error("x" * 5000))
    assert result["Error"] == "x" * wire.LONGEST_ERROR
    assert result["FailedNodes"] == result["FailedAndUnresolvableNodes"] == {}


def test_an_error_may_quote_what_is_no_text() -> None:
    assert json.loads(wire.encode_bind("\ud800"))["Error"] == "?"


# Unreadable input.


@DECODERS
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"pod"',
        b"{}",
        b"\xff\xfe",
        b'{"Pod":"\xff"}',
        b'{"Pod":"\\ud800"}',
        b'{"Pod":{}}',
        b'{"Pod":{"metadata":{"name":"a"}}}',
        b'{"Pod":null,"PodName":null}',
        b'{"Pod":3,"PodName":3}',
        b'{"Pod":' * 100_000,
        b"[" * 1_000_000,
        b'{"x":1e999}',
        bytes(range(256)) * 4096,
    ],
    ids=lambda body: repr(body[:24]),
)
def test_what_cannot_be_read_is_said_in_one_short_sentence(decode: Any, body: bytes) -> None:
    with pytest.raises(wire.WireError) as caught:
        decode(body)
    assert "\n" not in str(caught.value)
    assert 10 < len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"Pod": None}, "has no Pod"),
        ({"Pod": {"metadata": {"name": "a", "namespace": "b"}}}, "no UID"),
        ({"Pod": {**POD, "spec": {"overhead": {"cpu": "x"}}}}, "is not a quantity"),
        ({"NodeNames": [1]}, "Expected `str`"),
        ({"Nodes": {"items": [{"metadata": {}}]}}, "a node without a name"),
        ({"Nodes": {"items": [None]}}, "Expected `object`"),
    ],
)
def test_a_filter_request_says_what_is_wrong_with_it(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(wire.WireError, match=said):
        wire.decode_filter(filter_body(**fields))


@pytest.mark.parametrize("absent", ["PodName", "PodNamespace", "PodUID", "Node"])
def test_a_bind_needs_all_four(absent: str) -> None:
    whole = {"PodName": "a", "PodNamespace": "b", "PodUID": "c", "Node": "d"}
    with pytest.raises(wire.WireError, match="needs PodName, PodNamespace, PodUID and Node"):
        wire.decode_bind(json.dumps({**whole, absent: ""}).encode())


@pytest.mark.parametrize("victims", [{"n": None}, {"n": {"Pods": [None]}}, {"n": {"Pods": [{}]}}, {"n": []}, []])
def test_victims_that_cannot_be_named_are_an_error(victims: Any) -> None:
    with pytest.raises(wire.WireError):
        wire.decode_preempt(json.dumps({"Pod": POD, "NodeNameToMetaVictims": victims}).encode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["Pod", "pod", "metadata", "spec", "containers", "resources", "requests", "cpu", "uid"])
            | st.sampled_from(["name", "Nodes", "items", "NodeNames", "NodeNameToMetaVictims", "Pods", "PodUID"])
            | st.text(max_size=3),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@DECODERS
@given(body=st.binary(max_size=300))
def test_no_bytes_break_it(decode: Any, body: bytes) -> None:
    unbroken(decode, body)


@DECODERS
@given(document=JSON)
def test_no_json_breaks_it(decode: Any, document: Any) -> None:
    unbroken(decode, json.dumps(document).encode())


@DECODERS
@given(metadata=JSON, spec=JSON, status=JSON, extra=JSON)
def test_no_pod_breaks_it(decode: Any, metadata: Any, spec: Any, status: Any, extra: Any) -> None:
    known = {**POD["metadata"], **(metadata if isinstance(metadata, dict) else {"labels": metadata})}
    pod = {"metadata": known, "spec": spec, "status": status}
    unbroken(decode, json.dumps({"Pod": pod, "NodeNames": extra, "NodeNameToVictims": extra}).encode())


def unbroken(decode: Any, body: bytes) -> None:
    try:
        decode(body)
    except wire.WireError as error:
        assert str(error)  # noqa: PT017
