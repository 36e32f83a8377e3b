"""Match the regular expressions of selectors in linear time, as RE2 does: any user may write one.

Python's own ``re`` may need endless time for one short pattern. Unsupported syntax is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

_MOST_STATES = 2000
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": " \t\n\f\r"}
_SPECIAL = "\\.+*?()|[]{}^$"


class UnreadPatternError(Exception):
    """The pattern uses unsupported syntax; the message names it."""


@dataclass(slots=True, eq=False)
class _State:
    """A state of the automaton.

    ``accepts``: whether a character leads to ``then``; None for a state that is passed without a character.
    ``at``: of a state without a character, the required position: the begin or the end of the text.
    """

    accepts: Callable[[str], bool] | None = None
    at: str = ""
    then: list[_State] = field(default_factory=list)


_Piece = tuple[_State, _State]


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether the pattern occurs anywhere in a text. Raises UnreadPatternError."""
    parser = _Parser(pattern)
    first, last = parser.alternatives(0)
    if parser.at < len(parser.text):
        raise UnreadPatternError("an unmatched )")

    def matches(text: str) -> bool:
        states: dict[int, _State] = {}
        for place in range(len(text) + 1):
            _enter(first, states, place, len(text))
            if id(last) in states:
                return True
            if place < len(text):
                after: dict[int, _State] = {}
                for state in states.values():
                    if state.accepts is not None and state.accepts(text[place]):
                        for then in state.then:
                            _enter(then, after, place + 1, len(text))
                states = after
                if id(last) in states:
                    return True
        return False

    return matches


def _enter(state: _State, states: dict[int, _State], place: int, end: int) -> None:
    stack = [state]
    while stack:
        state = stack.pop()
        if id(state) in states or (state.at == "^" and place) or (state.at == "$" and place < end):
            continue
        states[id(state)] = state
        if state.accepts is None:
            stack += state.then


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._fold = pattern.startswith("(?i)")
        self.text = pattern[4:] if self._fold else pattern
        self.at = self._states = 0

    def alternatives(self, depth: int) -> _Piece:
        if depth > 20:
            raise UnreadPatternError("groups that nest so deeply")
        first, last = self._state(), self._state()
        while True:
            begin, end = self._sequence(depth)
            first.then.append(begin)
            end.then.append(last)
            if not self._next("|"):
                return first, last

    def _sequence(self, depth: int) -> _Piece:
        first = last = self._state()
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            begin, end = self._repeated(depth)
            last.then.append(begin)
            last = end
        return first, last

    def _repeated(self, depth: int) -> _Piece:
        begin, end = self._atom(depth)
        sign = self.text[self.at : self.at + 1]
        if sign == "{":
            raise UnreadPatternError("{}")
        if not sign or sign not in "?*+":
            return begin, end
        self.at += 1
        if self.text[self.at : self.at + 1] and self.text[self.at] in "?*+":
            raise UnreadPatternError("two quantifiers")
        first, last = self._state(), self._state()
        first.then.append(begin)
        end.then.append(last)
        if sign in "?*":
            first.then.append(last)
        if sign in "*+":
            end.then.append(begin)
        return first, last

    def _atom(self, depth: int) -> _Piece:
        char = self.text[self.at]
        self.at += 1
        match char:
            case "(":
                if self._next("?") and not self._next(":"):
                    raise UnreadPatternError("(?")
                piece = self.alternatives(depth + 1)
                if not self._next(")"):
                    raise UnreadPatternError("an unmatched (")
                return piece
            case "^" | "$":
                state = self._state(at=char)
                return state, state
            case "[":
                return self._accepting(self._class())
            case ".":
                return self._accepting(lambda char: char != "\n")
            case "\\":
                return self._accepting(self._escaped())
            case "*" | "+" | "?" | "{":
                raise UnreadPatternError(f"{char} after nothing")
        return self._accepting(self._among(char))

    def _escaped(self) -> Callable[[str], bool]:
        char = self.text[self.at : self.at + 1]
        self.at += 1
        if char and char in _SPECIAL + "-/":
            return self._among(char)
        if char and char.lower() in _CLASSES:
            members = _expanded(_CLASSES[char.lower()])
            return (lambda other: other not in members) if char.isupper() else (lambda other: other in members)
        raise UnreadPatternError(f"\\{char}")

    def _class(self) -> Callable[[str], bool]:
        negated = self._next("^")
        end = self.text.find("]", self.at + 1)
        inside = self.text[self.at : end]
        if end < 0 or not inside or "[" in inside or "\\" in inside:
            raise UnreadPatternError(f"[{inside[:20]}")
        self.at = end + 1
        among = self._among(_expanded(inside))
        return (lambda char: not among(char)) if negated else among

    def _among(self, members: str | frozenset[str]) -> Callable[[str], bool]:
        chars = frozenset(members)
        if self._fold:
            chars |= {other for char in chars for other in (char.lower(), char.upper())}
        return chars.__contains__

    def _accepting(self, accepts: Callable[[str], bool]) -> _Piece:
        last = self._state()
        return self._state(accepts, then=last), last

    def _state(self, accepts: Callable[[str], bool] | None = None, at: str = "", then: _State | None = None) -> _State:
        self._states += 1
        if self._states > _MOST_STATES:
            raise UnreadPatternError("so many characters")
        return _State(accepts, at, [] if then is None else [then])

    def _next(self, sign: str) -> bool:
        if self.text.startswith(sign, self.at):
            self.at += len(sign)
            return True
        return False


def _expanded(inside: str) -> frozenset[str]:
    """The characters of a class, with its ranges expanded."""
    chars: set[str] = set()
    at = 0
    while at < len(inside):
        if inside[at + 1 : at + 2] == "-" and at + 2 < len(inside):
            first, last = ord(inside[at]), ord(inside[at + 2])
            if first > last or last > 0x7F:
                raise UnreadPatternError(f"[{inside[:20]}]")
            chars.update(map(chr, range(first, last + 1)))
            at += 3
        else:
            chars.add(inside[at])
            at += 1
    return frozenset(chars)
