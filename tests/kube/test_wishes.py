"""The demands of annotations on the topology, and the message if they cannot be read."""

from __future__ import annotations

import pytest

from extender.kube.dialects import group_of
from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import quoted
from extender.kube.reading.topology import (
    BAD_LAYERS,
    BAD_LEVEL,
    BAD_SLICE_SIZE,
    KUEUE,
    KUEUE_LAYERS,
    LWS_EXCLUSIVE,
    PREFERRED,
    REQUIRED,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    SLICES_IN_NONE,
    SLICES_OF_NOTHING,
    TWO_VALUES,
    UNDIVIDED_SLICES,
    UNLIKE_SLICES,
    topology_of,
    topology_problem,
)
from policies.model import CLIQUE, Topology


def test_levels_are_called_by_name_or_key_in_annotations_or_labels() -> None:
    both = Meta(annotations={REQUIRED: CLIQUE}, labels={PREFERRED: "block"})
    assert topology_of(both) == Topology(required=CLIQUE, preferred="block")
    assert topology_of(Meta()) == Topology()
    sliced = Meta(annotations={SLICE_SIZE: "16", SLICE_TOPOLOGY: "clique", REQUIRED: "none"})
    assert topology_of(sliced) == Topology("none", None, 16, "clique")
    layers = Meta(annotations={SLICE_SIZE: "8,64,256", SLICE_TOPOLOGY: "clique,block,dc.example/hall"})
    assert topology_of(layers) == Topology(None, None, 8, "clique", ((64, "block"), (256, "dc.example/hall")))
    assert str(topology_of(layers)) == "slices of 8, in clique, of 64 in block, of 256 in dc.example/hall"


LAYERS = '[{"topology": "block", "size": 32}, {"topology": "dc.example/rack", "size": 16}]'


def test_layers_in_kueues_words_are_slices_the_farthest_level_first() -> None:
    assert topology_of(Meta(annotations={KUEUE_LAYERS: LAYERS})) == Topology(
        None, None, 16, "dc.example/rack", ((32, "block"),)
    )
    whole = Meta(annotations={KUEUE_LAYERS: LAYERS, KUEUE.required: "hall"})
    assert (topology_of(whole).required, topology_of(whole).slice_size) == ("hall", 16)
    managed = Meta(annotations={KUEUE_LAYERS: LAYERS}, labels={"kueue.x-k8s.io/managed": "true"})
    assert topology_of(managed) == Topology()
    ours = Meta(annotations={KUEUE_LAYERS: LAYERS, SLICE_SIZE: "4"})
    assert topology_of(ours) == Topology(None, None, 4)


@pytest.mark.parametrize(
    "text", ["[]", "", "{}", "[" * 5000, '[{"topology": "rack"}]', '[{"topology": "rack", "size": "16"}]', "null"]
)
def test_layers_that_are_no_such_json_are_told(text: str) -> None:
    assert topology_problem(Meta(annotations={KUEUE_LAYERS: text})) == BAD_LAYERS.format(KUEUE_LAYERS, quoted(text))


@pytest.mark.parametrize(
    ("sizes", "more", "problem"),
    [
        ((16, 32), {}, UNDIVIDED_SLICES.format(KUEUE.slice_size, quoted("32,16"))),
        ((32, 0), {}, BAD_SLICE_SIZE.format(KUEUE.slice_size, quoted("0"))),
        ((32, 16), {KUEUE.slice_size: "8"}, TWO_VALUES.format(KUEUE.slice_size)),
    ],
)
def test_layers_that_contradict_themselves_are_told(sizes: tuple[int, int], more: dict[str, str], problem: str) -> None:
    text = LAYERS.replace("32", "x").replace("16", str(sizes[1])).replace("x", str(sizes[0]))
    assert topology_problem(Meta(annotations={KUEUE_LAYERS: text, **more})) == problem


def test_a_group_of_a_leader_worker_set_with_a_domain_for_itself_is_in_one() -> None:
    assert topology_of(Meta(annotations={LWS_EXCLUSIVE: "dc.example/pool"})) == Topology("dc.example/pool")
    sliced = Meta(annotations={LWS_EXCLUSIVE: "dc.example/pool", SLICE_SIZE: "4"})
    assert topology_of(sliced) == Topology("dc.example/pool", None, 4)
    nearer = Meta(annotations={LWS_EXCLUSIVE: "dc.example/pool", REQUIRED: CLIQUE})
    assert topology_of(nearer) == Topology(CLIQUE)


