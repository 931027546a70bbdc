"""One byte of a stopped deployment is changed: no reply is altered. `flips` counts 1,000."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.faults.flips import Site, change_a_byte, files_of, make_site, verdict

pytestmark = [
    pytest.mark.promise(
        "Faults and races",
        "a byte changed in any kind of key of a store alters no reply: it is refused, and "
        "`restore` brings back what the journal has, ledger, facts, charges, jobs and models "
        "included",
    ),
]

N_CHANGES = 24


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return make_site(tmp_path_factory.mktemp("site"))


@pytest.mark.slow
def test_an_unchanged_copy_gives_the_same_replies(site: Site, tmp_path: Path) -> None:
    """So a reply that differs below differs because of the change."""
    shutil.copytree(site.folder, tmp_path / "copy")
    assert verdict(site, tmp_path / "copy") == ("same", "replies")


@pytest.mark.slow
def test_no_changed_byte_alters_a_reply(site: Site, tmp_path: Path) -> None:
    """In the store's files and the journal, spread by their size."""
    rng, found = random.Random(11), set()
    files = sorted(files_of(site))
    for i in range(N_CHANGES):
        copy = tmp_path / f"copy-{i}"
        shutil.copytree(site.folder, copy)
        (chosen,) = rng.choices(files, [(site.folder / p).stat().st_size for p in files])
        place = change_a_byte(copy / chosen, rng)
        outcome, why = verdict(site, copy)
        assert outcome != "ALTERED", (chosen, place, why)
        found.add(outcome)
        shutil.rmtree(copy)
    assert "refused" in found
