# What a contributor runs; CONTRIBUTING.md says when.
export OPENBLAS_NUM_THREADS = 1
BIN = .venv/bin

.PHONY: setup test slow check site serve

setup:
	python3 -m venv .venv
	$(BIN)/pip install --editable '.[test,docs]'

test:
	$(BIN)/pytest

slow:
	$(BIN)/pytest -m slow

check:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

site:
	$(BIN)/mkdocs build --strict -f deploy/site/mkdocs.yml

serve:
	$(BIN)/mkdocs serve -f deploy/site/mkdocs.yml
