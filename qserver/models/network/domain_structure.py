"""A structure over a dataset's attributes, from a document with BIF text or edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qserver.errors import CapacityError, NetworkError
from qserver.models.network.bif import read_bif
from qserver.models.network.structure import Structure, structure_of_edges
from qserver.query.domain import MAX_ATTRIBUTES, Domain

MAX_EDGES = 4096
# Labels are copied into the structure; tables of attributes with more values would be too large.
MAX_LABELS = 1 << 16


def structure_of_document(document: object, domain: Domain) -> Structure:
    """The structure given by `document`, over attributes of `domain`.

    Args:
        document: BIF text, or `{"edges": [[parent, child], ...]}`. In BIF text the variables must
            be attributes of the domain with as many values. Edges give a structure over the
            attributes that they name and those of an optional list `variables`.
        domain: domain of the dataset.

    Raises:
        NetworkError: the document is neither, or does not fit the domain.
        CapacityError: an attribute has more than 65,536 values.
    """
    if isinstance(document, str):
        structure = read_bif(document).structure
        for variable in structure.variables:
            if variable.size != _size(variable.name, domain):
                raise NetworkError(variable.name, f"have {_size(variable.name, domain)} labels")
        return structure
    if not isinstance(document, Mapping) or not set(document) <= {"edges", "variables"}:
        raise NetworkError("network", "be BIF text, or an object with `edges`")
    edges = [_edge(edge) for edge in _list(document, "edges", most=MAX_EDGES)]
    listed = [_text(name) for name in _list(document, "variables", most=MAX_ATTRIBUTES)]
    named = {*listed, *(end for edge in edges for end in edge)}
    for name in named:
        _size(name, domain)
    if not named:
        raise NetworkError("network", "name an attribute")
    labels = {a.name: a.value_names for a in domain.attributes if a.name in named}
    return structure_of_edges(labels, edges)


def _size(name: str, domain: Domain) -> int:
    axis = domain.axis(name)
    if axis is None:
        raise NetworkError("network", "name attributes of the dataset", name)
    size = domain.sizes[axis]
    if size > MAX_LABELS:
        raise CapacityError(f"An attribute of a network may have {MAX_LABELS:,} values at most.")
    return size


def _list(document: Mapping[str, object], name: str, *, most: int) -> Sequence[object]:
    found = document.get(name, [])
    if not isinstance(found, list) or len(found) > most:
        raise NetworkError(f"network.{name}", f"be a list of at most {most:,}")
    return found


def _edge(value: object) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise NetworkError("network.edges", "hold pairs [parent, child]")
    return _text(value[0]), _text(value[1])


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise NetworkError("network", "name attributes by texts")
    return value
