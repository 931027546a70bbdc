"""Marginal models made from history: tables fine and coarse, rows inside them, purchases."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qserver.answering.models.kinds.marginals_kind import MarginalsKind
from qserver.answering.models.kinds.reduced_history import reduced_history
from qserver.answering.models.kinds.tables_to_buy import RECORDS, n_records
from qserver.errors import CapacityError, InputError
from qserver.query.class_grid import product_partition
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from qserver.records.history import Measurement, TableMeasurement

SIZES = (10, 3, 4)
DOMAIN = Domain(
    tuple(
        Attribute(name, "labels", labels=tuple(f"{name}{i}" for i in range(n)))
        for name, n in zip(("age", "sex", "job"), SIZES, strict=True)
    )
)
TRUTH = np.random.default_rng(1).multinomial(
    5_000, np.random.default_rng(2).dirichlet(np.ones(120))
)
TRUTH = TRUTH.reshape(SIZES)
BANDS = np.arange(10) // 4
STEP = Fraction(1, 1 << 20)
# So little noise that the model must come to the truth.
SHARP = 10**11


def table(number, parts, *, alpha_nano=SHARP, truth=TRUTH):
    """A released table of these labels per axis, without noise beyond the lattice."""
    partition = product_partition(SIZES, parts)
    counts = np.zeros(partition.shape, dtype=np.int64)
    labels = [a.dense for a in partition.axes]
    summed = truth.sum(axis=tuple(i for i in range(3) if i not in [a.axis for a in partition.axes]))
    np.add.at(counts, np.ix_(*labels) if labels else (), summed)
    indices = tuple(int(c) << 20 for c in counts.ravel())
    return TableMeasurement(number, partition, alpha_nano, STEP, indices)


def row(number, query, *, alpha_nano=SHARP):
    """A released row without noise beyond the lattice."""
    found = primitive(query)
    value = Fraction(0)
    for cell in np.ndindex(*SIZES):
        weight = sum(
            t.coefficient * np.prod([w.at(cell[a]) for a, w in t.by_axis.items()])
            for t in found.row.terms
        )
        value += Fraction(weight) * int(TRUTH[cell])
    return Measurement(number, found.row, found.key, alpha_nano, STEP, int(value / STEP))


def fine(*axes):
    return {a: range(SIZES[a]) for a in axes}


def model(measurements, document=None):
    kind = MarginalsKind()
    return kind.build(kind.read(document or {}, DOMAIN), DOMAIN, measurements)


def count(weights):
    return linear_query(SIZES, [(1, weights)])


def test_a_model_gives_back_the_tables_it_was_made_from():
    found = model([table(0, fine(0, 1)), table(1, fine(1, 2))])
    answered = found.ask({"marginal": ["job", "sex"]}).document
    assert_allclose(answered["probabilities"], TRUTH.sum(axis=0).T / 5_000, atol=2e-4)
    assert answered["variables"] == ["job", "sex"]
    assert answered["labels"][1] == ["sex0", "sex1", "sex2"]
    assert answered["is_held"] is True


def test_a_coarse_table_and_a_fine_one_are_both_explained():
    """Bands of ages by job, ages by sex: the model's ages are ten values, told apart by one."""
    found = model([table(0, {0: BANDS, 2: range(4)}), table(1, fine(0, 1))])
    assert found.reduced.sizes == (10, 3, 4)
    low = count({0: interval(10, 0, 4), 2: interval(4, 1, 2)})
    assert_allclose(found.count(low), TRUTH[:4, :, 1].sum(), atol=1.0)
    age = count({0: interval(10, 6, 7), 1: interval(3, 0, 1)})
    assert_allclose(found.count(age), TRUTH[6, 0].sum(), atol=1.0)


def test_values_that_no_table_tells_apart_are_taken_as_equally_likely():
    found = model([table(0, {0: BANDS})])
    assert found.reduced.sizes == (3,)
    assert_allclose(found.count(count({0: interval(10, 0, 1)})), TRUTH[:4].sum() / 4, atol=1.0)
    assert_allclose(found.count(count({0: interval(10, 8, 10)})), TRUTH[8:].sum(), atol=1.0)


