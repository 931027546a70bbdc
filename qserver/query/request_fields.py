"""The fields of requests, for HTTP, command line, pages and client.

In `about` names of fields and their values are in backquotes; each face has its own words for them:
JSON a name, the command line a flag, a page a label.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal

from qserver.query.asking.after_looking import MOST_AMONG
from qserver.query.asking.method_and_prior import (
    LEAST_DRAWS,
    LEAST_ERROR,
    MOST_DRAWS,
    MOST_ERROR,
    USUAL_ERROR,
)
from qserver.query.requirement import MAX_LENGTH, MIN_DELTA, MIN_LENGTH
from qserver.query.sql.text import MAX_CHARACTERS

NEEDED: Final = ...
"""The default of a field that a request must have."""
MAX_EPSILON = 1e6
MAX_RECORDS = 1_000_000
"""Most synthetic records of one request."""
Kind = Literal[
    "number", "whole", "truth", "text", "texts", "lists", "pair", "json", "prior", "epsilon"
]
_QUOTED = re.compile(r"`([^`]*)`")


@dataclass(frozen=True)
class Field:
    """One field of a request.

    Args:
        name: in JSON, and as an argument of the client; nested ones with their parent, such as
            `gate.fpr`. After a blank comes the placeholder of the value in the command line's help.
        about: its meaning, as a phrase.
        kind: of its value; `texts` and `lists` repeat.
        schema: its bounds in JSON Schema.
        default: its value in a request without it.
        usual: value that client and command line send for a required field; None: nothing.
        flag: on the command line; by default the name with hyphens.
        choices: its values, with their words on a page.
        flags: values by the flags that stand for them.
        label: on a page; '' if no page has it.
        inputs: names of its inputs; by default its own name.
        note: small text beside the input.
    """

    name: str
    about: str
    kind: Kind = "number"
    schema: Mapping[str, Any] = field(default_factory=dict)
    default: Any = None
    usual: Any = None
    flag: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    inputs: tuple[str, ...] = ()
    note: str = ""

    unit: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        name, _, unit = self.name.partition(" ")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "unit", unit or None)
        if not self.flag:
            object.__setattr__(self, "flag", f"--{self.member.replace('_', '-')}")
        if not self.inputs:
            object.__setattr__(self, "inputs", (self.member,))

    @property
    def member(self) -> str:
        """Its name without its parent."""
        return self.name.rpartition(".")[2]

    @property
    def title(self) -> str:
        """A page's tooltip without a note: `about`, in the page's words."""
        return "" if self.note else told(self.about, _LABELS | dict(self.choices), "{}")

    @property
    def must(self) -> str:
        """The condition on a value outside the choices: "be `a`, `b` or `c`"."""
        *others, last = (f"`{value}`" for value in self.choices)
        return f"be {', '.join(others)} or {last}"


def told(text: str, names: Mapping[str, str], shape: str = "`{}`") -> str:
    """A text with a face's words for names in backquotes.

    Args:
        names: words by name.
        shape: form of a name without words.
    """
    return _QUOTED.sub(lambda found: names.get(found[1], shape.format(found[1])), text)


_needed = partial(Field, default=NEEDED)
_AT_LEAST_1 = {"minimum": 1, "maximum": MOST_AMONG}

QUERY = _needed(
    "query FILE|JSON",
    "the structured form of the question; `-` reads it",
    "json",
    flag="--json-query",
    label="What to count, in SQL or as JSON",
    inputs=("text",),
)
LENGTH = _needed(
    "length L",
    "full length of the interval, in the query's own units",
    schema={"minimum": MIN_LENGTH, "maximum": MAX_LENGTH},
    label="Within ±",
    inputs=("within",),
    note="in records, or the unit of an average; as WITHIN in SQL",
)
CONFIDENCE = _needed(
    "confidence C",
    "probability that the interval holds the true answer",
    schema={"exclusiveMinimum": 0, "maximum": 1 - MIN_DELTA},
    usual=0.95,
    label="Confidence, %",
    note="how sure the interval must be",
)
MEASURE = Field(
    "measure",
    "`only_this`: nothing is measured for later questions; `auto`: the planner may buy tables that "
    "these use too; by default the owner's choice",
    choices={"auto": "also tables that later questions use", "only_this": "only this question"},
    flags={"--only-this": "only_this", "--no-only-this": "auto"},
    label="What may be measured",
)
AS_OF = Field(
    "as_of PERIOD",
    "last period to count, for data that arrive over time; by default the last sealed one",
    "text",
)
SELECTED_FROM = Field(
    "selected_from",
    "the choice made among released numbers; intervals then hold after it, for the same price",
    "json",
    flag="--largest-of",
)
AMONG = _needed(
    "selected_from.m M",
    "number of numbers looked at",
    "whole",
    _AT_LEAST_1,
    flag="--largest-of",
    label="How many numbers you looked at",
    inputs=("among",),
)
RULE = Field(
    "selected_from.rule",
    "rule of the choice: the `largest`, the `least`, or `any`",
    default="largest",
    choices={"largest": "as the largest", "least": "as the least", "any": "in any way"},
    label="How you chose this one",
)
FIRST = Field(
    "selected_from.first K",
    "number of largest or least that are reported; their intervals hold at once",
    "whole",
    _AT_LEAST_1,
    1,
    label="How many you report",
)
INDEPENDENT = Field(
    "independent",
    "measure with fresh noise, combined with no released answer, and charged each time; not "
    "together with `selected_from`",
    "truth",
    default=False,
    label="measure anew, with fresh noise",
    inputs=("independent", "among"),
)
METHOD = Field(
    "method",
    "how probabilities are computed. `auto`: the exact law; `convolution`, `monte-carlo`: "
    "algorithms 2 and 1 of Xiao and Xiong (2012), which leave out what released answers disagree "
    "about",
    default="auto",
    choices={
        "auto": "by the exact law",
        "convolution": "by convolution",
        "monte-carlo": "by Monte Carlo",
    },
    label="How probabilities are computed",
)
STEP = Field(
    "step S",
    "step of the lattice of `convolution`, in the query's units; by default fine enough for "
    "`error`",
    schema={"exclusiveMinimum": 0},
)
DRAWS = Field(
    "draws N",
    "draws of `monte-carlo`; by default as many as `error` needs",
    "whole",
    {"minimum": LEAST_DRAWS, "maximum": MOST_DRAWS},
)
ERROR = Field(
    "error E",
    "wanted numerical error of probabilities; `statement.error` has the attained one",
    schema={"minimum": LEAST_ERROR, "maximum": MOST_ERROR},
    default=USUAL_ERROR,
)
PRIOR = Field(
    "prior PRIOR",
    "what you know of the answer beforehand: it is not negative (`non-negative`), it is at most "
    "the public number of records (`known-total`), or it lies between two ends (`between`). The "
    "statement is then Bayesian, not a frequency",
    "prior",
    choices={
        "": "nothing",
        "non-negative": "it is at least 0",
        "known-total": "the number of records",
        "between": "it lies between",
    },
    label="What you know beforehand",
    inputs=("prior", "prior_low", "prior_high"),
)
LOOKING = (AMONG, RULE, FIRST)
EXACTNESS = (LENGTH, CONFIDENCE, MEASURE)
READING = (METHOD, STEP, DRAWS, ERROR, PRIOR)
QUESTION = (QUERY, *EXACTNESS, SELECTED_FROM, INDEPENDENT, *READING, AS_OF)

AT_LEAST = _needed(
    "at_least T",
    "asks for the probability of this or more",
    label="How likely is a count of at least",
)
BETWEEN = _needed(
    "between",
    "[A, B] with A <= B; asks for the probability from A to B",
    "pair",
    label="and at most",
    inputs=("at_most",),
)

SIMULTANEOUS = Field(
    "simultaneous", "all intervals hold at once, with one confidence", "truth", default=False
)
CONSISTENT = Field(
    "consistent", "also give the answers of one non-negative table, free", "truth", default=False
)
WORKLOAD = (SIMULTANEOUS, CONSISTENT, AS_OF)
EXPLAIN = Field("explain", "show the price; spends nothing", "truth", default=False)

SQL = _needed(
    "sql",
    "SELECT ... FROM the dataset ... WITHIN half-width CONFIDENCE probability; after EXPLAIN its "
    "price",
    "text",
    {"maxLength": MAX_CHARACTERS},
    label=QUERY.label,
    inputs=QUERY.inputs,
)
WITHIN = Field(
    "within W",
    "half the length of intervals if the text has no WITHIN, as if typed at its end",
    schema={"exclusiveMinimum": 0},
    label=LENGTH.label,
)
SURE = Field(
    "confidence C",
    "confidence of intervals if the text has no CONFIDENCE; by default 0.95",
    schema={"exclusiveMinimum": 0, "exclusiveMaximum": 1},
    label=CONFIDENCE.label,
)
SPEND = Field(
    "spend",
    "`false`: spend nothing, and refuse as `unconfirmed`, with its price, what history does not "
    "answer",
    "truth",
    default=True,
    flags={"--no-spend": "false"},
)
STATEMENT = (MEASURE, AS_OF, WITHIN, SURE)
ASSUMING = Field(
    "assuming",
    "least number of records behind an average",
    "whole",
    label="of at least this many records",
)

_PAIR = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
_EDGES = {
    "type": "object",
    "properties": {
        "edges": {"type": "array", "items": _PAIR},
        "variables": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["edges"],
    "additionalProperties": False,
}
NETWORK = _needed(
    "network FILE",
    "BIF text, or edges [parent, child]; parameters in it are not used",
    "json",
    {"oneOf": [{"type": "string"}, _EDGES]},
)
ALLOCATION = Field(
    "allocation",
    "of a network: `best`, `rows`, `uniform`, `arxiv` or `icml`",
    "text",
    default="best",
)
MARGINALS = Field(
    "marginals A,B", "of `marginals`: attributes of each wanted marginal", "lists", default=[]
)
SELECTION = Field(
    "selection",
    "of `marginals`: `best` buys the tables that determine the marginals best, with history; "
    "`merged` first buys tables that show rare values, and merges these; `listed` buys the "
    "marginals evenly",
    "text",
    default="best",
)
ORACLE = Field(
    "oracle",
    "of `marginals`: `exact`, `saturated`, `factor`, or `auto` by size",
    "text",
    default="auto",
)
LIKELIHOOD = Field(
    "likelihood",
    "of `marginals`: the loss to minimise, `squares` or `laplace`",
    "text",
    default="squares",
)
EPSILON = _needed(
    "epsilon E",
    "budget for tables; 0 uses history alone",
    schema={"minimum": 0, "maximum": MAX_EPSILON},
    label="Tables may cost, ε",
    note="in all; 0 uses history alone",
)

MARGINAL = Field(
    "marginal NAME",
    "P of these variables, given `given`",
    "texts",
    default=[],
    label="Show",
    inputs=("show",),
)
MOST_PROBABLE = Field(
    "most_probable NAME", "their most probable labels; all if empty", "texts", default=[]
)
COUNT = Field(
    "count FILE|JSON",
    "a linear query; the model's expectation of it",
    "json",
    default={},
    flag="--json-query",
    label="In SQL, or as JSON for HTTP",
)
GIVEN = Field(
    "given NAME=LABEL", "observed labels, by variable", "texts", default={}, label="Given"
)
CHECKED = replace(
    LENGTH, name="check.length L", about="a count is checked by an interval of this full length"
)
SURELY = replace(CONFIDENCE, name="check.confidence C", about="confidence of that interval")
FALLBACK = Field(
    "check.fallback_length L",
    "measure to this length if the check's interval misses the model's answer; at most `length`",
    schema=LENGTH.schema,
)
RECORDS = Field(
    "n",
    "number of records",
    "whole",
    {"minimum": 1, "maximum": MAX_RECORDS},
    1000,
    flag="-n",
    label="Records",
    note=f"at most {MAX_RECORDS:,}",
)
SEED = Field(
    "seed S",
    "the same seed draws the same records of a model",
    "whole",
    {"minimum": 0, "maximum": 2**48},
    label="Seed",
    note="the same seed, the same records",
)

FPR = _needed(
    "gate.fpr",
    "false-positive rate of the membership test",
    schema={"exclusiveMinimum": 0, "exclusiveMaximum": 1},
    usual=0.05,
)
MAX_POWER = _needed(
    "gate.max_power P",
    "largest share of members that a test may find",
    schema={"minimum": 0, "maximum": 1},
)
BASIS = Field(
    "gate.basis",
    "`cap` decides by epsilon alone, `least` also by the structure",
    default="least",
    choices={"least": "", "cap": ""},
)
LEARNT_FROM = _needed(
    "records N",
    "number of records behind the model, as you state it",
    schema={"exclusiveMinimum": 0},
)
COST = Field(
    "epsilon E", "epsilon of everything released; by default no privacy", schema={"minimum": 0}
)
GAME = Field(
    "game",
    "`replaced`: another record takes the target's place; `added`: none does, which has a meaning "
    "only under `add-remove`",
    default="replaced",
    choices={"replaced": "", "added": ""},
)
RELEASE = Field(
    "release",
    "`tables` of all families, as learning here does, or the `model` alone",
    default="tables",
    choices={"tables": "", "model": ""},
)
REFERENCE = Field(
    "reference_records N",
    "records the attacker knows of the population; by default all",
    schema={"exclusiveMinimum": 0},
    flag="--reference",
)
MAX_PARENTS = Field(
    "max_parents K", "most parents of an attribute", "whole", {"minimum": 0, "maximum": 8}, 2
)
MIN_GAIN = Field(
    "min_gain G",
    "an edge must raise the sum of scores by more than this",
    schema={"minimum": 0},
    default=0.01,
)
VARIABLES = Field(
    "variables NAME",
    "attributes of the model; by default all",
    "texts",
    {"minItems": 1},
    flag="--variable",
)
LEAK = (LEARNT_FROM, COST, GAME, RELEASE)
GATE = (FPR, MAX_POWER, BASIS)
STRUCTURE = (MAX_PARENTS, MIN_GAIN, VARIABLES)
_LABELS = {field.name: f"“{field.label}”" for field in (*QUESTION, AMONG, FIRST) if field.label}
_LABELS[SELECTED_FROM.name] = _LABELS[AMONG.name]
