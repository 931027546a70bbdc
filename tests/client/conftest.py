"""A deployment behind HTTP, and the census data of the demo behind HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from threading import Event, Thread

import pytest

from qserver.cli.local.demo import adult_csv, adult_domain
from qserver.query.domain_loading import load_domain
from tests.client.serving import Served, serving
from tests.deployment import Deployment
from worker.owner.attach import AttachRequest, attach


@pytest.fixture
def served(tmp_path: Path, store_url: str) -> Iterator[Served]:
    """The people of the deployment; what must be measured becomes a job at once."""
    with serving(Deployment.make(tmp_path, store_url, limit="1000"), wait_s=0) as found:
        yield found


@pytest.fixture
def demo_url(tmp_path: Path, store_url: str) -> Iterator[str]:
    """A server of the census data whose worker works off each job as it comes."""
    town = Deployment.make(tmp_path, store_url, limit="2")
    request = AttachRequest(
        name="adult",
        data=adult_csv(),
        domain=load_domain(adult_domain()),
        limit=Fraction(2),
        relation="add-remove",
        population="town",
        records_per_person=1,
    )
    meta = attach(
        request, settings=town.settings, registry=town.registry, progress=lambda _text: None
    )
    done = Event()
    worker = Thread(target=_work, args=(replace(town, meta=meta), done))
    worker.start()
    with serving(town, wait_s=20.0) as served:
        yield served.url
    done.set()
    worker.join()


def _work(town: Deployment, done: Event) -> None:
    spender = town.spender()
    while not done.wait(0.02):
        town.work_off(spender)
