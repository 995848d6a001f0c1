# Two commands for everybody: `make demo` and `make test`. Each makes its own virtual environment.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo serve-demo test lint format accuracy cuda docs tutorials web wheels release clean

# torch is installed by its pin first, so that no later step chooses another build of it
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) torch
	$(PIP) --editable '.[demo,service]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) torch
	$(PIP) --editable '.[demo,plots,datasets,excel,baselines,recommenders,index,service,postgres,sql,neo4j,igraph,onnx,qdrant,lancedb,pgvector,cluster,metis,docs,tune,dev]'
	@touch $@

$(VENV)/.release: $(VENV)/.dev
	$(PIP) --editable '.[release]'
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/yinyan demo --report yinyan-demo/report.html

serve-demo: $(VENV)/.demo
	$(BIN)/yinyan serve-demo

# a process of tests for each core, with one thread each
test: $(VENV)/.dev lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m 'not slow'

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# on a machine with a CUDA device and a build of torch that uses it
cuda: $(VENV)/.dev
	$(BIN)/python -m pytest -m cuda -rs

accuracy: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

# the pages of docs/reference, from docstrings, settings and commands; they are committed. Then the site, in build/site:
# a link that leads nowhere and a page that is in no table of docs/README.md are errors
docs: $(VENV)/.dev
	$(BIN)/python docs/make_reference.py
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -c docs -d build/pages . build/site

# the outputs of docs/tutorials, which are committed, from their code
tutorials: $(VENV)/.dev
	$(BIN)/jupyter execute --inplace --NotebookClient.record_timing=False docs/tutorials/*.ipynb

# the page that `yinyan serve` shows; its built form is committed, so only who changes web/ needs node
web: web/node_modules/.package-lock.json
	cd web && npm run --silent check && npm run --silent build

web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm ci --no-audit --no-fund

# the source distribution and a wheel for each platform, in dist/; `zig c++` compiles for all of them
wheels: $(VENV)/.release
	$(BIN)/python release/build_wheels.py --out dist

# the same, checked; that of this machine is installed alone, tested without a compiler and offline, and runs the demo
release: wheels
	$(BIN)/twine check --strict dist/*
	$(BIN)/python release/inspect_wheels.py dist/*.whl
	$(BIN)/auditwheel show dist/yinyan-*-manylinux_2_17_x86_64*.whl
	$(BIN)/python release/try_wheel.py dist/yinyan-*-manylinux_2_17_$$(uname -m)*.whl --keep build/trial
	$(BIN)/python benchmarks/speed/wheel.py --python build/trial/venv/bin/python

clean:
	rm -rf $(VENV) build dist yinyan-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