def test_a_row_inside_a_table_s_attributes_sharpens_the_model():
    """A noisy table and a sharp row on a range of it: the model follows the row."""
    noisy = table(0, fine(0, 1), alpha_nano=10**7)
    shifted = TableMeasurement(
        0, noisy.partition, noisy.alpha_nano, STEP, tuple(i + (60 << 20) for i in noisy.indices)
    )
    sharp = row(1, count({0: interval(10, 2, 5), 1: interval(3, 0, 1)}))
    inside = count({0: interval(10, 2, 5), 1: interval(3, 0, 1)})
    without, with_row = model([shifted]), model([shifted, sharp])
    truth = TRUTH[2:5, 0].sum()
    assert abs(without.count(inside) - truth) > 20
    assert abs(with_row.count(inside) - truth) < 2
    assert with_row.reduced.ids == (0, 1)


def test_a_row_outside_every_table_is_left_out():
    found = model(
        [table(0, fine(0, 1)), row(1, count({1: interval(3, 0, 1), 2: interval(4, 0, 1)}))]
    )
    assert found.reduced.ids == (0,)
    assert found.describe()["n_left_out"] == 1


def test_an_attribute_without_a_table_is_not_answered():
    found = model([table(0, fine(0, 1))])
    with pytest.raises(InputError, match="`attribute` must be one that history has a table of"):
        found.count(count({2: interval(4, 0, 1)}))


def test_a_history_without_tables_makes_no_model():
    with pytest.raises(InputError, match=r"`epsilon` must be above zero.*no table: buy one"):
        MarginalsKind().used("{}", DOMAIN, [row(0, count({0: interval(10, 0, 5)}))])


def test_the_total_of_a_public_row_is_taken_as_it_is():
    total = row(1, count({}), alpha_nano=0)
    found = model([table(0, fine(0, 1), alpha_nano=10**7), total])
    assert found.estimate.total == 5_000


def test_a_longer_history_goes_on_from_the_earlier_model():
    kind = MarginalsKind()
    specification = kind.read({"oracle": "saturated"}, DOMAIN)
    before = [table(0, fine(0, 1), alpha_nano=10**8), table(1, fine(1, 2), alpha_nano=10**8)]
    after = [*before, table(2, fine(0, 2), alpha_nano=10**8)]
    earlier = kind.build(specification, DOMAIN, before)
    warm = kind.rebuild(specification, DOMAIN, after, earlier=earlier)
    cold = kind.build(specification, DOMAIN, after)
    for names in (["age", "sex"], ["age", "job"]):
        ours = warm.ask({"marginal": names}).document["probabilities"]
        theirs = cold.ask({"marginal": names}).document["probabilities"]
        assert_allclose(ours, theirs, atol=1e-3)


def test_going_on_to_finer_classes_and_more_attributes_comes_to_the_same_model():
    """Bands of ages become single ones, and a table of a new attribute is there."""
    kind = MarginalsKind()
    specification = kind.read({"oracle": "saturated"}, DOMAIN)
    before = [
        table(i, p, alpha_nano=10**8) for i, p in enumerate(({0: BANDS, 1: range(3)}, fine(1)))
    ]
    after = [*before, table(2, fine(0, 2), alpha_nano=10**8)]
    earlier = kind.build(specification, DOMAIN, before)
    assert earlier.reduced.sizes == (3, 3)
    warm = kind.rebuild(specification, DOMAIN, after, earlier=earlier)
    assert warm.reduced.sizes == (10, 3, 4)
    cold = kind.build(specification, DOMAIN, after)
    starts = np.flatnonzero(np.diff(BANDS, prepend=-1))
    # Of ages and sexes history tells bands alone.
    for names, rows in ((["age", "sex"], starts), (["age", "job"], np.arange(10))):
        ours, theirs = (
            np.add.reduceat(m.ask({"marginal": names}).document["probabilities"], rows)
            for m in (warm, cold)
        )
        assert_allclose(ours, theirs, atol=1e-3)


def test_a_start_on_finer_classes_says_what_it_said_on_the_coarse_ones():
    """Counts are shared evenly, multipliers repeat: added up they are those of before."""
    kind = MarginalsKind()
    before = [table(0, {0: BANDS, 1: range(3)}, alpha_nano=10**6), table(1, fine(1))]
    warm = kind.build(kind.read({"oracle": "saturated"}, DOMAIN), DOMAIN, before).estimate.warm
    ages = BANDS.astype(np.intp)
    found = warm.refined((4, 10, 3), [1, 2], [ages, np.arange(3)])
    assert set(found.layout.scopes) == {(1, 2), (2,)}
    assert warm.state is not None
    assert found.state is not None
    old, new = warm.state, found.state
    i, j = old.layout.index[(0, 1)], new.layout.index[(1, 2)]
    coarse, fine_table = old.layout.table(old.tables, i), new.layout.table(new.tables, j)
    summed = np.zeros_like(coarse)
    np.add.at(summed, ages, fine_table)
    assert_allclose(summed, coarse, atol=1e-15)
    repeated = new.layout.table(new.multipliers, j)
    assert_allclose(repeated, old.layout.table(old.multipliers, i)[ages], rtol=0)


