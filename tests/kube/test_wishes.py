"""What annotations ask of the topology, and what is said when they cannot be read."""

from __future__ import annotations

import pytest

from extender.kube.dialects import group_of
from extender.kube.reading.objects import Meta
from extender.kube.reading.plain import quoted
from extender.kube.reading.topology import (
    BAD_LEVEL,
    BAD_SLICE_SIZE,
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
