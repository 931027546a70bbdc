"""A number of groups, as an item of SELECT: what SQL writes as COUNT(*) of a SELECT in FROM."""

from __future__ import annotations

from sqlglot import exp


class CountedGroups(exp.Expression):
    """How many groups the SELECT in it shows; it reads the dataset itself."""

    arg_types = {"this": True}  # noqa: RUF012 (as sqlglot declares it)


def counts_groups(outer: exp.Select) -> bool:
    """Whether a SELECT counts the rows of the one that it reads, and does nothing else."""
    others = {k for k, v in outer.args.items() if v} - {"expressions", "from_", "where", "with_"}
    if others or len(outer.expressions) != 1:
        return False
    item = outer.expressions[0]
    node = item.this if isinstance(item, exp.Alias) else item
    return isinstance(node, exp.Count) and isinstance(node.this, exp.Star)


def with_some_record(select: exp.Select) -> exp.Select:
    """The SELECT with groups alone that have a record; changes it in place."""
    some = exp.GTE(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
    having = select.args.get("having")
    whole = some if having is None else exp.And(this=exp.Paren(this=having.this), expression=some)
    select.set("having", exp.Having(this=whole))
    return select
