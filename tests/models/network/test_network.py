"""Structures, networks and BIF."""

from __future__ import annotations

import numpy as np
import pytest

from qserver.errors import NetworkError
from qserver.models.network.bif import read_bif, write_bif
from qserver.models.network.network import Network, network_of_counts
from qserver.models.network.structure import Structure, Variable, structure_of_edges
from tests.benchmarks.published_networks import NAMES, published

SMALL = """
network "two of them" { property made by hand; }
variable a { type discrete [ 2 ] { yes, "not at all" }; }  // a comment
variable b { property x y; type discrete [ 3 ] { 1, 2, 3 }; }
probability ( a ) { table 0.25, 0.75; }
/* another
   comment */
probability ( b | a ) {
  (yes) 0.5, 0.25, 0.25;
  default 0.1, 0.1, 0.8;
}
"""


def test_published_networks_have_their_published_numbers_of_free_parameters() -> None:
    found = {name: published(name).n_parameters for name in NAMES}
    assert found == {"asia": 18, "sachs": 178, "child": 230, "alarm": 509}


@pytest.mark.parametrize("name", NAMES)
def test_writing_and_reading_gives_the_same_network(name: str) -> None:
    network = published(name)
    again = read_bif(write_bif(network))
    assert again.structure == network.structure
    for was, now in zip(network.cpds, again.cpds, strict=True):
        np.testing.assert_allclose(now, was, rtol=4e-16, atol=0)


def test_reads_comments_properties_quotes_and_defaults() -> None:
    network = read_bif(SMALL)
    assert network.structure.variables[0].labels == ("yes", "not at all")
    np.testing.assert_array_equal(network.cpd("b"), [[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])


def test_a_table_line_varies_the_variable_itself_slowest() -> None:
    text = SMALL.replace("(yes) 0.5, 0.25, 0.25;", "").replace(
        "default 0.1, 0.1, 0.8", "table 0.5, 0.1, 0.25, 0.1, 0.25, 0.8"
    )
    np.testing.assert_array_equal(read_bif(text).cpd("b"), read_bif(SMALL).cpd("b"))


def test_odd_names_survive_writing() -> None:
    names = ("a b", "x//y", "{", "//", "é, è", "p|q")
    structure = Structure(tuple(Variable(n, ("l 1", "l,2")) for n in names))
    network = network_of_counts(structure, [np.array([1.0, 3.0])] * len(names))
    assert read_bif(write_bif(network)).structure == structure


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("0.25, 0.75;", "0.25, 0.85;", 5),
        ("(yes) 0.5", "(maybe) 0.5", 8),
        ("(yes) 0.5", "(yes, yes) 0.5", 8),
        ("(yes) 0.5, 0.25, 0.25;", "(yes) 0.5, 0.5;", 8),
        ("(yes) 0.5", "(yes) -0.5", 9),
        ("(yes) 0.5", "(yes) nan", 9),
        ("default 0.1, 0.1, 0.8;", "", 8),
        ("[ 3 ]", "[ 4 ]", 4),
        ("b | a", "b | c", 8),
        ("table", "tabel", 5),
        ("type discrete [ 2 ]", "type real [ 2 ]", 3),
        ("0.75; }", "0.75; }}", 5),
        ("variable b", "variable a", 4),
        ("network", "netwrok", 2),
    ],
)
def test_a_mistake_is_named_with_its_line(old: str, new: str, line: int) -> None:
    assert old in SMALL
    with pytest.raises(NetworkError, match=rf"`network, line {line}[.`]"):
        read_bif(SMALL.replace(old, new, 1))


def test_a_parent_twice_or_a_row_without_its_parent_is_refused() -> None:
    for old, new in (("( b | a )", "( b | a, a )"), ("( a )", "( a | b )")):
        with pytest.raises(NetworkError):
            read_bif(SMALL.replace(old, new))


@pytest.mark.parametrize("text", ["", "{", "network", "variable a", "probability (", '"', "\x00"])
def test_what_is_no_bif_is_refused(text: str) -> None:
    with pytest.raises(NetworkError):
        read_bif(text)


def test_a_text_cut_anywhere_is_refused() -> None:
    """No cut makes the reader fail in another way."""
    for end in range(len(SMALL.rstrip())):
        with pytest.raises(NetworkError):
            read_bif(SMALL[:end])


def test_a_structure_refuses_cycles_unknown_names_and_sizes() -> None:
    labels = {"a": ("0", "1"), "b": ("0", "1"), "c": ("0", "1")}
    with pytest.raises(NetworkError, match="cycle"):
        structure_of_edges(labels, [("a", "b"), ("b", "c"), ("c", "a")])
    with pytest.raises(NetworkError, match="known"):
        structure_of_edges(labels, [("a", "d")])
    with pytest.raises(NetworkError, match="each parent once"):
        structure_of_edges(labels, [("a", "b"), ("a", "b")])
    wide = {f"v{i}": tuple(map(str, range(128))) for i in range(4)}
    with pytest.raises(NetworkError, match="cells"):
        structure_of_edges(wide, [("v0", "v3"), ("v1", "v3"), ("v2", "v3")])


def test_heights_and_orders_follow_the_longest_path() -> None:
    structure = published("asia").structure
    heights = dict(zip(structure.names, structure.heights, strict=True))
    assert heights == {
        "asia": 3, "tub": 2, "smoke": 3, "lung": 2, "bronc": 1, "either": 1, "xray": 0, "dysp": 0,
    }  # fmt: skip
    place = {i: at for at, i in enumerate(structure.order)}
    assert all(place[p] < place[i] for i in place for p in structure.parents[i])


def test_a_network_refuses_tables_that_are_no_distributions() -> None:
    structure = structure_of_edges({"a": ("0", "1")}, [])
    for wrong in ([0.5, 0.6], [-0.1, 1.1], [float("nan"), 1.0], [[0.5, 0.5]]):
        with pytest.raises(NetworkError):
            Network(structure, (np.array(wrong),))


def test_greatest_likelihood_divides_counts_and_leaves_empty_rows_uniform() -> None:
    structure = structure_of_edges({"a": ("0", "1"), "b": ("0", "1")}, [("a", "b")])
    network = network_of_counts(structure, [[3, 1], [[2, 1], [0, 0]]])
    np.testing.assert_allclose(network.cpd("a"), [0.75, 0.25], rtol=1e-15)
    np.testing.assert_allclose(network.cpd("b"), [[2 / 3, 1 / 3], [0.5, 0.5]], rtol=1e-15)
    with_prior = network_of_counts(structure, [[3, 1], [[2, 1], [0, 0]]], prior=1)
    np.testing.assert_allclose(with_prior.cpd("b"), [[0.6, 0.4], [0.5, 0.5]], rtol=1e-15)
