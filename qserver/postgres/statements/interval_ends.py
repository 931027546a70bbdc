"""Ends of intervals by name: of a number `x` the columns `x_low` and `x_high` in an item of SELECT.

`SELECT AVG(age), AVG(age_low), AVG(age_high) FROM people` are a number and the ends of its
interval, for tools that make each of their numbers from a column of the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Final

from qserver.postgres.column_choice import Sort, picked
from qserver.postgres.results import Plan
from qserver.postgres.wire.faults import SYNTAX, PostgresError
from qserver.postgres.wire.texts import Text
from qserver.postgres.wire.values import Column
from qserver.query.domain import Domain
from qserver.query.sql.statement import MAX_CELLS
from qserver.query.sql.text import Piece, explains

ENDS: Final = ("_low", "_high")


_CLAUSES: Final = frozenset(
    ["WHERE", "GROUP", "HAVING", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "FETCH", "WITHIN", "UNION"]
)
_WAYS: Final = frozenset(["ASC", "DESC", "NULLS", "FIRST", "LAST"])


@dataclass(frozen=True)
class _Item:
    """An item of SELECT.

    Args:
        end: which end of its number it is; '' for the number itself, or a group.
        name: what it is called in the text, or the text itself.
        of: its words without its name, as they are of the number itself.
    """

    parts: Sequence[Piece]
    end: str
    name: str
    of: tuple[str, ...]


def ends_of(domain: Domain) -> tuple[str, ...]:
    """The names of the ends of the numeric attributes; an attribute keeps its own name."""
    taken = {*domain.names, *domain.level_names}
    numbers = [a.name for a in domain.attributes if a.is_numeric]
    return tuple(f"{name}{end}" for name in numbers for end in ENDS if f"{name}{end}" not in taken)


def with_ends(text: Text, domain: Domain, plan_of: Callable[[Text], Plan]) -> Plan | None:
    """The plan of a text that names ends; None for another. PostgresError."""
    aliases = {piece.name for before, piece in pairwise(text.pieces) if before.upper == "AS"}
    known = {*ends_of(domain), *(f"{name}{end}" for name in aliases for end in ENDS)}
    known = {name.lower() for name in known - {*domain.names, *domain.level_names}}
    if not any(_is_end(piece, known) for piece in text.pieces):
        return None
    items = [_item(text, parts, known) for parts in _items(text.pieces)]
    order = _order(text, items, known)
    text = text if order is None else order.rest
    inside = {piece.start for item in items for piece in item.parts}
    names = {item.name for item in items if item.end}
    for piece in text.pieces:
        if piece.start not in inside and (_is_end(piece, known) or piece.name in names):
            raise _misplaced(text, piece)
    asked = [_asked(items, item) for item in items]
    of = plan_of(_of_numbers(text, items, asked, known))
    if explains(text.text):
        return of
    picks = partial(_picks, items=items, asked=asked)
    if order is None:
        return picked(of, picks)
    by = replace(order.of, end=order.end)
    alike = next(one for one, item in zip(asked, items, strict=True) if item is order.of)

    def sorts(told: Sequence[Column]) -> Sort:
        [(place, _)] = _picks(told, [*items, by], [*asked, alike])[-1:]
        return Sort(place, is_down=order.is_down, nulls_first=order.nulls_first)

    return picked(of, picks, sorts=sorts)


@dataclass(frozen=True)
class _Order:
    """An order by the end of a number.

    Args:
        rest: the text without it.
        of: the item that has the number.
    """

    rest: Text
    of: _Item
    end: str
    is_down: bool
    nulls_first: bool


def _order(text: Text, items: Sequence[_Item], known: Collection[str]) -> _Order | None:
    """The order of a text, if by one end; PostgresError if that order chooses rows."""
    outer = [piece for depth, piece in _deep(text.pieces) if depth == 0]
    words = [piece.upper for piece in outer]
    i = next((i for i, word in enumerate(words) if word == "ORDER"), len(words))
    if words[i + 1 : i + 2] != ["BY"]:
        return None
    start = outer[i + 1].stop
    stop = next((p.start for p in outer[i + 2 :] if p.upper in _CLAUSES), len(text.text))
    parts = [piece for piece in text.pieces if start <= piece.start < stop]
    said = [piece.upper for piece in parts]
    ways = [word for word in said if word in _WAYS]
    key = parts[: len(parts) - len(ways)]
    found = _item(text, key, known) if key and "," not in said else None
    if found is None or set(said[len(key) :]) - _WAYS:
        return None
    at = {str(i): item for i, item in enumerate(items, 1)}.get(found.name)
    alike = (item for item in items if found.name == item.name or found.of == item.of)
    of = at or next(alike, None)
    end = found.end or (of.end if of else "")
    if of is None or not end:
        return None
    limit = next((n.text for p, n in pairwise(outer) if p.upper == "LIMIT"), "")
    if "OFFSET" in words or "FETCH" in words or (limit and not _takes_all(limit)):
        raise _misplaced(text, key[0])
    last = next((n.stop for p, n in pairwise(outer) if p.upper == "LIMIT"), stop)
    begin, last = outer[i].start, max(stop, last)
    rest = text.text[:begin] + " " * (last - begin) + text.text[last:]
    down = "DESC" in ways
    first = "FIRST" in ways or (down and "LAST" not in ways)
    return _Order(Text(rest, text.start), of, end, down, first)


def _takes_all(limit: str) -> bool:
    """Whether a LIMIT lets every table through, so that it chooses nothing."""
    return limit.isdecimal() and int(limit[:10]) >= MAX_CELLS


def _is_end(piece: Piece, known: Collection[str]) -> bool:
    return piece.kind in ("word", "name") and piece.name.lower() in known


def _items(parts: Sequence[Piece]) -> Iterator[list[Piece]]:
    """The items of the outermost SELECT, the first outside parentheses."""
    item, begun = list[Piece](), False
    for depth, piece in _deep(parts):
        if depth == 0 and begun and piece.upper in (",", "FROM"):
            yield item
            item = []
            if piece.upper == "FROM":
                return
        elif begun:
            item.append(piece)
        begun |= depth == 0 and piece.upper == "SELECT"


def _deep(parts: Sequence[Piece]) -> Iterator[tuple[int, Piece]]:
    """Each part with its depth in parentheses."""
    depth = 0
    for piece in parts:
        depth += {"(": 1, ")": -1}.get(piece.text, 0) if piece.kind == "sign" else 0
        yield depth, piece


def _item(text: Text, parts: Sequence[Piece], known: Collection[str]) -> _Item:
    """The meaning of an item; PostgresError for a calculation with an end."""
    if not parts:
        return _Item(parts, "", "", ())
    said, own = text.text[parts[0].start : parts[-1].stop], parts
    before = parts[-2].upper if len(parts) > 2 else ""
    if all(p.kind in ("word", "name") or p.text == "." for p in parts):
        said = parts[-1].name
    if before in ("AS", ")") and parts[-1].kind in ("word", "name"):
        said, own = parts[-1].name, parts[: -2 if before == "AS" else -1]
    of = [piece for piece in own if _is_end(piece, known)]
    # Nothing is calculated with an end: minus a lower end is an upper one.
    mixes = len(of) > 1 or any(p.kind == "sign" and p.text not in "().:" for p in own)
    if (of and mixes) or own[-1].text == "*":
        raise _misplaced(text, (of or own)[0])
    end = next((end for p in of for end in ENDS if p.name.lower().endswith(end)), "")
    words = [replace(p, text=_short(p).strip()) if p in of else p for p in own]
    return _Item(parts, end, said, tuple(word.upper for word in words))


def _short(piece: Piece) -> str:
    """The name of the number itself, as long as that of its end."""
    end = next(end for end in ENDS if piece.name.lower().endswith(end))
    quote = piece.text[-1:] if piece.kind == "name" else ""
    short = piece.text[: len(piece.text) - len(end) - len(quote)]
    return short + quote + " " * len(end)


def _asked(items: Sequence[_Item], item: _Item) -> _Item:
    """The item that asks for the same number, which would otherwise be paid twice."""
    alike = [one for one in items if one.of == item.of]
    return item if not item.end else min(alike, key=lambda one: one.end != "")


def _misplaced(text: Text, piece: Piece) -> PostgresError:
    name = piece.name[:60]
    return PostgresError(
        SYNTAX,
        f"`{name}` is an end of one number: only the items of SELECT may name it.",
        hint="Such as AVG(x), AVG(x_low), AVG(x_high); order and choose by AVG(x).",
        position=text.start + piece.start + 1,
    )


def _of_numbers(
    text: Text, items: Sequence[_Item], asked: Sequence[_Item], known: Collection[str]
) -> Text:
    """The text about the numbers themselves, each once and every character in place."""
    edits = [(piece.start, _short(piece)) for piece in text.pieces if _is_end(piece, known)]
    kept, places = list[_Item](), dict[str, int]()
    for i, (item, one) in enumerate(zip(items, asked, strict=True)):
        if one is item:
            kept.append(item)
            places |= {} if item.end else {str(i + 1): len(kept)}
            continue
        start = items[i - 1].parts[-1].stop if kept else item.parts[0].start
        stop = item.parts[-1].stop if kept else items[i + 1].parts[0].start
        edits.append((start, " " * (stop - start)))
    for piece in _positions(text.pieces):
        if piece.text not in places:
            raise _misplaced(text, piece)
        edits.append((piece.start, str(places[piece.text]).ljust(len(piece.text))))
    found = text.text
    for at, words in edits:
        found = found[:at] + words + found[at + len(words) :]
    return Text(found, text.start)


def _positions(parts: Sequence[Piece]) -> Iterator[Piece]:
    """The numbers of items behind GROUP BY and ORDER BY."""
    clause, last = "", ""
    for depth, piece in _deep(parts):
        if depth == 0 and piece.upper in _CLAUSES:
            clause = piece.upper
        is_one = piece.kind == "number" and last in ("BY", ",") and depth == 0
        if is_one and clause in ("GROUP", "ORDER"):
            yield piece
        last = piece.upper


def _picks(
    told: Sequence[Column], items: Sequence[_Item], asked: Sequence[_Item]
) -> list[tuple[int, str]]:
    """The columns of the items; PostgresError if an end belongs to no number."""
    places, k = dict[int, int](), 0
    for item, one in zip(items, asked, strict=True):
        if one is not item:
            continue
        places[id(item)] = k
        name = told[k].name if k < len(told) else ""
        k += 3 if [c.name for c in told[k + 1 : k + 3]] == [name + end for end in ENDS] else 1
        while k < len(told) and told[k].name == f"{name}_consistent":
            k += 1
    found = list[tuple[int, str]]()
    for item, one in zip(items, asked, strict=True):
        at = places[id(one)]
        if item.end:
            at += 1 + ENDS.index(item.end)
            if at >= len(told) or told[at].name != told[places[id(one)]].name + item.end:
                raise PostgresError(SYNTAX, f"`{item.name[:60]}` is the end of no number here.")
        found.append((at, item.name if item.end else told[at].name))
    return found