def test_a_model_goes_on_from_one_whose_purchases_alone_differ():
    kind = MarginalsKind()
    bought = kind.read({"marginals": [["sex", "age"]], "selection": "listed"}, DOMAIN)
    assert json.loads(bought)["marginals"] == [["age", "sex"]]
    assert kind.goes_on(kind.read({}, DOMAIN), bought)
    assert not kind.goes_on(kind.read({"oracle": "factor"}, DOMAIN), bought)
    assert not kind.goes_on(kind.read({"likelihood": "laplace"}, DOMAIN), bought)


def test_a_conditional_is_the_share_among_those_given():
    found = model([table(0, fine(0, 1)), table(1, {0: BANDS, 2: range(4)})])
    question = {"marginal": ["sex"], "given": {"age": "age7"}}
    expected = TRUTH[7].sum(axis=1) / TRUTH[7].sum()
    assert_allclose(found.ask(question).document["probabilities"], expected, atol=2e-3)
    both = {"marginal": ["job", "sex"], "given": {"age": "age9"}}
    assert np.shape(found.ask(both).document["probabilities"]) == (4, 3)


def test_the_wanted_marginals_cost_no_more_than_was_said():
    kind = MarginalsKind()
    document = {"marginals": [["age", "sex"], ["job", "sex"], ["age", "job"]]}
    specification = kind.read(document, DOMAIN)
    wanted = kind.wanted(specification, DOMAIN, [], epsilon=0.5)
    assert sum(w.epsilon for w in wanted) <= 0.5 + 1e-12
    assert all(any(set(s) <= set(w.axes) for w in wanted) for s in [(0, 1), (1, 2), (0, 2)])


def test_the_error_of_what_is_wanted_is_told_beside_that_of_buying_it_as_it_is():
    """One table for .5, where history has a sharp table, which tells the total."""
    kind = MarginalsKind()
    specification = kind.read({"marginals": [["sex", "job"], ["sex"], ["age"]]}, DOMAIN)
    history = [table(0, fine(0))]
    found = kind.foretold(specification, DOMAIN, history, rises={(1, 2): 0.5})
    pair, sex, age = found
    assert (pair.attributes, pair.n_cells, pair.tables) == (("sex", "job"), 12, (0,))
    assert_allclose(pair.deviation, (8 * 11 / 12) ** 0.5, rtol=1e-4)
    assert_allclose(sex.deviation, (8 * 4 * 2 / 3) ** 0.5, rtol=1e-4)
    # As they are each gets a third of .5, and each of the two tables tells of the other.
    assert 0.8 * 72**0.5 < pair.as_wanted < 72**0.5
    assert 0.7 * 72**0.5 < sex.as_wanted < 72**0.5
    assert (age.tables, age.deviation < 0.03) == ((), True)
    assert kind.foretold(specification, DOMAIN, history, rises={}) == ()


def test_the_number_of_records_is_that_of_the_release_that_tells_it_best():
    """A noisy table, a sharper one, the public number; a table of too much noise tells nothing."""
    noisy, sharp = (table(i, fine(0, 1), alpha_nano=a) for i, a in enumerate((10**8, 10**9)))
    told = n_records([noisy, sharp])
    assert told == n_records([sharp]) == float(np.sum(sharp.values))
    assert n_records([noisy]) == float(np.sum(noisy.values))
    public = row(2, count({}), alpha_nano=0)
    assert n_records([noisy, sharp, public]) == TRUTH.sum()
    assert n_records([]) == n_records([table(0, fine(0, 1), alpha_nano=10)]) == RECORDS


def test_a_model_says_which_part_of_later_pairs_and_triples_it_holds():
    found = model([table(0, fine(0, 1)), table(1, fine(1, 2))])
    assert found.describe()["free"] == {"2": 2 / 3, "3": 0.0}


def test_listed_marginals_are_bought_as_listed_and_evenly():
    kind = MarginalsKind()
    document = {"marginals": [["age"], ["job", "sex"]], "selection": "listed"}
    wanted = kind.wanted(kind.read(document, DOMAIN), DOMAIN, [], epsilon=1.0)
    assert [(w.axes, w.epsilon, w.is_more) for w in wanted] == [
        ((0,), 0.5, True),
        ((1, 2), 0.5, True),
    ]