@pytest.mark.parametrize(
    ("annotations", "labels", "problem"),
    [
        ({REQUIRED: "a b"}, {}, BAD_LEVEL.format(REQUIRED, quoted("a b"))),
        ({PREFERRED: ""}, {}, BAD_LEVEL.format(PREFERRED, quoted(""))),
        ({SLICE_SIZE: "0"}, {}, BAD_SLICE_SIZE.format(SLICE_SIZE, quoted("0"))),
        ({SLICE_SIZE: "1.5"}, {}, BAD_SLICE_SIZE.format(SLICE_SIZE, quoted("1.5"))),
        ({SLICE_SIZE: "-1"}, {}, BAD_SLICE_SIZE.format(SLICE_SIZE, quoted("-1"))),
        ({SLICE_SIZE: "abc"}, {}, BAD_SLICE_SIZE.format(SLICE_SIZE, quoted("abc"))),
        ({SLICE_SIZE: ""}, {}, BAD_SLICE_SIZE.format(SLICE_SIZE, quoted(""))),
        ({SLICE_SIZE: " 16"}, {}, BAD_SLICE_SIZE.format(SLICE_SIZE, quoted(" 16"))),
        ({SLICE_SIZE: "16\n"}, {}, BAD_SLICE_SIZE.format(SLICE_SIZE, quoted("16\n"))),
        ({SLICE_SIZE: "9999999999"}, {}, BAD_SLICE_SIZE.format(SLICE_SIZE, quoted("9999999999"))),
        ({SLICE_SIZE: "\u0661\u0666"}, {}, BAD_SLICE_SIZE.format(SLICE_SIZE, quoted("\u0661\u0666"))),
        ({REQUIRED: "clique\n"}, {}, BAD_LEVEL.format(REQUIRED, quoted("clique\n"))),
        ({REQUIRED: "r\u00e4ck"}, {}, BAD_LEVEL.format(REQUIRED, quoted("r\u00e4ck"))),
        ({REQUIRED: "x" * 400}, {}, BAD_LEVEL.format(REQUIRED, quoted("x" * 400))),
        ({SLICE_TOPOLOGY: "-", SLICE_SIZE: "4"}, {}, BAD_LEVEL.format(SLICE_TOPOLOGY, quoted("-"))),
        ({SLICE_TOPOLOGY: "clique"}, {}, SLICES_OF_NOTHING.format(SLICE_TOPOLOGY, SLICE_SIZE)),
        ({SLICE_TOPOLOGY: "none", SLICE_SIZE: "4"}, {}, SLICES_IN_NONE.format(SLICE_TOPOLOGY, SLICE_SIZE)),
        ({REQUIRED: "rack"}, {REQUIRED: "row"}, TWO_VALUES.format(REQUIRED)),
        ({REQUIRED: "rack,row"}, {}, BAD_LEVEL.format(REQUIRED, quoted("rack,row"))),
        ({SLICE_SIZE: "8,64"}, {}, UNLIKE_SLICES.format(SLICE_SIZE, quoted("8,64"), SLICE_TOPOLOGY, quoted(""))),
        (
            {SLICE_SIZE: "8", SLICE_TOPOLOGY: "a,b"},
            {},
            UNLIKE_SLICES.format(SLICE_SIZE, quoted("8"), SLICE_TOPOLOGY, quoted("a,b")),
        ),
        (
            {SLICE_SIZE: "1,2,4,8", SLICE_TOPOLOGY: "a,b,c,d"},
            {},
            UNLIKE_SLICES.format(SLICE_SIZE, quoted("1,2,4,8"), SLICE_TOPOLOGY, quoted("a,b,c,d")),
        ),
        ({SLICE_SIZE: "8,60", SLICE_TOPOLOGY: "a,b"}, {}, UNDIVIDED_SLICES.format(SLICE_SIZE, quoted("8,60"))),
        ({SLICE_SIZE: "64,8", SLICE_TOPOLOGY: "a,b"}, {}, UNDIVIDED_SLICES.format(SLICE_SIZE, quoted("64,8"))),
        ({SLICE_SIZE: "8,8", SLICE_TOPOLOGY: "a,b"}, {}, UNDIVIDED_SLICES.format(SLICE_SIZE, quoted("8,8"))),
        ({SLICE_SIZE: "8,", SLICE_TOPOLOGY: "a,b"}, {}, BAD_SLICE_SIZE.format(SLICE_SIZE, quoted(""))),
        ({SLICE_SIZE: "8,64", SLICE_TOPOLOGY: "a,"}, {}, BAD_LEVEL.format(SLICE_TOPOLOGY, quoted(""))),
        ({SLICE_SIZE: "8,64", SLICE_TOPOLOGY: "a,none"}, {}, SLICES_IN_NONE.format(SLICE_TOPOLOGY, SLICE_SIZE)),
    ],
)
def test_what_cannot_be_read_is_a_problem_of_the_gang(
    annotations: dict[str, str], labels: dict[str, str], problem: str
) -> None:
    meta = Meta(annotations=annotations | {"muster.dev/pod-group": "train"}, labels=labels)
    assert topology_problem(meta) == problem
    assert topology_of(meta) == Topology(), "nothing is taken from what contradicts itself"
    ref = group_of(meta)
    assert ref is not None
    assert ref.problem == problem
