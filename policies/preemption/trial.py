"""Some candidates as gone, to be tried out: whether the preemptor has all that it needs then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from policies.preemption.allowed import Why
from policies.preemption.candidates import Candidate, Unit
from policies.preemption.costs import Costed
from policies.steps import Steps


class Room(Protocol):
    """Whether the preemptor has a node for each member, as candidates go and are put back, by number."""

    def change(self, number: int, sign: int) -> None:
        """It goes, or with -1 it is put back."""
        ...

    def fits(self) -> Steps[bool]: ...


class Rules(Protocol):
    """Who may go beside those that go already, and whether that is enough, nodes apart."""

    def may(self, candidate: Candidate) -> bool:
        """Whether it may go now."""
        ...

    def change(self, candidate: Candidate, sign: int) -> None:
        """It goes, or with -1 it is put back."""
        ...

    def enough(self) -> bool:
        """Whether all is free that the preemptor needs beside nodes."""
        ...

    def lack(self) -> str:
        """What of it is not, for people; empty if all is."""
        ...

    def helps(self, candidate: Candidate) -> bool:
        """Whether its eviction frees some of that."""
        ...

    def why(self, gone: Sequence[Candidate]) -> Mapping[str, Why] | None:
        """By which rule each of those that are gone may go, by name; None if they may not go together."""
        ...


class Trial:
    """Numbers are those of the ``options``. When it ends everybody has to be put back."""

    def __init__(self, options: Sequence[Costed], room: Room, rules: Rules) -> None:
        self.options = options
        self.gone: dict[int, None] = {}
        self._room = room
        self._rules = rules
        rest = {one.name: at for at, one in enumerate(options) if one.unit is Unit.WORKLOAD}
        self.rest = {
            at: rest[one.candidate.workload]
            for at, one in enumerate(options)
            if one.unit is Unit.SURPLUS and one.candidate.workload in rest
        }
        """Of a surplus: the rest of its workload. It does not stay when that goes."""
        self._surplus: dict[int, list[int]] = {}
        for at, whole in self.rest.items():
            self._surplus.setdefault(whole, []).append(at)

    def may(self, number: int) -> bool:
        return self._rules.may(self.options[number].candidate)

    def take(self, number: int) -> None:
        """It goes, with its surplus."""
        for at in (*self._surplus.get(number, ()), number):
            if at not in self.gone:
                self.gone[at] = None
                self._room.change(at, 1)
                self._rules.change(self.options[at].candidate, 1)

    def put_back(self, number: int) -> bool:
        """Whether it could be: it cannot without the rest of its workload."""
        if number not in self.gone or self.rest.get(number) in self.gone:
            return False
        del self.gone[number]
        self._room.change(number, -1)
        self._rules.change(self.options[number].candidate, -1)
        return True

    def put_all_back(self) -> None:
        for number in [*reversed(self.gone)]:
            if number not in self.rest:
                self.put_back(number)
        for number in [*self.gone]:
            self.put_back(number)

    def fits(self) -> Steps[bool]:
        """Whether the preemptor has all that it needs. Who may go is not asked here."""
        return self._rules.enough() and (yield from self._room.fits())

    def allowed(self) -> bool:
        """Whether those that are gone may go together."""
        return self._rules.why([self.options[number].candidate for number in self.gone]) is not None

    def chosen(self) -> list[Costed]:
        return [self.options[number] for number in self.gone]