def test_what_history_has_already_is_bought_less():
    """A sharp table of two of the attributes leaves the budget to the other one."""
    kind = MarginalsKind()
    specification = kind.read({"marginals": [["age", "sex"], ["job"]]}, DOMAIN)
    fresh = kind.wanted(specification, DOMAIN, [], epsilon=1.0)
    beside = kind.wanted(specification, DOMAIN, [table(0, fine(0, 1))], epsilon=1.0)
    share = {w.axes: w.epsilon for w in fresh}
    assert share[0, 1] > 0.3
    assert {w.axes for w in beside} == {(2,)}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"oracle": "best"}, "`oracle` must be one of `auto`, `exact`, `saturated`, `factor`"),
        ({"marginals": "age"}, "`marginals` must be a list of at most 4,096 lists"),
        ({"marginals": [["age", "age"]]}, "`marginals` must name attributes of the dataset"),
        ({"marginals": [["wage"]]}, "`marginals` must name attributes of the dataset"),
        ({"selection": 3}, "`selection` must be one of `best`, `listed`"),
        ({"network": "x"}, "`network` must be left out: it is not of this kind of model"),
    ],
)
def test_a_wrong_document_is_refused_by_its_field(document, message):
    with pytest.raises(InputError, match=message):
        MarginalsKind().read(document, DOMAIN)


def test_a_purchase_must_name_what_to_buy():
    kind = MarginalsKind()
    with pytest.raises(InputError, match="`marginals` must name what to buy"):
        kind.wanted(kind.read({}, DOMAIN), DOMAIN, [], epsilon=1.0)


def test_an_exact_model_that_is_too_large_is_refused_with_its_size():
    sizes = (300, 300, 300)
    pairs = [(0, 1), (1, 2), (0, 2)]
    domain = Domain(
        tuple(Attribute(n, "integer", edges=tuple(map(Fraction, range(301)))) for n in "abc")
    )
    tables = []
    for i, (a, b) in enumerate(pairs):
        partition = product_partition(sizes, {a: np.arange(300) // 2, b: np.arange(300) // 2})
        tables.append(TableMeasurement(i, partition, 10**8, STEP, (1,) * partition.n_cells))
    kind = MarginalsKind()
    with pytest.raises(CapacityError, match="would hold 3,375,000 cells"):
        kind.build(kind.read({"oracle": "exact"}, domain), domain, tables)


def test_synthetic_records_follow_the_tables():
    """20,000 records; every cell of a held pair within six standard errors."""
    found = model(
        [table(0, fine(0, 1)), table(1, {0: BANDS, 2: range(4)})], {"oracle": "saturated"}
    )
    records = list(found.records(20_000, np.random.default_rng(5)))
    assert found.columns() == ("age", "sex", "job")
    share = np.zeros((10, 3))
    for age, sex, _ in records:
        share[int(age[3:]), int(sex[3:])] += 1 / 20_000
    expected = TRUTH.sum(axis=2) / 5_000
    assert (np.abs(share - expected) < 6 * np.sqrt(expected / 20_000) + 1e-3).all()


def test_an_exported_model_holds_every_table_and_its_classes():
    plain = json.loads(model([table(0, {0: BANDS}), table(1, fine(1))]).export())
    assert plain["classes"]["age"][2] == ["age8", "age9"]
    assert {tuple(t["attributes"]) for t in plain["tables"]} == {("age",), ("sex",)}
    assert_allclose(plain["total"], 5_000, atol=1.0)


def test_classes_never_straddle_what_a_table_tells_apart():
    reduced = reduced_history([table(0, {0: np.arange(10) % 2}), table(1, {0: BANDS})])
    assert reduced.sizes == (6,)
    assert_allclose(reduced.measurements[0].answers, [TRUTH[::2].sum(), TRUTH[1::2].sum()])


def test_a_marginal_spreads_a_class_evenly_over_its_values():
    found = model([table(0, {0: BANDS, 1: range(3)})])
    shares = found.ask({"marginal": ["age"]}).document["probabilities"]
    bands = np.bincount(BANDS, TRUTH.sum(axis=(1, 2))) / 5_000
    assert_allclose(shares, bands[BANDS] / np.bincount(BANDS)[BANDS], atol=1e-3)
