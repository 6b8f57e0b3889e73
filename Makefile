# Two commands on a fresh machine: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= $(firstword $(foreach version,3.11 3.12 3.13,$(shell command -v python$(version))) python3)
BIN := .venv/bin
# Pins every package, also those that only build ours.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
# Real capsule frames, if they lie beside this folder; tests that need them are skipped otherwise.
export DICE_CE_DATA ?= $(wildcard $(CURDIR)/../shared/data)

.PHONY: demo test test-hard soak check lint fuzz bench bundle results constraints clean

demo: .venv/demo-installed  ## make an exam, summarise it, say where the report is
	$(BIN)/dice-ce simulate --out demo/exam.mp4 --frames 3000
	$(BIN)/dice-ce summarize demo/exam.mp4 --out demo
	@echo "What was really there: demo/exam.findings.csv"
	@echo "Open the report: $(CURDIR)/demo/exam/report.html"

test: .venv/dev-installed  ## all tests
	$(BIN)/python -m pytest

test-hard: .venv/dev-installed  ## all tests three times, in random order, beside four busy processes
	$(BIN)/python -m tests.hard --runs 3 --busy 4

soak: .venv/dev-installed  ## kill a thousand runs at random moments and look at what they leave; takes about ten minutes
	$(BIN)/python -m tests.soak --kills 1000

lint: .venv/dev-installed  ## style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

check: lint test  ## everything a change must pass

fuzz: .venv/dev-installed  ## give 2,000 damaged inputs to the command; takes about five minutes
	$(BIN)/python -m tests.fuzzing --inputs 2000 --seed 0

bench: .venv/dev-installed  ## measure speed and memory; takes about ten minutes
	$(BIN)/python benchmarks/extract.py
	$(BIN)/python benchmarks/gate.py
	$(BIN)/python benchmarks/weave.py
	$(BIN)/python benchmarks/evaluate.py
	$(BIN)/python benchmarks/compose.py $(DICE_CE_DATA)

# The two below need real frames (DICE_CE_DATA, see docs/how-to/datasets.md) and hours; both can be interrupted.
WORK ?= results
COMPOSE = $(BIN)/dice-ce data compose --frames $(DICE_CE_DATA) --timelines $(DICE_CE_DATA)/galar/events.json \
	--out $(WORK)/composed --exams 48 --frames-per-exam 8000 --shares 0,24,24

bundle: .venv/dev-installed  ## fine-tune, train and tune the bundle that ships
	$(BIN)/python tools/finetune_encoder.py --data $(DICE_CE_DATA) --work $(WORK)/encoder --out $(WORK)/encoder.onnx
	$(COMPOSE)
	$(BIN)/python tools/train_default_bundle.py --data $(DICE_CE_DATA) --encoder $(WORK)/encoder.onnx \
		--work $(WORK)/encoder --exams $(WORK)/composed

results: .venv/dev-installed  ## compose exams, tune and run every method on them, write all tables and plots
	$(COMPOSE)
	$(BIN)/dice-ce tune --data $(WORK)/composed --trials 400 --out $(WORK)/tuned --log $(WORK)/trials.csv
	$(BIN)/dice-ce benchmark --data $(WORK)/composed --bundle $(WORK)/tuned --out $(WORK)/benchmark

constraints: .venv/dev-installed  ## write down the versions that are installed now
	$(BIN)/pip freeze --all --exclude-editable --exclude pip --exclude setuptools | sed 's/+cpu$$//' > constraints.txt

clean:
	rm -rf .venv demo results build dist

.venv/bin/pip:
	$(PYTHON) -m venv .venv

.venv/demo-installed: .venv/bin/pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --editable .
	touch $@

.venv/dev-installed: .venv/bin/pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@
