# Two commands on a fresh machine: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= $(firstword $(foreach version,3.11 3.12 3.13,$(shell command -v python$(version))) python3)
BIN := .venv/bin
# Pins every package, also those that only build ours.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
# Real capsule frames, if they lie beside this folder; tests that need them are skipped otherwise.
export DICE_CE_DATA ?= $(wildcard $(CURDIR)/../shared/data)

.PHONY: demo test check lint bench constraints clean

demo: .venv/demo-installed  ## make an exam, summarise it, say where the report is
	$(BIN)/dice-ce simulate --out demo/exam.mp4 --frames 3000
	$(BIN)/dice-ce summarize demo/exam.mp4 --out demo
	@echo "What was really there: demo/exam.findings.csv"
	@echo "Open the report: $(CURDIR)/demo/exam/report.html"

test: .venv/dev-installed  ## all tests
	$(BIN)/python -m pytest

lint: .venv/dev-installed  ## style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

check: lint test  ## everything a change must pass

bench: .venv/dev-installed  ## measure speed and memory; takes about ten minutes
	$(BIN)/python benchmarks/extract.py
	$(BIN)/python benchmarks/gate.py
	$(BIN)/python benchmarks/weave.py

constraints: .venv/dev-installed  ## write down the versions that are installed now
	$(BIN)/pip freeze --all --exclude-editable --exclude pip --exclude setuptools | sed 's/+cpu$$//' > constraints.txt

clean:
	rm -rf .venv demo build dist

.venv/bin/pip:
	$(PYTHON) -m venv .venv

.venv/demo-installed: .venv/bin/pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --editable '.[imagenet]'
	touch $@

.venv/dev-installed: .venv/bin/pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@
