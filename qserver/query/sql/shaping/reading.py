"""Read HAVING, ORDER BY, LIMIT, OFFSET and FETCH FIRST."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.domain import decimal_text
from qserver.query.sql.attributes import Names, constant
from qserver.query.sql.regions import ALL
from qserver.query.sql.shaping.groups import Grouping, Groups, GroupValue
from qserver.query.sql.shaping.items import Item, Items, check_parts, written
from qserver.query.sql.shaping.ranks import Rank
from qserver.query.sql.shaping.rounding import unrounded
from qserver.query.sql.shaping.shape import Compare, Comparison, Every, Missing, Opposite, Test
from qserver.query.sql.shaping.windows import Windows
from qserver.query.sql.tables.exactness import UNSAID, Exactness
from qserver.query.sql.text import SqlText

_COMPARISONS: dict[type[exp.Expr], Comparison] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
MOST_ROWS = 10**9
_HAVING = "Nearest: HAVING COUNT(*) > 100, by the released number."


@dataclass(frozen=True)
class Key:
    """What ORDER BY names: a grouping or a column of numbers, by its index."""

    grouping: int | None
    column: int | None
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Cut:
    """LIMIT and OFFSET; a limit of None shows all."""

    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class RankItem:
    """A rank among groups: of which column, among which groups; as of a `Rank`."""

    name: str
    column: int
    descending: bool
    partition: frozenset[int]
    breaks_ties: bool

    def of(self, places: Sequence[tuple[int, ...]], unnamed: Container[int]) -> Rank:
        """The column of ranks, where these are the places of each row's groups.

        Args:
            unnamed: the rows with NULL among their groups.
        """
        keys = [tuple(row[k] for k in sorted(self.partition)) for row in places]
        numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        parties = tuple(None if i in unnamed else numbers[key] for i, key in enumerate(keys))
        return Rank(self.name, self.column, self.descending, parties, self.breaks_ties)


_NOT_TOTAL = (GroupValue("0", ALL),)
_RANKS = exp.Rank | exp.RowNumber | exp.DenseRank


@dataclass
class Columns:
    """The columns of numbers, by what they are; HAVING and ORDER BY may add some.

    Args:
        nodes, digits, names, exactness, stops: per column what is measured, to how many digits it
            is rounded (None for not at all), what it is called, how exact it shall be, and where
            its item ends in the text; None where none is.
        place: per item of SELECT the index of its column; None for a group.
        grouping: per item of SELECT the index of its grouping; None for a number.
        constants: items that are one value, as groupings with this value alone.
        tied: per index of GROUPING(a), as a grouping, that of `a`: it is 1 where `a` is left out.
        ranks: items that are ranks, by their index.
    """

    nodes: list[exp.Expr] = field(default_factory=list)
    digits: list[int | None] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    exactness: list[Exactness] = field(default_factory=list)
    stops: list[int | None] = field(default_factory=list)
    place: list[int | None] = field(default_factory=list)
    grouping: list[int | None] = field(default_factory=list)
    constants: list[Grouping] = field(default_factory=list)
    tied: dict[int, int] = field(default_factory=dict)
    ranks: dict[int, Item] = field(default_factory=dict)

    @classmethod
    def of(cls, items: Items, groupings: Sequence[Grouping], groups: Groups) -> Columns:
        """The columns of a SELECT."""
        found = cls()
        for i, item in enumerate(items.found):
            which = groups.index_of(item.node, groupings)
            is_rank = isinstance(item.node, exp.Window) and isinstance(item.node.this, _RANKS)
            if which is None and isinstance(item.node, exp.Grouping):
                which = len(groupings) + len(found.constants)
                found.tied[which] = _totalled(item.node, groupings, groups, items.source)
                found.constants.append(Grouping(item.name, item.node, None, _NOT_TOTAL, "1"))
            if which is None and (one := _one_value(item, items.source)) is not None:
                which = len(groupings) + len(found.constants)
                found.constants.append(one)
            is_number = which is None and not is_rank
            if not is_number and item.exactness != UNSAID:
                raise items.source.refuse("have WITHIN behind numbers, not groups", item.node)
            found.grouping.append(which)
            found.place.append(len(found.nodes) if is_number else None)
            if is_rank:
                found.ranks[i] = item
            elif is_number:
                node, digits = unrounded(item.node, items.source)
                found.nodes.append(node)
                found.digits.append(digits)
                found.names.append(item.name)
                found.exactness.append(item.exactness)
                found.stops.append(item.stop)
        return found

    @property
    def are_groups(self) -> bool:
        """Whether every item is a group."""
        return all(which is not None for which in self.grouping)

    def constants_of(self, one: Sequence[int], n_groupings: int) -> Iterator[int]:
        """The groupings with one value alone that have it where these groupings group."""
        for k, one_value in enumerate(self.constants, start=n_groupings):
            if one_value.values and (k not in self.tied or self.tied[k] in one):
                yield k

    @property
    def exact(self) -> tuple[Exactness, ...]:
        """Per column how exact it shall be; empty where none says it."""
        is_said = any(one != UNSAID for one in self.exactness)
        return tuple(self.exactness) if is_said else ()

    def index(self, node: exp.Expr, source: SqlText) -> int:
        """The column that is written so; a new one where there is none."""
        if node not in self.nodes:
            self.nodes.append(node)
            self.digits.append(None)
            self.names.append(written(node, source))
            self.exactness.append(UNSAID)
            self.stops.append(None)
        return self.nodes.index(node)


@dataclass(frozen=True)
class Having:
    """HAVING, cut into conditions on groups, which are public, and the others."""

    public: tuple[exp.Expr, ...] = ()
    others: tuple[exp.Expr, ...] = ()

    @classmethod
    def of(cls, select: exp.Select, names: Names) -> Having:
        """The HAVING of a SELECT."""
        having = select.args.get("having")
        if having is None:
            return cls()
        n_tests = sum(isinstance(part, exp.Predicate) for part in having.this.walk())
        check_parts(n_tests, "HAVING")
        whole = having.this.unnest()
        parts = list(whole.flatten()) if isinstance(whole, exp.And) else [whole]
        public = [part for part in parts if _is_public(part, names)]
        return cls(tuple(public), tuple(part for part in parts if part not in public))

    def where(self, where: exp.Expr | None) -> exp.Expr | None:
        """WHERE and the conditions on groups: which groups there are."""
        found = where
        for part in self.public:
            if found is None:
                found = part
                continue
            # No copy: the parts keep their places in the text.
            both = exp.And()
            both.args = {"this": found, "expression": part}
            found = both
        return found


class ShapeReader:
    """Reads what shapes a table, in terms of its groupings and columns."""

    def __init__(
        self,
        names: Names,
        items: Items,
        groupings: Sequence[Grouping],
        groups: Groups,
        columns: Columns,
    ) -> None:
        self._names = names
        self._source = names.source
        self._items = items
        self._groupings = groupings
        self._groups = groups
        self._columns = columns
        self._ranks: dict[int, RankItem] = {}

    def ranks(self, windows: Windows) -> tuple[RankItem, ...]:
        """The ranks that SELECT lists; to be read before `keys`.

        Raises:
            SqlError: one ranks by something else than one number of the table.
        """
        check_parts(len(self._columns.ranks), "SELECT, of ranks,")
        self._ranks = {i: self._rank(item, windows) for i, item in self._columns.ranks.items()}
        return tuple(self._ranks.values())

    def _rank(self, item: Item, windows: Windows) -> RankItem:
        node = cast("exp.Window", item.node)
        order = node.args.get("order")
        hint = "Nearest: RANK() OVER (ORDER BY COUNT(*) DESC)."
        if isinstance(node.this, exp.DenseRank):
            raise self._source.refuse(
                "rank by RANK or ROW_NUMBER: how many different numbers there are is not known",
                node,
                hint=hint,
            )
        if order is None or not self._groupings or node.args.get("spec"):
            raise self._source.refuse("rank groups by a number of the table", node, hint=hint)
        by, *others = self.keys(order)
        if by.column is None or any(other.grouping is None for other in others):
            raise self._source.refuse("rank groups by one number of the table", order, hint=hint)
        breaks = isinstance(node.this, exp.RowNumber)
        return RankItem(item.name, by.column, by.descending, windows.partition(node), breaks)

    def test(self, having: Having) -> Test | None:
        """The test of the released numbers; None for none.

        Raises:
            SqlError: it tests something else than numbers of the table, and groups.
        """
        for part in having.public:
            for column in part.find_all(exp.Column):
                if not any(self._groups.is_of(column, one) for one in self._groupings):
                    raise self._source.refuse(
                        "group by each attribute that HAVING names", column, hint=_HAVING
                    )
        tests = tuple(self._test(part) for part in having.others)
        return Every(tests) if tests else None

    def keys(self, order: exp.Order | None) -> tuple[Key, ...]:
        """What ORDER BY names.

        Raises:
            SqlError: it names neither a group nor a number of the table.
        """
        nodes = [] if order is None else order.expressions
        check_parts(len(nodes), "ORDER BY")
        return tuple(
            self._key(node.this, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))
            for node in nodes
        )

    def cut(self, select: exp.Expr) -> Cut:
        """LIMIT or FETCH FIRST, and OFFSET; raises as `cut_of` does."""
        return cut_of(select, self._source)

    def _key(self, node: exp.Expr, descending: bool, nulls_first: bool) -> Key:  # noqa: FBT001
        node = node.unnest()
        at = self._items.at_position(node)
        at = self._items.of_alias(node) if at is None else at
        if at is not None:
            if (rank := self._ranks.get(at)) is not None:
                if rank.partition:
                    raise self._source.refuse("order by the number that it ranks by", node)
                # The first rank has the least, or the greatest, number.
                return Key(None, rank.column, rank.descending != descending, nulls_first)
            which, column = self._columns.grouping[at], self._columns.place[at]
            return Key(which, column, descending, nulls_first)
        for k, grouping in enumerate(self._groupings):
            if self._groups.is_of(node, grouping):
                return Key(k, None, descending, nulls_first)
        return Key(None, self._number(node), descending, nulls_first)

    def _number(self, node: exp.Expr) -> int:
        """The column of a number that the text names or writes out."""
        node = node.unnest()
        at = self._items.of_alias(node)
        column = None if at is None else self._columns.place[at]
        if column is not None:
            return column
        if isinstance(node, exp.Column):
            axis = self._names.axis(node)
            raise self._source.refuse(
                f"group by `{self._names.domain.names[axis]}` to order or choose by it", node
            )
        if not any(isinstance(part, exp.AggFunc) for part in node.walk()):
            raise self._source.refuse("order and choose by groups and numbers of the table", node)
        at = self._items.same_as(node)
        column = None if at is None else self._columns.place[at]
        return self._columns.index(node, self._source) if column is None else column

    def _test(self, node: exp.Expr) -> Test:
        node = node.unnest()
        if isinstance(node, exp.Not):
            return Opposite(self._test(node.this))
        if isinstance(node, exp.And):
            return Every(tuple(self._test(part) for part in node.flatten()))
        if isinstance(node, exp.Or):
            # One holds unless none does.
            return Opposite(Every(tuple(Opposite(self._test(p)) for p in node.flatten())))
        if isinstance(node, exp.Between):
            of = self._side(node.this)
            low, high = self._side(node.args["low"]), self._side(node.args["high"])
            return Every((Compare(of, ">=", low), Compare(of, "<=", high)))
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return Missing(self._number(node.this))
        by = _COMPARISONS.get(type(node))
        if by is None:
            raise self._no_test(node)
        return Compare(self._side(node.this), by, self._side(node.expression))

    def _side(self, node: exp.Expr) -> int | Fraction:
        number = constant(node, self._source)
        return self._number(node) if number is None else number

    def _no_test(self, node: exp.Expr) -> SqlError:
        return self._source.refuse(
            "compare numbers of the table with numbers in HAVING", node, hint=_HAVING
        )


def cut_of(select: exp.Expr, source: SqlText) -> Cut:
    """LIMIT or FETCH FIRST, and OFFSET.

    Raises:
        SqlError: they are no whole numbers, or ask for a part in percent, or for ties.
    """
    limit, offset = select.args.get("limit"), select.args.get("offset")
    found = None
    if isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise source.refuse(
                "fetch a number of rows", limit, hint="Nearest: FETCH FIRST 5 ROWS ONLY."
            )
        count = limit.args.get("count")
        found = 1 if count is None else _whole(count, source, least=1)
    elif limit is not None:
        found = _whole(limit.expression, source, least=1)
    return Cut(found, 0 if offset is None else _whole(offset.expression, source, least=0))


def _whole(node: exp.Expr, source: SqlText, *, least: int) -> int:
    number = constant(node, source)
    if number is None or number.denominator != 1 or not least <= number <= MOST_ROWS:
        raise source.refuse(f"give a whole number of rows, at least {least}", node)
    return int(number)


def _totalled(
    node: exp.Grouping, groupings: Sequence[Grouping], groups: Groups, source: SqlText
) -> int:
    """The grouping that GROUPING(a) is about."""
    which = groups.index_of(node.expressions[0], groupings) if node.expressions else None
    if which is None or len(node.expressions) > 1:
        raise source.refuse("give GROUPING one part of GROUP BY", node)
    return which


def _one_value(item: Item, source: SqlText) -> Grouping | None:
    """A text, a number, a truth value or NULL among the items, as a group; None for another."""
    node = item.node
    if isinstance(node, exp.Null):
        return Grouping(item.name, node, None, ())
    if isinstance(node, exp.Boolean):
        name = str(bool(node.this)).lower()
    elif isinstance(node, exp.Literal) and node.is_string:
        name = node.this
    else:
        number = constant(node, source)
        if number is None:
            return None
        name = decimal_text(number)
    return Grouping(item.name, node, None, (GroupValue(name, ALL),))


def _is_public(node: exp.Expr, names: Names) -> bool:
    """Whether a condition is about attributes alone."""
    parts = list(node.walk())
    has_numbers = any(isinstance(part, exp.AggFunc) for part in parts)
    columns = [part for part in parts if isinstance(part, exp.Column)]
    return bool(columns) and not has_numbers and all(map(names.is_known, columns))
