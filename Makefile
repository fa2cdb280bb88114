# Every target sets up what it needs in .venv and is cheap when nothing changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Where `make types` installs the built wheel: outside the checkout, gone at the end.
WHEEL_VENV ?=
ARGS ?=
# A whole suite has a process for each core; a part of it starts sooner in one.
SPREAD := $(if $(ARGS),,-n auto --dist loadfile --no-loadscope-reorder)

.DEFAULT_GOAL := help
.PHONY: help demo test long interop webgpu lint stubs types docs site bench native arm x86 wheel runner

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-6s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.demo  ## quantize a real network and run it on a real page
	$(BIN)/mdtensor demo $(ARGS)

test: $(VENV)/.test  ## the suite, without tests of some seconds or more
	$(BIN)/python -m pytest $(SPREAD) $(ARGS)

# The kernels once more as plain Python: real IndexErrors, real integer arithmetic.
# ARGS may choose tests of which none are here: pytest's exit status 5.
long: $(VENV)/.test  ## tests of some seconds, and the kernel tests without compilation
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest tests/kernels \
		-m "not slow and not compiled" $(SPREAD) $(ARGS) $(if $(ARGS),|| [ $$? = 5 ])
	$(BIN)/python -m pytest -m "long and not slow" $(SPREAD) $(ARGS) \
		$(if $(ARGS),|| [ $$? = 5 ])

# These libraries are large, and mdtensor needs none of them, so `make test` does not.
interop: $(VENV)/.interop  ## scikit-learn, pandas, xarray, dask, zarr, units: the slow tests
	$(BIN)/python -m pytest -m slow tests/interop $(ARGS)

# A driver is required: Debian's mesa-vulkan-drivers computes in software.
webgpu: $(VENV)/.webgpu  ## the device WebGPU, from its own package: needs a Vulkan driver
	MDTENSOR_REQUIRES_WEBGPU=1 $(BIN)/python -m pytest -m webgpu tests/test_webgpu.py $(ARGS)

lint: $(VENV)/.dev  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

stubs: $(VENV)/.test  ## *.pyi, after a change of operations, methods or exports
	$(BIN)/mdtensor stubs

# mypy cannot see the package-dir map in the sources, so it reads an installed wheel.
types: wheel  ## mypy on the built wheel, installed outside the checkout
	@set -eu; \
	place="$(WHEEL_VENV)"; \
	if [ -z "$$place" ]; then \
		place=$$(mktemp -d); trap 'rm -rf "$$place"' EXIT; \
	fi; \
	config="$(CURDIR)/pyproject.toml"; \
	wheel=$$(ls "$(CURDIR)"/dist/mdtensor-*.whl); \
	echo "types: installing $$(basename $$wheel) into a fresh environment"; \
	$(BIN)/python -m venv "$$place"; \
	"$$place/bin/python" -m pip install --disable-pip-version-check -q \
		"$$wheel[cli]" mypy; \
	cd "$$place"; \
	bin/python -m mypy --config-file "$$config" --cache-dir "$$place/.cache" -p mdtensor

docs: $(VENV)/.test  ## run every example of README, docs/ and the docstrings
	$(BIN)/python -m pytest tests/test_docs.py $(ARGS)

# Chromium opens the pages where it is installed; links are checked without it, too.
site: $(VENV)/.docs  ## the documentation as a site: build/site/index.html
	$(BIN)/python -m sphinx -q -E -W --keep-going -c docs/site -d build/doctrees . build/site
	$(BIN)/python -m pytest -m slow tests/test_site.py $(ARGS)

# ARGS may name benches, a --row of them, or --quick.
bench: $(VENV)/.bench  ## every benchmark, then docs/reference/benchmarks.md from the results
	$(BIN)/python -m bench $(ARGS)

# Needs gcc and Python's headers; without libraries numba compiles at the first call.
native: $(VENV)/.dev  ## kernels ahead of time: kernels/native/*.so; ARGS may name ISAs
	$(BIN)/python -m mdtensor.kernels.build $(ARGS)

