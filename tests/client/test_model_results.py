"""Results of models as people see them: distributions, synthetic records, data frames."""

from __future__ import annotations

from qserver.client import (
    Distribution,
    SyntheticRecords,
)

DISTRIBUTION = {
    "answer": {
        "variables": ["<i>a</i>", "b"],
        "labels": [[str(i) for i in range(12)], ["x", "y"]],
        "probabilities": [[0.5 / 12, 0.5 / 12]] * 12,
    },
    "version": 3,
}


def test_a_distribution_shows_its_first_rows_and_escapes_names() -> None:
    found = Distribution.of(DISTRIBUTION)
    lines = repr(found).splitlines()
    assert lines[0] == "<i>a</i>  b  probability"
    assert lines[1] == "       0  x     0.041667"
    assert len(lines) == 1 + 20 + 1
    assert lines[-1] == "4 more rows; a model's answer, without a guarantee"
    page = found._repr_html_()
    assert "<i>" not in page
    assert page.count("<tr>") == 21
    assert found.records()[3] == {"<i>a</i>": "1", "b": "y", "probability": 0.5 / 12}


def test_records_keep_commas_quotes_and_line_ends() -> None:
    drawn = SyntheticRecords('a,b\n"x, ""y""","1\n2"\nz,3\n')
    assert list(drawn) == [('x, "y"', "1\n2"), ("z", "3")]
    assert drawn.records()[1] == {"a": "z", "b": "3"}
