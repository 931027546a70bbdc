"""Read HAVING, LIMIT, OFFSET and FETCH FIRST."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from qserver.query.sql.attributes import Names, constant
from qserver.query.sql.logic import of_two
from qserver.query.sql.select.items import check_parts
from qserver.query.sql.text import SqlText

MOST_ROWS = 10**9


@dataclass(frozen=True)
class Cut:
    """LIMIT and OFFSET; a limit of None shows all."""

    limit: int | None = None
    offset: int = 0


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
        for part in self.public:
            where = part if where is None else of_two(exp.And, where, part)
        return where


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


def _is_public(node: exp.Expr, names: Names) -> bool:
    """Whether a condition is about attributes alone."""
    parts = list(node.walk())
    has_numbers = any(isinstance(part, exp.AggFunc) for part in parts)
    columns = [part for part in parts if isinstance(part, exp.Column)]
    return bool(columns) and not has_numbers and all(map(names.is_known, columns))