# Needs Debian 12 with qemu-user and a network; .arm gets the rest, some 700 MB.
ARM := $(CURDIR)/.arm
arm: $(VENV)/.test  ## kernels of 64-bit Arm, run by an emulator: the slow tests
	$(BIN)/python tests/support/arm_root.py $(ARM)
	CC=$(ARM)/cc $(BIN)/python -m mdtensor.kernels.build --machine aarch64 --to $(ARM)/libraries
	MDTENSOR_ARM=$(ARM) $(BIN)/python -m pytest -m slow tests/kernels/native/test_arm.py $(ARGS)

# Needs gcc and a network; the package of the emulated CPU goes to .x86, some 7 MB.
X86 := $(CURDIR)/.x86
x86: $(VENV)/.test  ## kernels beyond AVX2, run by an emulator: the slow tests
	$(BIN)/python tests/support/x86_root.py $(X86)
	$(BIN)/python -m mdtensor.kernels.build avx512 vnni avxvnni --to $(X86)/libraries
	MDTENSOR_X86_ROOT=$(X86) $(BIN)/python -m pytest -m slow tests/kernels/native/test_x86.py $(ARGS)

# With libraries the wheel is for their platform, or else for all. Files in it have the
# time of the last commit, so that two builds give the same bytes.
INDEX := kernels/native/entries.json
PLATFORM = $(if $(wildcard $(INDEX)),-C--build-option=--plat-name=$(shell \
	$(BIN)/python -c "import json; print(json.load(open('$(INDEX)'))['platform'])"))
BUILD = SOURCE_DATE_EPOCH=$(shell git log -1 --format=%ct) $(BIN)/python -m build --wheel

wheel: $(VENV)/.dev  ## dist/mdtensor-*.whl, with the libraries of `make native`
	rm -rf build dist
	$(BUILD) --outdir dist $(PLATFORM) .

# The wheel has its own project, and no file of mdtensor but the libraries.
RUNNER := build/runner
runner: $(VENV)/.dev  ## dist/mdtensor_run-*.whl, the runner with the libraries of `make native`
	@test -e $(INDEX) || { \
		echo "There are no libraries yet: run make native first"; exit 1; }
	rm -rf $(RUNNER) dist/mdtensor_run-*.whl
	mkdir -p $(RUNNER)/mdtensor_run
	cp quant/run_plan/*.py quant/run_plan/py.typed $(RUNNER)/mdtensor_run
	cp kernels/native/*.so $(INDEX) $(RUNNER)/mdtensor_run
	cp quant/run_plan/wheel.toml $(RUNNER)/pyproject.toml
	cp LICENSE $(RUNNER)
	$(BUILD) --outdir dist $(PLATFORM) $(RUNNER)

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "mdtensor needs Python 3.11 or newer; '$(PYTHON)' is not." \
			"Say which one: make PYTHON=python3.12 <target>"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "'$(PYTHON)' cannot make virtual environments: its venv or ensurepip" \
			"module is missing. Install it (Debian: python3-venv)."; exit 1; }
	@echo "setup: $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.webgpu: $(VENV)/.test
	$(PIP) install -e ".[webgpu]"
	@touch $@

# The networks of the demo are in a package whose metadata exclude Python 3.13, where it
# runs all the same.
OLDER = $(BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 13))'

# One stamp an extra; pip finds what is already there and adds the rest.
$(VENV)/.demo $(VENV)/.test $(VENV)/.interop $(VENV)/.docs $(VENV)/.bench $(VENV)/.dev: $(VENV)/.%: pyproject.toml $(VENV)/.python
	@echo "setup: installing mdtensor[$*] (the first time takes some minutes)"
	$(PIP) install -e ".[$*]"
	@$(OLDER) || $(PIP) install --ignore-requires-python rapidocr-onnxruntime==1.4.4
	@touch $@
