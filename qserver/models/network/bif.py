"""Networks as BIF text (Bayesian Interchange Format) or as edges, read within bounds.

The dialect is that of the published repositories: `network`, `variable` and `probability` blocks
with rows `(labels) numbers;`, `table numbers;` and `default numbers;`. `property` lines and
comments are ignored. Numbers are written with all digits, so reading gives the same floats.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from qserver.errors import CapacityError, NetworkError
from qserver.models.network.network import Network, Table
from qserver.models.network.structure import (
    MAX_FAMILY_CELLS,
    MAX_VARIABLES,
    Structure,
    Variable,
    structure_of_edges,
)
from qserver.query.domain import MAX_ATTRIBUTES, Domain

MAX_TEXT = 1 << 22
# Published files round to about seven digits; a row that is further off is a mistake.
MAX_ROUNDING = 1e-3

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\ufeff]+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
      | (?P<line>\n)
      | "(?P<quoted>[^"\n]*)"
      | (?P<mark>[{}()\[\];,|])
      | (?P<word>[^\s{}()\[\];,|"]+)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class _Token:
    text: str
    line: int
    is_mark: bool = False


@dataclass
class _Block:
    """One probability block while it is read."""

    child: str
    parents: tuple[str, ...]
    line: int
    rows: dict[tuple[str, ...], list[float]] = field(default_factory=dict)
    default: list[float] | None = None
    table: list[float] | None = None


def read_bif(text: str) -> Network:
    """The network that BIF text describes.

    Published files round, so rows are divided by their sums. Parents and labels keep their order.

    Raises:
        NetworkError: the text is not BIF, a variable has no block or misses a row, a sum differs
            from 1 by more than 1e-3, or a bound on size is passed. The message names the line.
    """
    if len(text) > MAX_TEXT:
        raise NetworkError("network", f"have <= {MAX_TEXT:,} characters", len(text))
    reader = _BifReader(text)
    reader.read()
    return _network(reader.labels, reader.blocks)


def write_bif(network: Network) -> str:
    """BIF text of a network; `read_bif` gives the same network back, to the last bit or two."""
    lines = ["network qserver {", "}"]
    for variable in network.structure.variables:
        labels = ", ".join(map(_quoted, variable.labels))
        lines.append(f"variable {_quoted(variable.name)} {{")
        lines.append(f"  type discrete [ {variable.size} ] {{ {labels} }};")
        lines.append("}")
    for i in range(len(network.cpds)):
        lines.extend(_probability_lines(network, i))
    return "\n".join(lines) + "\n"


def _probability_lines(network: Network, i: int) -> Iterator[str]:
    structure = network.structure
    variable, cpd = structure.variables[i], network.cpds[i]
    if not variable.parents:
        yield f"probability ( {_quoted(variable.name)} ) {{"
        yield f"  table {_numbers(cpd)};"
    else:
        parents = ", ".join(map(_quoted, variable.parents))
        yield f"probability ( {_quoted(variable.name)} | {parents} ) {{"
        labels = [structure.variables[p].labels for p in structure.parents[i]]
        for row, values in zip(product(*labels), cpd.reshape(-1, variable.size), strict=True):
            yield f"  ({', '.join(map(_quoted, row))}) {_numbers(values)};"
    yield "}"


def _numbers(row: Table) -> str:
    return ", ".join(repr(float(value)) for value in row)


def _quoted(text: str) -> str:
    found = _TOKEN.fullmatch(text)
    return text if found and found.lastgroup == "word" and "//" not in text else f'"{text}"'


class _BifReader:
    """Reads the blocks of a text, one token at a time."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = next(self._tokens, None)
        self._line = 1
        self.labels: dict[str, tuple[str, ...]] = {}
        self.blocks: dict[str, _Block] = {}

    def read(self) -> None:
        """Read every block of the text."""
        readers = {
            "network": self._network,
            "variable": self._variable,
            "probability": self._probability,
        }
        while self._next is not None:
            word = self._word("a block")
            if word not in readers:
                raise self._error("hold `network`, `variable` or `probability` here", word)
            readers[word]()

    def _error(self, condition: str, value: object = ...) -> NetworkError:
        return _error_at(self._line, condition, value)

    def _take(self, what: str) -> _Token:
        token = self._next
        if token is None:
            raise self._error(f"hold {what}, not end")
        self._line = token.line
        self._next = next(self._tokens, None)
        return token

    def _word(self, what: str) -> str:
        token = self._take(what)
        if token.is_mark:
            raise self._error(f"hold {what}", token.text)
        return token.text

    def _mark(self, mark: str) -> None:
        token = self._take(f"`{mark}`")
        if not token.is_mark or token.text != mark:
            raise self._error(f"hold `{mark}`", token.text)

    def _sees(self, text: str, *, mark: bool = True) -> bool:
        token = self._next
        return token is not None and token.is_mark == mark and token.text == text

    def _skip_property(self) -> None:
        while not self._sees(";"):
            self._take("`;`")
        self._mark(";")

    def _network(self) -> None:
        if not self._sees("{"):
            self._word("a name")
        self._mark("{")
        while self._sees("property", mark=False):
            self._skip_property()
        self._mark("}")

    def _variable(self) -> None:
        name = self._word("a variable's name")
        if name in self.labels:
            raise self._error("declare each variable once", name)
        if len(self.labels) == MAX_VARIABLES:
            raise self._error(f"declare at most {MAX_VARIABLES} variables")
        self._mark("{")
        labels: tuple[str, ...] = ()
        while not self._sees("}"):
            word = self._word("`type`, `property` or `}`")
            if word == "property":
                self._skip_property()
            elif word == "type" and not labels:
                labels = self._type()
            else:
                raise self._error("hold one `type` line", word)
        if not labels:
            raise self._error("hold a `type` line for the variable", name)
        self._mark("}")
        self.labels[name] = labels

    def _type(self) -> tuple[str, ...]:
        if self._word("`discrete`") != "discrete":
            raise self._error("hold discrete variables only")
        self._mark("[")
        declared = self._word("the number of labels")
        self._mark("]")
        self._mark("{")
        labels = self._words("}")
        self._mark(";")
        if declared != str(len(labels)):
            raise self._error(f"declare as many labels as follow, {len(labels)}", declared)
        return labels

    def _words(self, end: str) -> tuple[str, ...]:
        """Words separated by commas up to the mark `end`, which is read too."""
        found = [self._word("a name")]
        while not self._sees(end):
            self._mark(",")
            found.append(self._word("a name"))
        self._mark(end)
        return tuple(found)

    def _probability(self) -> None:
        self._mark("(")
        child = self._word("a variable's name")
        line = self._line
        parents: tuple[str, ...] = ()
        if self._sees("|"):
            self._mark("|")
            parents = self._words(")")
        else:
            self._mark(")")
        if child in self.blocks:
            raise self._error("hold one probability block per variable", child)
        block = self.blocks[child] = _Block(child, parents, line)
        self._mark("{")
        while not self._sees("}"):
            self._entry(block)
        self._mark("}")

    def _entry(self, block: _Block) -> None:
        if self._sees("("):
            self._mark("(")
            row = self._words(")")
            if row in block.rows:
                raise self._error("hold each row once", ", ".join(row))
            block.rows[row] = self._row_of_numbers()
            return
        word = self._word("a row, `table`, `default`, `property` or `}`")
        if word == "property":
            self._skip_property()
        elif word == "table" and block.table is None:
            block.table = self._row_of_numbers()
        elif word == "default" and block.default is None:
            block.default = self._row_of_numbers()
        else:
            raise self._error("hold a row, one `table` or one `default`", word)

    def _row_of_numbers(self) -> list[float]:
        found = [self._number()]
        while not self._sees(";"):
            if self._sees(","):
                self._mark(",")
            found.append(self._number())
            if len(found) > MAX_FAMILY_CELLS:
                raise self._error(f"hold at most {MAX_FAMILY_CELLS:,} numbers in a row")
        self._mark(";")
        return found

    def _number(self) -> float:
        text = self._word("a probability")
        try:
            value = float(text) if len(text) <= 64 and "_" not in text else math.nan
        except ValueError:
            value = math.nan
        if not 0 <= value <= 1 + MAX_ROUNDING:
            raise self._error("hold a probability, 0 to 1", text)
        return value


