"""What the store and the journal hold stays what it is, byte for byte: installed servers have it.

The samples in `stored.json` were written once. Where a form changes, the sample of the form before
stays, and is still read.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.storage.stored import STORED

SAMPLES: dict[str, str] = json.loads(Path(__file__).with_name("stored.json").read_text("utf-8"))


def test_there_is_a_sample_of_every_fact() -> None:
    assert set(SAMPLES) == set(STORED)


@pytest.mark.parametrize("name", sorted(n for n, stored in STORED.items() if stored.write))
def test_a_fact_is_written_as_it_always_was(name: str) -> None:
    write = STORED[name].write
    assert write is not None
    assert write(STORED[name].fact) == SAMPLES[name]


@pytest.mark.parametrize("name", sorted(n for n, stored in STORED.items() if stored.read))
def test_a_stored_text_is_read_as_the_fact_that_it_was(name: str) -> None:
    read = STORED[name].read
    assert read is not None
    assert read(SAMPLES[name]) == STORED[name].fact
