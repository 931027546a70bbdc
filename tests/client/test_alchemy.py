"""The dialect of SQLAlchemy, and pandas on it, against the census data behind HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas
import pytest
import sqlalchemy as sa

from qserver.client import Client, dbapi
from qserver.client.alchemy.dialect import QServerDialect, SecureDialect, columns_of
from qserver.query.domain_file import domain_from_document, domain_to_document
from qserver.storage.accounts import AccountBook
from qserver.storage.store import Store
from tests.client.serving import by_token, serving
from tests.deployment import Deployment
from tests.query.domain_documents import DATE, LABELS, LEVELS, PERIOD, REAL, WAVES, WHOLE


@pytest.fixture
def engine(demo_url: str) -> Iterator[sa.Engine]:
    found = sa.create_engine(url_of(demo_url, "?within=300"))
    yield found
    found.dispose()


def url_of(demo_url: str, rest: str = "") -> str:
    return demo_url.replace("http://", "qserver://") + "/adult" + rest


def counted(engine: sa.Engine) -> sa.Select[Any]:
    adult = sa.Table("adult", sa.MetaData(), autoload_with=engine)
    return (
        sa.select(adult.c.sex, sa.func.count().label("n"))
        .where(adult.c.age.between(25, 44), adult.c.race.in_(["White", "Black"]))
        .group_by(adult.c.sex)
        .order_by(adult.c.sex)
    )


def test_datasets_are_tables_and_attributes_columns(engine: sa.Engine) -> None:
    found = sa.inspect(engine)
    assert found.default_schema_name == "public"
    assert found.get_schema_names() == ["public"]
    assert found.get_table_names() == found.get_table_names("public") == ["adult", "people"]
    assert found.get_table_names("other") == []
    assert [found.has_table(name) for name in ("adult", "other")] == [True, False]
    assert not found.has_table("adult", schema="other")
    columns = {column["name"]: column for column in found.get_columns("adult")}
    assert isinstance(columns["age"]["type"], sa.Integer)
    assert isinstance(columns["sex"]["type"], sa.String)
    assert not columns["sex"]["nullable"]
    assert "census" in str(found.get_table_comment("adult")["text"])
    assert found.get_pk_constraint("adult")["constrained_columns"] == []
    assert found.get_foreign_keys("adult") == found.get_indexes("adult") == []
    assert found.get_view_names() == []
    for name, schema in (("other", None), ("adult", "other")):
        with pytest.raises(sa.exc.NoSuchTableError):
            found.get_columns(name, schema)
    assert Client(url_http(engine)).dataset("adult").spent == 0.0


def test_columns_have_the_type_of_their_kind() -> None:
    parts: dict[str, dict[str, Any]] = {
        "whole": WHOLE,
        "real": REAL,
        "day": DATE,
        "time": {**DATE, "kind": "timestamp"},
        "week": PERIOD,
        "label": {**LABELS, **LEVELS},
    }
    domain = domain_from_document(
        {"attributes": [{**part, "name": name} for name, part in parts.items()]}
    )
    waves = domain_from_document({"attributes": [{**WAVES, "name": "wave"}]})
    found = columns_of(domain_to_document(domain)) + columns_of(domain_to_document(waves))
    assert [(column["name"], type(column["type"]), column["comment"]) for column in found] == [
        ("whole", sa.Integer, None),
        ("real", sa.Double, None),
        ("day", sa.Date, None),
        ("time", sa.Date, None),
        ("week", sa.Date, None),
        ("label", sa.String, None),
        ("big", sa.String, "level of label"),
        ("wave", sa.String, None),
    ]


@pytest.mark.slow
def test_a_question_is_paid_only_where_the_connection_says_so(engine: sa.Engine) -> None:
    question = counted(engine)
    with engine.connect() as connection:
        with pytest.raises(sa.exc.OperationalError) as caught:
            connection.execute(question)
        refused = caught.value.orig
        assert isinstance(refused, dbapi.PriceError)
        assert refused.price is not None
        with pytest.raises(sa.exc.ArgumentError, match="True or False"):
            connection.execution_options(qserver_spend="yes")
    assert Client(url_http(engine)).dataset("adult").spent == 0.0
    with engine.connect().execution_options(qserver_spend=True) as connection:
        assert connection.get_execution_options()["qserver_spend"] is True
        rows = connection.execute(question).all()
    spent = Client(url_http(engine)).dataset("adult").spent
    assert 0 < spent <= refused.price * (1 + 1e-9)
    assert [row.sex for row in rows] == ["Female", "Male", None]
    assert all(row.n_low < row.n < row.n_high for row in rows)
    assert rows[0].n_high - rows[0].n_low <= 600 * (1 + 1e-9)
    with engine.connect() as connection:  # the same one, back from the pool, does not spend
        assert connection.execute(question).all() == rows
        closer = question.suffix_with("WITHIN 50")
        with pytest.raises(sa.exc.OperationalError, match="may not spend budget"):
            connection.execute(closer)
        explained = connection.execute(sa.text("EXPLAIN SELECT COUNT(*) FROM adult WITHIN 50"))
        assert explained.one().price > 0
    assert Client(url_http(engine)).dataset("adult").spent == spent


@pytest.mark.slow
def test_pandas_reads_statements_and_no_records(demo_url: str) -> None:
    engine = sa.create_engine(url_of(demo_url, "?within=300&spend=on"))
    question = counted(engine)
    frame = pandas.read_sql(question, engine)
    assert list(frame.columns) == ["sex", "n", "n_low", "n_high"]
    assert list(frame["sex"].fillna("")) == ["Female", "Male", ""]
    assert (frame["n_low"] < frame["n_high"]).all()
    text = "SELECT sex, COUNT(*) AS n FROM adult WHERE age > ? GROUP BY sex"
    assert len(pandas.read_sql(text, engine, params=(40,))) == 3
    columns = [column["name"] for column in sa.inspect(engine).get_columns("adult")]
    empty = pandas.read_sql("SELECT * FROM adult WHERE 1 = 0", engine)
    assert (list(empty.columns), len(empty)) == (columns, 0)
    with pytest.raises((sa.exc.DBAPIError, pandas.errors.DatabaseError), match="count or sum"):
        pandas.read_sql_table("adult", engine)
    engine.dispose()


def test_nothing_is_written(engine: sa.Engine) -> None:
    adult = sa.Table("adult", sa.MetaData(), autoload_with=engine)
    other = sa.Table("other", sa.MetaData(), sa.Column("x", sa.Integer))
    with engine.connect() as connection:
        for statement in (adult.insert().values(sex="Male"), adult.delete()):
            with pytest.raises(sa.exc.ProgrammingError, match="no part of a question"):
                connection.execute(statement)
        with pytest.raises(sa.exc.ProgrammingError, match="CREATE"):
            other.create(connection)


def test_tools_may_ask_for_the_isolation_that_holds_anyway(engine: sa.Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        assert connection.get_isolation_level() == "AUTOCOMMIT"
    with engine.connect() as connection, pytest.raises(sa.exc.ArgumentError, match="SERIALIZABLE"):
        connection.execution_options(isolation_level="SERIALIZABLE")
    pinged = sa.create_engine(engine.url, pool_pre_ping=True)
    for _ in range(2):
        with pinged.connect() as connection:
            assert connection.execute(sa.text("SHOW TABLES")).scalars().all() == ["adult", "people"]
    pinged.dispose()


def test_a_url_has_the_arguments_of_the_driver() -> None:
    def read(text: str) -> dict[str, Any]:
        url = sa.make_url(text)
        dialect = url.get_dialect()()
        assert isinstance(dialect, QServerDialect)
        return dialect.create_connect_args(url)[1]

    assert read("qserver://") == {"url": "http://127.0.0.1:8000", "token": "", "dataset": None}
    assert sa.make_url("qserver+https://a").get_dialect() is SecureDialect
    full = "qserver+https://any:tok@[::1]/adult?spend=ON&within=2.5&retries=0&measure=auto"
    assert read(full) == {
        "url": "https://[::1]:443",
        "token": "tok",
        "dataset": "adult",
        "spend": True,
        "within": 2.5,
        "retries": 0,
        "measure": "auto",
    }
    for wrong in ("spend=yes", "within=far", "other=1", "within=1&within=2"):
        with pytest.raises(sa.exc.ArgumentError, match=wrong.partition("=")[0]):
            read(f"qserver+http://a/adult?{wrong}")


def test_the_password_is_the_token(tmp_path: Path, store_url: str) -> None:
    town = Deployment.make(tmp_path, store_url)
    token = AccountBook(Store.open(town.settings).client).create("ann", "analyst").text
    with serving(town, wait_s=0, access=by_token(town)) as served:
        place = sa.make_url(served.url.replace("http:", "qserver:"))
        for password, is_let_in in ((token, True), (token[:-1] + "!", False), (None, False)):
            engine = sa.create_engine(place.set(username="any", password=password))
            if is_let_in:
                assert sa.inspect(engine).get_table_names() == ["people"]
            else:
                with pytest.raises(sa.exc.OperationalError, match="token"):
                    sa.inspect(engine).get_table_names()
            assert token not in str(engine)
            engine.dispose()


def test_errors_of_the_way_are_those_of_sqlalchemy_wherever_they_come() -> None:
    engine = sa.create_engine("qserver://127.0.0.1:1/adult?retries=0")
    for ask in (
        lambda: sa.inspect(engine).get_table_names(),
        lambda: sa.inspect(engine).get_columns("adult"),
        lambda: engine.connect().execute(sa.text("SELECT COUNT(*) FROM adult")),
    ):
        with pytest.raises(sa.exc.OperationalError, match="No qserver answers") as caught:
            ask()
        assert isinstance(caught.value.orig, dbapi.OperationalError)
    engine.dispose()


def test_words_of_the_language_are_quoted() -> None:
    found = sa.Table("within", sa.MetaData(), sa.Column("capital-gain"))
    written = str(sa.select(found.c["capital-gain"]).compile(dialect=QServerDialect()))
    assert written == 'SELECT "within"."capital-gain" \nFROM "within"'


@pytest.mark.slow
def test_the_example_of_the_page_runs(demo_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2].joinpath("docs", "python.md").read_text(encoding="utf-8")
    [example] = re.findall(r"(?ms)^```python\n(import pandas.*?)^```$", page)
    exec(example.replace("qserver://127.0.0.1:8000/adult", url_of(demo_url)), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["Female", "Male", "None"]
    assert lines[3].split() == ["sex", "n", "n_low", "n_high"]


def url_http(engine: sa.Engine) -> str:
    return f"http://{engine.url.host}:{engine.url.port}"
