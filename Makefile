# What a contributor runs; CONTRIBUTING.md says when.
export OPENBLAS_NUM_THREADS = 1
BIN = .venv/bin

.PHONY: setup test slow check site serve versions

setup:
	python3 -m venv .venv
	$(BIN)/pip install --editable '.[test,docs]' pre-commit

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
	$(BIN)/mkdocs build -f deploy/site/mkdocs.yml

serve:
	$(BIN)/mkdocs serve -f deploy/site/mkdocs.yml

# Keeps the site of this version on the branch gh-pages, beside those of others, and shows all.
SITE = -F deploy/site/mkdocs.yml
VERSION = $(shell $(BIN)/python -c 'import qserver; print(qserver.__version__)')
versions: export PATH := $(CURDIR)/$(BIN):$(PATH)
versions:
	mike deploy $(SITE) --update-aliases $(VERSION) latest
	mike set-default $(SITE) latest
	mike serve $(SITE)
