"""The files of the demonstration data: the Adult records and their public domain.

The records are public, so the online side may name the file; only the worker opens it.
`data/ATTRIBUTION.md` has their source, authors, licence and changes.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

N_ADULT_RECORDS = 32_561


def adult_csv() -> Path:
    """Path of the Adult records: gzip-compressed CSV with a header of 15 names, `?` for missing.

    The survey weight `fnlwgt` is its only column that is not in the domain.
    """
    return _data_file("adult.csv.gz")


def adult_domain() -> Path:
    """Path of the domain of 14 attributes, which contains every Adult record."""
    return _data_file("adult-domain.json")


def adult_attribution() -> Path:
    """Path of the text with the data's source, authors, licence and changes."""
    return _data_file("ATTRIBUTION.md")


def _data_file(name: str) -> Path:
    return Path(str(files("qserver"))) / "data" / name
