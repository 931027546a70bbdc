"""The function of several sums in an item of SELECT, and its sums."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial

from sqlglot import exp

from qserver.errors import SqlError
from qserver.query.domain import decimal_text
from qserver.query.sql.attributes import Names, constant, quoted
from qserver.query.sql.functions.item_meaning import Linear, Several, product_term
from qserver.query.sql.functions.quantile import Quantile
from qserver.query.sql.functions.thresholds import Bins, QuantileOf
from qserver.query.sql.regions import Functions, ProductTerm
from qserver.query.sql.statistics.moments import (
    Correlation,
    OfMoments,
    OfPairs,
    Regression,
    Spread,
    Standardised,
)
from qserver.query.weights import ScaledWeights

MOST_HIDDEN = Fraction(1, 8)
"""Of a correlation, the most that bins may hide: errors as parts of half the public ranges."""
_QUANTILES = (exp.Quantile, exp.ApproxQuantile, exp.PercentileCont, exp.PercentileDisc)
_CALLED = {"QUANTILE_CONT", "QUANTILE_DISC", "PERCENTILE", "APPROX_PERCENTILE"}
_HALF = Fraction(1, 2)


_VARIANCE = partial(Spread, is_root=False, is_sample=True)
_VARIANCE_POP = partial(Spread, is_root=False, is_sample=False)
_DEVIATION = partial(Spread, is_root=True, is_sample=True)
_DEVIATION_POP = partial(Spread, is_root=True, is_sample=False)
_SPREADS: Mapping[type[exp.Expr], partial[Spread]] = {
    exp.Variance: _VARIANCE,
    exp.VariancePop: _VARIANCE_POP,
    exp.Stddev: _DEVIATION,
    exp.StddevSamp: _DEVIATION,
    exp.StddevPop: _DEVIATION_POP,
}
_REGRESSIONS: Mapping[type[exp.Expr], OfPairs] = {
    exp.CovarPop: "covar_pop",
    exp.CovarSamp: "covar_samp",
    exp.RegrSlope: "slope",
    exp.RegrIntercept: "intercept",
    exp.RegrR2: "r2",
}
_STANDARDISED: Mapping[str, OfMoments] = {
    "SKEWNESS": "skewness",
    "KURTOSIS": "kurtosis",
    "KURTOSIS_POP": "kurtosis_pop",
}


class SeveralReader:
    """Items on one domain."""

    def __init__(self, names: Names, functions: Functions) -> None:
        self._names = names
        self._source = names.source
        self._functions = functions

    def read(self, node: exp.Expr, where: tuple[ProductTerm, ...]) -> Several | None:
        """The function of an aggregate, over the records that meet a condition.

        None for other items.

        Raises:
            SqlError: its attribute is not numeric, or its share not between 0 and 1.
        """
        kinds = (
            *(self._quantile, self._spread, self._extreme),
            *(self._correlation, self._regression, self._standardised),
        )
        found = next((found for kind in kinds if (found := kind(node)) is not None), None)
        return None if found is None else self.on(found, where)

    def on(self, found: Several, where: tuple[ProductTerm, ...]) -> Several:
        """A function of sums over the records that meet a condition."""
        parts = (Linear(self._functions.multiplied(part.terms, where)) for part in found.parts)
        return Several(tuple(parts), found.function, found.error)

    def _quantile(self, node: exp.Expr) -> Several | None:
        if isinstance(node, exp.Median):
            return self._of_thresholds(node.this, _HALF)
        if isinstance(node, exp.WithinGroup) and isinstance(
            node.this, exp.PercentileCont | exp.PercentileDisc
        ):
            return self._within_group(node)
        if isinstance(node, _QUANTILES):
            share = node.args.get("quantile") or node.args.get("expression")
            return self._of_thresholds(node.this, self._share(share, node))
        if isinstance(node, exp.Anonymous) and node.name.upper() in _CALLED:
            if len(node.expressions) != 2:
                raise self._no_share(node)
            of, share = node.expressions
            return self._of_thresholds(of, self._share(share, node))
        return None

    def _within_group(self, node: exp.WithinGroup) -> Several:
        keys = node.expression.expressions if node.expression is not None else []
        if len(keys) != 1:
            raise self._source.refuse(
                "order by one attribute in WITHIN GROUP",
                node,
                hint="Nearest: PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age).",
            )
        share = self._share(node.this.this, node)
        if keys[0].args.get("desc"):
            share = 1 - share
        return self._of_thresholds(keys[0].this, share)

    def _share(self, node: exp.Expr | None, whole: exp.Expr) -> Fraction:
        share = None if node is None else constant(node, self._source)
        if share is None or not 0 < share < 1:
            raise self._no_share(whole)
        return share

    def _no_share(self, node: exp.Expr) -> SqlError:
        return self._source.refuse(
            "say which quantile, by a number between 0 and 1",
            node,
            hint="Nearest: PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x), or QUANTILE(x, 0.5).",
        )

    def _of_thresholds(self, node: exp.Expr, p: Fraction) -> Several:
        days = self._days(node) if p in (0, 1) else None
        values = days or self._numeric(node)
        count = product_term({values.axis: values.weights(lambda _: Fraction(1))})
        of = QuantileOf(p, values, is_day=days is not None)
        return Several((Linear((count,)),), Quantile(of))

    def _extreme(self, node: exp.Expr) -> Several | None:
        if not isinstance(node, exp.Min | exp.Max):
            return None
        if node.expressions:
            raise self._source.refuse("take one attribute there", node, hint="Nearest: MAX(age).")
        return self._of_thresholds(node.this, Fraction(int(isinstance(node, exp.Max))))

    def _spread(self, node: exp.Expr) -> Several | None:
        """A variance or a deviation; of a sample by default, as in most databases."""
        if (kind := _SPREADS.get(type(node))) is None:
            return None
        values = self._numeric(node.this)
        terms = (product_term({values.axis: w}) for w in _moments(values))
        function = kind(values.radius)
        return Several(
            tuple(Linear((term,)) for term in terms), function, function.error(values.error)
        )

    def _correlation(self, node: exp.Expr) -> Several | None:
        if not isinstance(node, exp.Corr):
            return None
        x, y = self._numeric(node.this), self._numeric(node.expression)
        if x.axis == y.axis:
            raise self._source.refuse(
                "correlate two attributes", node, hint="Nearest: CORR(age, income)."
            )
        self._check_bins(node, x, y)
        function = Correlation((x.radius, y.radius), (x.error, y.error))
        return Several(_sums_of_both(x, y), function)

    def _regression(self, node: exp.Expr) -> Several | None:
        kind = _REGRESSIONS.get(type(node))
        if kind is None:
            return None
        y, x = self._numeric(node.this), self._numeric(node.expression)
        if x.axis == y.axis or x.error or y.error or not (x.radius and y.radius):
            raise self._source.refuse(
                "take two attributes there of several values, in which each bin is one value",
                node,
                hint="Nearest: CORR(age, income).",
            )
        function = Regression(kind, (x.middle, y.middle), (x.radius, y.radius))
        return Several(_sums_of_both(x, y), function)

    def _standardised(self, node: exp.Expr) -> Several | None:
        is_known = isinstance(node, exp.Skewness | exp.Kurtosis | exp.Anonymous)
        called = node.name if isinstance(node, exp.Anonymous) else node.key
        kind = _STANDARDISED.get(called.upper()) if is_known else None
        if kind is None:
            return None
        given = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
        if len(given) != 1:
            raise self._source.refuse("take one attribute there", node)
        values = self._numeric(given[0])
        if values.error or not values.radius:
            raise self._source.refuse(
                "take an attribute there of several values, in which each bin is one value",
                node,
                hint="Nearest: STDDEV(x).",
            )
        r = values.radius
        weights = [
            values.weights(lambda _: Fraction(1)),
            values.weights(lambda y: y / r),
            values.weights(lambda y: (y / r) ** 2 - _HALF),
            values.weights(lambda y: (y / r) ** 3),
        ]
        if kind != "skewness":
            weights.append(values.weights(lambda y: (y / r) ** 4 - _HALF))
        terms = (product_term({values.axis: of}) for of in weights)
        return Several(tuple(Linear((term,)) for term in terms), Standardised(kind))

    def _check_bins(self, node: exp.Corr, *both: Bins) -> None:
        """Refuse bins too wide to determine the correlation."""
        hidden = [values.error / values.radius if values.radius else Fraction(1) for values in both]
        if sum(hidden) >= MOST_HIDDEN:
            worst = both[hidden.index(max(hidden))]
            name = self._names.domain.names[worst.axis]
            raise self._source.refuse(
                f"correlate attributes with narrow bins: in `{name}` values may be "
                f"{decimal_text(worst.error)} from the middle of their bin",
                node,
                hint="Nearest: averages of one by groups of the other.",
            )

    def _days(self, node: exp.Expr) -> Bins | None:
        """The first days of an attribute in the order of time; None for anything else."""
        node = node.unnest()
        if not isinstance(node, exp.Column) or self._names.level(node) is not None:
            return None
        axis = self._names.axis(node)
        attribute = self._names.domain.attributes[axis]
        return Bins.of_days(attribute, axis) if attribute.is_timed else None

    def _numeric(self, node: exp.Expr) -> Bins:
        node = node.unnest()
        hint = "Nearest: MEDIAN(age), of one numeric attribute."
        if not isinstance(node, exp.Column) or self._names.level(node) is not None:
            raise self._source.refuse("name one numeric attribute there", node, hint=hint)
        axis = self._names.axis(node)
        attribute = self._names.domain.attributes[axis]
        if not attribute.is_numeric:
            raise self._source.refuse(
                f"have numbers there: `{attribute.name}` has none",
                node,
                hint=f"Nearest: COUNT(*) with GROUP BY {quoted(attribute.name)}.",
            )
        return Bins.of(attribute, axis)


def _sums_of_both(x: Bins, y: Bins) -> tuple[Linear, ...]:
    """N, Sx, Qx, Sy, Qy and P, over the records that have both."""
    (one_x, first_x, second_x), (one_y, first_y, second_y) = _moments(x), _moments(y)
    pairs = (
        *((one_x, one_y), (first_x, one_y), (second_x, one_y)),
        *((one_x, first_y), (one_x, second_y), (first_x, first_y)),
    )
    return tuple(Linear((product_term({x.axis: of_x, y.axis: of_y}),)) for of_x, of_y in pairs)


def _moments(values: Bins) -> tuple[ScaledWeights, ScaledWeights, ScaledWeights]:
    """1, y and y^2 - r^2 / 2 of each value, where y is its distance from the middle."""
    half = values.radius**2 / 2
    return (
        values.weights(lambda _: Fraction(1)),
        values.weights(lambda y: y),
        values.weights(lambda y: y * y - half),
    )
