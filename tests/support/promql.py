"""Reads expressions of Prometheus' query language as far as rules and boards use it, and tells what they name.

It refuses what Prometheus would refuse there: unbalanced brackets, unknown functions, a rate of what has no range, an
aggregation by nothing. It computes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
        |(?P<duration>\d+(?:ms|[smhdwy])(?:\d+(?:ms|[smhdwy]))*|\$__rate_interval|\$__range|\$__interval)
        |(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)
        |(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
        |(?P<operator>=~|!~|==|!=|>=|<=|[-+*/%^<>=(){},\[\]:]))""",
    re.VERBOSE,
)
_OF_RANGES = {"rate", "irate", "increase", "changes", "delta", "resets", "max_over_time", "avg_over_time"}
_OF_INSTANTS = {
    "histogram_quantile",
    "absent",
    "vector",
    "clamp_min",
    "clamp_max",
    "round",
    "time",
    "label_replace",
}
_AGGREGATIONS = {"sum", "max", "min", "avg", "count", "topk", "quantile"}
_BINARY = {"+", "-", "*", "/", "%", "^", "==", "!=", ">", "<", ">=", "<=", "and", "or", "unless"}


class Malformed(ValueError):
    """No expression of the language, or one of a kind that our rules have no use for."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric that is named, with what is asked of which labels."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...]


@dataclass(slots=True)
class Expression:
    """What an expression names: `grouped` are the labels after by, on and the like."""

    selectors: list[Selector] = field(default_factory=list)
    grouped: set[str] = field(default_factory=set)


def read(text: str) -> Expression:
    """Give what an expression names. Raises Malformed."""
    reader = _Reader(_tokens(text))
    reader.expression()
    if reader.kind != "end":
        raise Malformed(f"{reader.text!r} is too much in {text!r}")
    return reader.found


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Malformed(f"{text[at : at + 20]!r} in {text!r}")
        kind = str(match.lastgroup)
        tokens.append((kind, match[kind]))
        at = match.end()
    return [*tokens, ("end", "")]


class _Reader:
    """One pass over the tokens; each method reads one thing, and tells whether it is a range where that matters."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens, self._at = tokens, 0
        self.found = Expression()

    @property
    def kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def text(self) -> str:
        return self._tokens[self._at][1]

    def expression(self) -> bool:
        is_range = self._operand()
        while self.kind != "string" and self.text in _BINARY:
            self._next()
            self._matching()
            if self._operand() or is_range:
                raise Malformed("a range beside an operator")
        return is_range

    def _operand(self) -> bool:
        while self.text in ("+", "-"):
            self._next()
        is_range = self._primary()
        if self.text == "[":
            self._expect("[")
            self._expect_kind("duration")
            self._expect("]")
            is_range = True
        if self.text == "offset":
            self._next()
            self._expect_kind("duration")
        return is_range

    def _primary(self) -> bool:
        kind, text = self.kind, self.text
        if kind in ("number", "string"):
            self._next()
        elif text == "(":
            self._expect("(")
            is_range = self.expression()
            self._expect(")")
            return is_range
        elif kind == "name":
            self._next()
            self._named(text)
        else:
            raise Malformed(f"nothing to take the value of, but {text!r}")
        return False

    def _named(self, name: str) -> None:
        if name in _AGGREGATIONS:
            self._grouping()
            self._arguments(of_ranges=False)
            self._grouping()
        elif self.text == "(":
            if name not in _OF_RANGES | _OF_INSTANTS:
                raise Malformed(f"no function {name}")
            self._arguments(of_ranges=name in _OF_RANGES)
        elif name in _BINARY:
            raise Malformed(f"{name} has no left side")
        else:
            self.found.selectors.append(Selector(name, tuple(self._matchers())))

    def _arguments(self, *, of_ranges: bool) -> None:
        self._expect("(")
        while self.text != ")":
            if self.expression() is not of_ranges:
                raise Malformed("a function of ranges has to have one, and no other may")
            if self.text != ")":
                self._expect(",")
        self._expect(")")

    def _matchers(self) -> list[tuple[str, str, str]]:
        matchers: list[tuple[str, str, str]] = []
        if self.text != "{":
            return matchers
        self._expect("{")
        while self.text != "}":
            label, operator = self._expect_kind("name"), self._expect_kind("operator")
            if operator not in ("=", "!=", "=~", "!~"):
                raise Malformed(f"{operator} between a label and its value")
            matchers.append((label, operator, self._expect_kind("string")[1:-1]))
            if self.text != "}":
                self._expect(",")
        self._expect("}")
        return matchers

    def _grouping(self) -> None:
        if self.text in ("by", "without"):
            self._next()
            self._labels()

    def _matching(self) -> None:
        if self.text == "bool":
            self._next()
        if self.text in ("on", "ignoring"):
            self._next()
            self._labels()
        if self.text in ("group_left", "group_right"):
            self._next()
            if self.text == "(":
                self._labels()

    def _labels(self) -> None:
        self._expect("(")
        while self.text != ")":
            self.found.grouped.add(self._expect_kind("name"))
            if self.text != ")":
                self._expect(",")
        self._expect(")")

    def _next(self) -> str:
        text = self.text
        if self.kind == "end":
            raise Malformed("it ends too early")
        self._at += 1
        return text

    def _expect(self, text: str) -> None:
        if self.kind == "string" or self.text != text:
            raise Malformed(f"{text!r} is missing before {self.text!r}")
        self._next()

    def _expect_kind(self, kind: str) -> str:
        if self.kind != kind:
            raise Malformed(f"a {kind} is missing before {self.text!r}")
        return self._next()
