"""Mutants of what runs at import: tables, conditions, class bodies and properties, one small change each.

A rule, row, condition, cited fact or word is left out; neighbours of a table change places; a rule decides otherwise, or
asks the opposite; a lambda says yes always, or never. Numbers, True, False, None and comparisons change as mutmut
changes them in functions.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

_ROWS = {"Rule", "_route", "GateRow", "Row"}
"""What the rows of a table are made by; the first argument names the row."""
_TABLES = {"RULES", "ROUTES", "ROWS"}
_WHEN, _WORDS = 1, (5, 6)
"""Places in a `Rule`: its conditions, and what is said to the reader alone."""
_MAY_BE_LEFT_OUT = {"Rule": 7, "Condition": 3, "GateRow": 4}
"""The last argument of each."""
_TERMS = {"CARRY_OUT", "COSTS", "NEVER"}
_SAYS = {"always": "True", "never": "False"}
_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.And: ast.Or, ast.Or: ast.And,
    ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class TableMutant:
    """A module with one change. `words`: it changes what is said to the reader alone, never what is decided."""

    name: str
    source: str
    words: bool


@dataclass(frozen=True)
class _Place:
    """Where a node stands: names from the outside in, whether only words are changed here, whether a table is ordered."""

    names: tuple[str, ...] = ()
    words: bool = False
    ordered: bool = False

    def within(self, name: str) -> _Place:
        return _Place((*self.names, name), self.words or name in _TERMS, name in _TABLES)


def table_mutants(path: Path) -> Iterator[TableMutant]:
    """Yield the mutants of a module that come from what mutmut leaves alone."""
    source = path.read_text(encoding="utf-8")
    taken: dict[str, int] = {}
    for place, what, old, new in _module(ast.parse(source)):
        name = f"{path.stem}.{'.'.join(place.names)}: {what}"
        taken[name] = number = taken.get(name, 0) + 1
        yield TableMutant(name if number == 1 else f"{name} ({number})", _spliced(source, old, new), place.words)


def _spliced(source: str, old: ast.expr, new: str) -> str:
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    start = sum(map(len, lines[: old.lineno - 1])) + old.col_offset
    end = sum(map(len, lines[: (old.end_lineno or old.lineno) - 1])) + (old.end_col_offset or 0)
    data = b"".join(lines)
    return (data[:start] + f"({new})".encode() + data[end:]).decode()


_Change = tuple[_Place, str, ast.expr, str]


def _module(tree: ast.Module | ast.ClassDef, place: _Place = _Place()) -> Iterator[_Change]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name != "__all__":
                yield from _expression(value, place.within(name))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield from _expression(value, place.within(name))
            case ast.ClassDef(name=name):
                yield from _module(node, place.within(name))
            case ast.FunctionDef(name=name, decorator_list=[_, *_]):  # mutmut leaves out what is decorated
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Return) and inner.value is not None:
                        yield from _expression(inner.value, place.within(name))


def _expression(node: ast.expr, place: _Place) -> Iterator[_Change]:
    """Yield the changes of an expression, and of those within it."""
    match node:
        case ast.Subscript() | ast.JoinedStr():  # a type; a text made of values, whose parts have no place before 3.12
            return
        case ast.Call():
            yield from _call(node, place)
            return
        case ast.Lambda(body=body):
            yield from ((place, f"yes {when}", body, new) for when, new in _SAYS.items() if ast.unparse(body) != new)
        case ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.List(elts=parts):
            yield from _fewer(node, parts, place)
            if place.ordered:
                yield from _swapped(node, parts, place)
        case ast.Dict(keys=keys):
            yield from _fewer(node, keys, place)
        case ast.Attribute(value=ast.Name(id="K"), attr=kind):
            yield place, f"K.{kind} becomes another", node, "K.ISOLATE" if kind == "HOLD" else "K.HOLD"
        case _:
            yield from _plain(node, place)
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.expr):
            yield from _expression(part, _Place(place.names, place.words))
        elif isinstance(part, ast.comprehension):
            for inner in (part.iter, *part.ifs):
                yield from _expression(inner, place)


def _call(node: ast.Call, place: _Place) -> Iterator[_Change]:
    name = ast.unparse(node.func)
    if name in _ROWS | {"Condition"} and node.args:
        place = place.within(_short(node))
    last = len(node.args) - 1
    if last >= 0 and last == _MAY_BE_LEFT_OUT.get(name):
        yield place, f"without {_short(node.args[last])}", node, _changed(node, args=node.args[:last])
    for at, arg in enumerate(node.args):
        if name == "Rule" and at == _WHEN and isinstance(arg, ast.Tuple):
            for condition in arg.elts:
                asked = ast.unparse(condition)
                opposite = f"lambda facts: not {asked}.holds(facts)"
                yield place, f"not {asked}", condition, f"w.Condition({asked}.text, {opposite}, {asked}.facts)"
        yield from _expression(arg, _Place(place.names, place.words or (name == "Rule" and at in _WORDS)))
    for keyword in node.keywords:
        yield from _expression(keyword.value, place)


def _plain(node: ast.expr, place: _Place) -> Iterator[_Change]:
    text = ast.unparse(node)
    match node:
        case ast.Constant(value=True | False | None as value):
            new = "0" if value is None else str(not value)
            yield place, f"{value} becomes {new}", node, new
        case ast.Constant(value=int() as number):
            yield place, f"{number} becomes {number + 1}", node, str(number + 1)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield place, f"{text} without not", node, ast.unparse(operand)
        case ast.Compare(ops=[op]) if type(op) in _OTHER:
            yield place, f"{text} the other way", node, _changed(node, ops=[_OTHER[type(op)]()])
        case ast.BoolOp(op=op, values=values):
            yield place, f"{text} with {type(op).__name__} swapped", node, _changed(node, op=_OTHER[type(op)]())
            for at, value in enumerate(values):
                left = [*values[:at], *values[at + 1 :]]
                yield place, f"without {ast.unparse(value)}", node, _changed(node, values=left)
        case ast.BinOp(op=op) if type(op) in _OTHER:
            yield place, f"{text} with | swapped", node, _changed(node, op=_OTHER[type(op)]())


def _fewer(node: ast.expr, parts: list[ast.expr], place: _Place) -> Iterator[_Change]:
    for at, part in enumerate(parts):
        fields = {name: [*held[:at], *held[at + 1 :]] for name, held in ast.iter_fields(node) if isinstance(held, list)}
        new = "set()" if isinstance(node, ast.Set) and len(parts) == 1 else _changed(node, **fields)
        yield place, f"without {_short(part)}", node, new


def _swapped(node: ast.expr, parts: list[ast.expr], place: _Place) -> Iterator[_Change]:
    for at, (one, two) in enumerate(pairwise(parts)):
        elements = [*parts[:at], two, one, *parts[at + 2 :]]
        yield place, f"{_short(two)} before {_short(one)}", node, _changed(node, elts=elements)


def _changed(node: ast.expr, **fields: object) -> str:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return ast.unparse(new)


def _short(node: ast.expr) -> str:
    """Return a short name: the id of a row or condition, else the code."""
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in _ROWS | {"Condition"}:
        node = node.args[0]
    return ast.unparse(node)[:70].strip("'\"")
