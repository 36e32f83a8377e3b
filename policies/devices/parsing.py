"""Parse CEL, the language of selectors and of admission policies: an expression becomes a tree."""

from __future__ import annotations

import re
from typing import NamedTuple

_STRING = r"""(?:'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")"""
_TOKENS = re.compile(
    rf"(?:\s|//[^\n]*)*(?:(?P<raw>[rR]{_STRING})|(?P<string>{_STRING})"
    r"|(?P<number>0x[0-9a-fA-F]+|\d+\.\d+(?:[eE][+-]?\d+)?|\d+)(?![\w.])|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\[\?|\.\s*\?|==|!=|<=|>=|&&|\|\||[-+*/%!<>?:.,()\[\]{}]))",
    re.ASCII | re.DOTALL,
)
_ESCAPES = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_LETTERS = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_COMMENT_AT_END = re.compile(r"//[^\n'\"]*\Z")
_DEEPEST = 60
"""The deepest nesting of an expression. Python's own recursion limit is not far beyond it."""
_BINARY = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))


class Expr(NamedTuple):
    """A node of the syntax tree.

    ``kind``: literal, name, field, index, call, list, map, object, if, or an operator; ``field?`` and ``index?`` are
    optional ones.
    ``word``: the name or value.
    ``parts``: the operands; for a call the first one is the receiver, or None.
    """

    kind: str
    word: object = None
    parts: tuple[Expr | None, ...] = ()


def parse(text: str) -> Expr:
    """Parse one expression. Raises SyntaxError for invalid text, and for text after the expression."""
    parser = _Parser(_tokens(text))
    tree = parser.expression()
    if parser.next[0]:
        raise SyntaxError(f"{parser.next[1]!r} follows the expression: {text}")
    return tree


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at, text = [], 0, _COMMENT_AT_END.sub("", text).rstrip()
    while at < len(text):
        match = _TOKENS.match(text, at)
        if match is None:
            raise SyntaxError(f"{text[at : at + 20]!r} is no CEL")
        kind, word = str(match.lastgroup), match[str(match.lastgroup)]
        tokens.append(("string", _unquoted(kind, word)) if kind in ("raw", "string") else (kind, "".join(word.split())))
        at = match.end()
    return tokens


def _unquoted(kind: str, word: str) -> str:
    return word[2:-1] if kind == "raw" else _ESCAPES.sub(_unescaped, word[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    letter, *codes, octal, other = match.groups()
    if letter:
        return _LETTERS.get(letter, letter)
    if other is not None:
        raise SyntaxError(f"{match[0]!r} is no escape")
    number = int(octal, 8) if octal else int(next(code for code in codes if code), 16)
    if number > 0x10FFFF:
        raise SyntaxError(f"{match[0]!r} is no character")
    return chr(number)


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = [*tokens, ("", "")]
        self._at = self._depth = 0

    @property
    def next(self) -> tuple[str, str]:
        return self._tokens[self._at]

    def _is_next(self, *words: str) -> bool:
        kind, word = self.next
        return word in words and kind != "string"

    def _take(self, *words: str) -> str:
        if words and not self._is_next(*words):
            raise SyntaxError(f"{self.next[1]!r} stands where {' or '.join(words)} is expected")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def expression(self) -> Expr:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise SyntaxError("its parts nest too deeply")
        tree = self._conditional()
        self._depth -= 1
        return tree

    def _conditional(self) -> Expr:
        condition = self._binary(0)
        if not self._is_next("?"):
            return condition
        self._take("?")
        chosen = self.expression()
        self._take(":")
        return Expr("if", None, (condition, chosen, self.expression()))

    def _binary(self, level: int) -> Expr:
        if level == len(_BINARY):
            return self._unary()
        left = self._binary(level + 1)
        while self._is_next(*_BINARY[level]):
            left = Expr(self._take(), None, (left, self._binary(level + 1)))
        return left

    def _unary(self) -> Expr:
        if self._is_next("!", "-"):
            signs = [self._take()]
            while self._is_next("!", "-"):
                signs.append(self._take())
            tree = self._postfix()
            for sign in reversed(signs[-_DEEPEST:]):
                tree = Expr(sign, None, (tree,))
            return tree
        return self._postfix()

    def _postfix(self) -> Expr:
        tree = self._primary()
        while self._is_next(".", ".?", "[", "[?", "{"):
            tree = self._member(tree, self._take())
        return tree

    def _member(self, of: Expr, sign: str) -> Expr:
        if sign == "{":
            return Expr("object", of.word, self._fields())
        if sign.startswith("["):
            index = self.expression()
            self._take("]")
            return Expr("index?" if sign == "[?" else "index", None, (of, index))
        name = self._name()
        if not self._is_next("("):
            return Expr("field?" if sign == ".?" else "field", name, (of,))
        self._take("(")
        return Expr("call", name, (of, *self._until(")")))

    def _name(self) -> str:
        if self.next[0] != "name":
            raise SyntaxError(f"{self.next[1]!r} stands where a name is expected")
        return self._take()

    def _fields(self) -> tuple[Expr, ...]:
        """Parse a list of keys and values, which alternate in the result."""
        exprs: list[Expr] = []
        while not self._is_next("}"):
            name = self.next[0] == "name" and self._tokens[self._at + 1][1] == ":"
            exprs.append(Expr("literal", self._take()) if name else self.expression())
            self._take(":")
            exprs.append(self.expression())
            if not self._is_next("}"):
                self._take(",")
        self._take("}")
        return tuple(exprs)

    def _until(self, end: str) -> tuple[Expr, ...]:
        exprs: list[Expr] = []
        while not self._is_next(end):
            exprs.append(self.expression())
            if not self._is_next(end):
                self._take(",")
        self._take(end)
        return tuple(exprs)

    def _primary(self) -> Expr:
        kind, word = self.next
        self._at += 1
        match kind, word:
            case "string", _:
                return Expr("literal", word)
            case "number", _:
                return Expr("literal", float(word) if "." in word else int(word, 0 if word.startswith("0x") else 10))
            case "sign", "(":
                inner = self.expression()
                self._take(")")
                return inner
            case "sign", "[":
                return Expr("list", None, self._until("]"))
            case "sign", "{":
                return Expr("map", None, self._fields())
            case "name", ("true" | "false"):
                return Expr("literal", word == "true")
            case "name", "null":
                return Expr("literal")
            case "name", _ if self._is_next("("):
                self._take("(")
                return Expr("call", word, (None, *self._until(")")))
            case "name", _:
                return Expr("name", word)
        raise SyntaxError(f"{word!r} begins no expression")