def _tokens(text: str) -> Iterator[_Token]:
    line, at = 1, 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _error_at(line, "hold names, numbers and `{}()[];,|` only", text[at])
        group, words = found.lastgroup, found.group(0)
        if group in ("word", "mark"):
            yield _Token(words, line, group == "mark")
        elif group == "quoted":
            yield _Token(found.group("quoted"), line)
        line += words.count("\n")
        at = found.end()


def _error_at(line: int, condition: str, value: object = ...) -> NetworkError:
    return NetworkError(f"network, line {line}", condition, value)


def _network(labels: dict[str, tuple[str, ...]], blocks: dict[str, _Block]) -> Network:
    for block in blocks.values():
        unknown = [name for name in (block.child, *block.parents) if name not in labels]
        if unknown:
            raise _error_at(block.line, "name declared variables", unknown[0])
    missing = [name for name in labels if name not in blocks]
    if missing:
        raise NetworkError("network", "hold a probability block for each variable", missing[0])
    structure = Structure(
        tuple(Variable(name, labels[name], blocks[name].parents) for name in labels)
    )
    return Network(structure, tuple(_cpd(structure, blocks[name]) for name in labels))


def _cpd(structure: Structure, block: _Block) -> Table:
    i = structure.index(block.child)
    shape = structure.family_shape(i)
    if block.table is not None:
        table = _table(block, block.table, shape)
    else:
        table = np.full(shape, np.nan)
        if block.default is not None:
            table[...] = _sized(block, block.default, shape[-1])
        for row, numbers in block.rows.items():
            table[_position(structure, i, block, row)] = _sized(block, numbers, shape[-1])
    if np.isnan(table).any():
        raise _error_at(block.line, "hold every row of the block", block.child)
    sums = table.sum(axis=-1, keepdims=True)
    if np.abs(sums - 1).max() > MAX_ROUNDING:
        raise _error_at(block.line, "hold rows that add up to 1 in the block", block.child)
    return np.asarray(table / sums)


def _table(block: _Block, found: list[float], shape: Sequence[int]) -> Table:
    """The numbers of a `table` line; in BIF the variable's value varies slowest."""
    if block.rows or block.default is not None:
        raise _error_at(block.line, "hold either `table` or rows in a block", block.child)
    numbers = _sized(block, found, math.prod(shape))
    return np.moveaxis(np.array(numbers).reshape(shape[-1], *shape[:-1]), 0, -1)


def _sized(block: _Block, numbers: list[float], size: int) -> list[float]:
    if len(numbers) != size:
        raise _error_at(block.line, f"hold {size} numbers for {block.child}", len(numbers))
    return numbers


def _position(structure: Structure, i: int, block: _Block, row: tuple[str, ...]) -> tuple[int, ...]:
    parents = structure.parents[i]
    if len(row) != len(parents):
        raise _error_at(block.line, f"hold one label per parent of {block.child}", ", ".join(row))
    try:
        return tuple(structure.label_index(p, x) for p, x in zip(parents, row, strict=True))
    except NetworkError as exc:
        raise exc.under(f"network, line {block.line}") from exc


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
