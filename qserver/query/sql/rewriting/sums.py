"""SUM of the counts and sums of an inner SELECT: those of the records of all its groups."""

from __future__ import annotations

from sqlglot import exp

from qserver.query.sql.rewriting.columns import Output

_CUTS = ("having", "limit", "offset", "distinct", "qualify")
_NAMES = (exp.AggFunc, exp.Window, exp.Column, exp.Star)
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)


def adds_up(outer: exp.Select, inner: exp.Select, output: Output) -> bool:
    """Whether an outer SELECT only adds up numbers of the groups of the inner one.

    If so, each SUM(n) is put as `n`, in place, which then means the records of the outer groups.
    """
    group = inner.args.get("group")
    has_sets = group is not None and (group.find(*_SETS) or group.args.get("rollup"))
    if group is None or has_sets or any(inner.args.get(key) for key in _CUTS):
        return False
    sums, rest = list[exp.Expr](), list[exp.Expr]()
    said = [outer.args.get(key) for key in ("where", "group", "having", "order")]
    parts = [part for part in (*outer.expressions, *said) if part is not None]
    for part in (p for whole in parts for p in whole.find_all(*_NAMES)):
        above = part.parent
        if isinstance(part, exp.Sum) and _is_additive(_meant(part.this, output)):
            sums.append(part)
        elif not (isinstance(part, exp.Column) and any(above is one for one in sums)):
            rest.append(part)
    if not sums or not all(_is_group(part, output) for part in rest):
        return False
    for one in sums:
        one.replace(one.this)
    return True


def _meant(node: exp.Expr, output: Output) -> exp.Expr | None:
    is_name = isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier)
    return output.of(node.this) if is_name else None


def _is_group(node: exp.Expr, output: Output) -> bool:
    """Whether it names what the inner SELECT groups by, or an item of the outer one."""
    if not isinstance(node, exp.Column):
        return False
    meant = _meant(node, output)
    return meant is None or meant.find(exp.AggFunc, exp.Window) is None


def _is_additive(node: exp.Expr | None) -> bool:
    """Whether the number of several groups together is the sum of theirs."""
    of = node.this if isinstance(node, exp.Filter) else node
    is_sum = isinstance(of, exp.Count | exp.CountIf | exp.Sum)
    return of is not None and is_sum and of.find(exp.Distinct) is None
