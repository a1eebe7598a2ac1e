# All targets install what they need: a virtual environment in .venv, the locked dependencies, the extension module.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
UV_VERSION := 0.13.9
LOCK := tests/python/requirements.txt
# cmake builds libjpeg-turbo, and nasm, which PyPI does not have, assembles its SIMD code for x86.
NASM := .cache/nasm/.installed
# Some machines set it. Then hundreds of processes each compile torch and the package again, and pytest compiles tests.
unexport PYTHONDONTWRITEBYTECODE
# Otherwise torch's threads spin while they wait, and take CPU time from other tests.
export OMP_WAIT_POLICY := PASSIVE
export PATH := $(PATH):$(CURDIR)/$(BIN):$(CURDIR)/.cache/nasm/usr/bin
# All features of the crate, except candle and burn, which take minutes to build (make examples).
CRATE_FEATURES := futures,image,ndarray,npz,parquet,zarr
comma := ,
SOURCES := $(shell find src python/src -name '*.rs') Cargo.toml Cargo.lock python/Cargo.toml pyproject.toml
# With BEHIND=nice, other builds run at low priority, after the extension module and the Python tests, which take longest.
# Tests are not niced; the timing tests would fail.
BEHIND :=
# Processes that run Python tests: more than two CPUs, because tests also wait, but more processes take more CPU time.
PYTEST_JOBS := 3
# The folders whose tests import large packages, and thus make large processes, as the package's doctests do.
LARGE := $(addprefix tests/python/,formats image native recognition stream transformers transforms writers xarray)
# Trainings on several ranks, which take two minutes of processor time.
RANKS := $(addprefix tests/python/,test_trainers_sharded.py accelerate/test_accelerate_ranks.py transformers/test_trainer_ranks.py)
# The seed of a random order of the Python tests, if any.
SHUFFLE :=
PYTEST = $(BIN)/python -m pytest --quiet --numprocesses $(PYTEST_JOBS) --dist worksteal $(if $(SHUFFLE),--shuffle=$(SHUFFLE))

.PHONY: help dev demo docs test test-rust test-python test-small test-large check test-assertions test-ranks test-tight test-loom test-soak test-trainers test-cuda examples lint lint-rust lint-python format fuzz mutants mutants-core miri msrv bench bench-native bench-cuda wheel lock clean
.DEFAULT_GOAL := help

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

$(VENV)/.installed: $(LOCK)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(UV) pip install --quiet --python $(BIN)/python --requirement $(LOCK)
	@touch $@

# If nasm is missing, Debian's package is unpacked into a folder, which does not need root.
$(NASM):
	@mkdir -p $(@D)
	@nasm --version >/dev/null 2>&1 || test "$$(uname -m)" != x86_64 \
		|| (cd $(@D) && (apt-get -qq download nasm || (apt-get -qq update && apt-get -qq download nasm)) && dpkg -x nasm_*.deb .) \
		|| (echo 'nasm is missing, which the JPEG decoder is built with: install it (the package is called nasm)' && false)
	@touch $@

# For tests: little optimized, with overflow checks, and with the features of the native tests, which share the crate as
# it is built here.
$(VENV)/.built: $(VENV)/.installed $(NASM) $(SOURCES)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --uv --locked --quiet \
		--features sluicegate/$(subst $(comma),$(comma)sluicegate/,$(CRATE_FEATURES))
	@rm -f $(VENV)/.optimized
	@touch $@

# For benchmarks. Tests also use this one while it exists.
$(VENV)/.optimized: $(VENV)/.installed $(NASM) $(SOURCES)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --uv --release --locked --quiet
	@touch $(VENV)/.built $@

dev: $(VENV)/.built ## Build the extension module for daily work: in seconds, at about half the speed

demo: $(VENV)/.optimized ## Train on real photographs with torch's loader and with ours, kill, resume, and compare
	$(BIN)/python -m sluicegate demo

docs: $(VENV)/.installed ## Build the documentation, with the API reference, into .cache/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# All at once, also without --jobs: some tests use the time in which others wait. Two processes for each half of the Python
# tests start and collect less than three for one after the other. With --jobs, as in CI, there is enough besides.
test: $(VENV)/.built ## What every change must pass: native tests, doctests, Python tests, the examples in the documentation
	$(MAKE) $(if $(findstring jobserver,$(MAKEFLAGS)),test-rust test-python,--jobs=3 PYTEST_JOBS=2 test-rust test-small test-large)

# Runs after the build of the extension module, whose crate and dependencies it shares: built twice, they took four
# minutes more of processor time. What only debug assertions find, the fuzzers and test-assertions do.
# All commands build the whole workspace, so that every build unifies the features of dependencies in the same way, but
# not the benchmarks.
CRATE_TESTS := --locked --quiet --workspace --exclude sluicegate-benches --features $(CRATE_FEATURES)

test-rust: $(VENV)/.built
	$(BEHIND) cargo test $(CRATE_TESTS) --profile dev --no-run
	cargo test $(CRATE_TESTS) --profile dev
	$${CARGO_TARGET_DIR:-target}/debug/examples/ndarray
	$${CARGO_TARGET_DIR:-target}/debug/examples/arrow

# The first tests fork workers of processes that have not imported torchvision, transformers, and Arrow, which takes a
# fourth less processor time.
TEST_SMALL = $(PYTEST) tests/python tests/mutants $(addprefix --ignore=,$(LARGE) $(RANKS))
TEST_LARGE = $(PYTEST) $(LARGE) python/sluicegate $(addprefix --ignore=,$(RANKS))

test-python: $(VENV)/.built
	$(TEST_SMALL)
	$(TEST_LARGE)

test-small: $(VENV)/.built
	$(TEST_SMALL)

test-large: $(VENV)/.built
	$(TEST_LARGE)

# .ci/run also runs these, except test-assertions and test-trainers, which build the crate a second time and install
# unlocked packages.
check: lint docs test-assertions test-ranks test-tight test-loom test-soak fuzz test-trainers ## What a release must pass in addition to make test: lints, docs, debug assertions, several ranks, few slots, loom, soak, a minute per fuzzer, trainers

test-assertions: $(VENV)/.built ## Run the native tests and doctests with debug assertions, ours and those of the standard library
	cargo test $(CRATE_TESTS)

examples: ## Train on the demo's photographs in Rust, with candle and with burn, and test what connects them
	cargo test --locked --quiet --release --features burn-flex,candle integration
	cargo run --locked --quiet --release --features burn-flex,candle --example candle
	cargo run --locked --quiet --release --features burn-flex,candle --example burn

test-tight: PYTEST_JOBS = 2
test-tight: $(VENV)/.built ## Run the tests that depend on slots with two of them and a prefetch of one
	$(PYTEST) --tight tests/python

test-ranks: PYTEST_JOBS = 1
test-ranks: $(VENV)/.built ## Kill and resume trainings on several ranks, in the trainers that are locked
	$(PYTEST) $(RANKS)

test-loom: $(VENV)/.installed ## Check the rings and bells in every interleaving
	RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=target/loom $(BEHIND) cargo test --locked --quiet --profile loom --lib loom

# An hour finds more: make test-soak SOAK_SECONDS=3600
SOAK_SECONDS := 60

test-soak: $(VENV)/.built ## Open loaders and kill their workers for a minute
	SLUICEGATE_SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m pytest --quiet tests/python/loader/test_soak.py

# In a separate folder from the locked packages, which trainers also import. mmengine's checkpoints hold more than weights.
TRAINERS := .cache/trainers/.installed

$(TRAINERS): tests/python/trainers.txt $(VENV)/.installed
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --target $(@D) --requirement $<
	@touch $@

test-trainers: $(TRAINERS) $(VENV)/.built ## Run examples and kill trainings in the trainers of trainers.txt
	@grep '^| ' docs/trainers.md
	PYTHONPATH=$(CURDIR)/$(<D) YOLO_CONFIG_DIR=$(CURDIR)/$(<D)/settings TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 \
		$(BIN)/python -m pytest --quiet tests/python/test_documentation.py tests/python/test_trainer_table.py \
		$(wildcard tests/python/test_trainers_*.py) -k trainers

# The machine with the GPU needs no compiler and no network: only a wheel that was built elsewhere, and a Python that has
# torch and pytest.
CUDA_PYTHON ?= python3
CUDA_PACKAGE := .cache/cuda/.unpacked

wheel: $(VENV)/.installed $(NASM) ## Build the wheel into dist/
	$(BIN)/maturin build --release --locked --quiet --out dist

$(CUDA_PACKAGE): $(wildcard dist/*.whl)
	@test -n "$^" || (echo 'there is no wheel in dist/: build one with make wheel, where there is a compiler' && false)
	@rm -rf $(@D) && mkdir -p $(@D) && $(CUDA_PYTHON) -m zipfile -e $(lastword $(sort $^)) $(@D) && touch $@

test-cuda: $(CUDA_PACKAGE) ## Run the tests that need a GPU, with the wheel in dist/ and CUDA_PYTHON
	PYTHONPATH=$(CURDIR)/$(<D) timeout 1500 $(CUDA_PYTHON) -m pytest --quiet -c tests/python/cuda.ini --rootdir tests/python \
		tests/python/device/test_cuda.py

bench-cuda: $(CUDA_PACKAGE) ## Measure copies to a GPU against torch's, with the wheel in dist/ and CUDA_PYTHON
	PYTHONPATH=$(CURDIR)/$(<D) OMP_WAIT_POLICY=PASSIVE $(CUDA_PYTHON) benches/python/cuda.py

lint: lint-rust lint-python ## Check formatting, lints, types, the stub and the rules of the tree

lint-rust: $(VENV)/.built
	cargo fmt --all --check
	$(BEHIND) cargo clippy --locked --quiet --lib -- --deny warnings
	$(BEHIND) cargo clippy --locked --quiet --workspace --all-targets --features $(CRATE_FEATURES) -- --deny warnings
	RUSTDOCFLAGS='--deny warnings' $(BEHIND) cargo doc --locked --quiet --no-deps --workspace --features $(CRATE_FEATURES)
	@! cargo tree --locked --edges normal | grep pyo3 || (echo 'the core must not depend on pyo3' && false)

lint-python: $(VENV)/.built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=benches/python $(BIN)/mypy benches/python
	$(BIN)/python -m mypy.stubtest sluicegate._core --mypy-config-file tests/python/stubtest.ini --allowlist tests/python/stubtest_allowed.txt

format: $(VENV)/.installed ## Format all code
	cargo fmt --all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# An hour of each finds more: make fuzz FUZZ_SECONDS=3600. A single one: make fuzz FUZZ_TARGETS=tar. In parallel: FUZZ_JOBS=8.
FUZZ_SECONDS := 60
FUZZ_JOBS := 2
# The limit in seconds for one input, by the clock: raise it on a busy machine.
FUZZ_TIMEOUT := 20
FUZZ_TARGETS := $(notdir $(wildcard fuzz/corpus/*))
# Features of the crate, if not all that the targets have.
FUZZ_FEATURES :=
# What libFuzzer needs, and the address sanitizer. The latter needs a nightly compiler; RUSTC_BOOTSTRAP enables it in the
# stable one, so that no second one is needed.
FUZZ_FLAGS := --cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module -Ccodegen-units=16 $(addprefix -Cllvm-args=, \
	-sanitizer-coverage-level=4 -sanitizer-coverage-inline-8bit-counters -sanitizer-coverage-pc-table \
	-sanitizer-coverage-trace-compares -sanitizer-coverage-stack-depth -simplifycfg-branch-fold-threshold=0)
FUZZ_BUILD = RUSTC_BOOTSTRAP=1 RUSTFLAGS='$(FUZZ_FLAGS)' CARGO_TARGET_DIR=target/fuzz $(BEHIND) cargo build --locked --quiet \
	--release --manifest-path fuzz/Cargo.toml --target $(shell uname -m)-unknown-linux-gnu \
	$(if $(FUZZ_FEATURES),--no-default-features --features $(FUZZ_FEATURES))
# The JPEG decoder of the extension module, which takes a minute to build, and which neither instruments.
FUZZ_JPEG = $(abspath $(lastword $(shell ls -dtr $${CARGO_TARGET_DIR:-target}/debug/build/turbojpeg-sys-*/out 2>/dev/null)))
FUZZ_JPEG_SOURCE = $(if $(FUZZ_JPEG),TURBOJPEG_SOURCE=explicit TURBOJPEG_LIB_DIR=$(FUZZ_JPEG)/lib TURBOJPEG_INCLUDE_DIR=$(FUZZ_JPEG)/include)

fuzz: $(VENV)/.built ## Feed damaged files of every format to their parsers, under the address sanitizer
	@mkdir -p .cache/fuzz/found
	@$(FUZZ_JPEG_SOURCE) $(FUZZ_BUILD)
	@printf '%s\n' $(FUZZ_TARGETS) | $(BEHIND) xargs -P $(FUZZ_JOBS) -I TARGET fuzz/run TARGET $(FUZZ_SECONDS) $(FUZZ_TIMEOUT)

# A different sample of mutants: make mutants MUTANTS=300 MUTANTS_SEED=2. Of one package: make mutants MUTANTS_OF='sampler/*.py'.
MUTANTS := 60
MUTANTS_SEED := 1
MUTANTS_OF := **/*.py

mutants: $(VENV)/.built ## Change the Python package in random places, one at a time, and list what its tests do not notice
	$(BIN)/python tests/mutants --sample $(MUTANTS) --seed $(MUTANTS_SEED) --only '$(MUTANTS_OF)'

# Every 60th mutant of the crate, from number 17 on, in a random order: about 200, which take two CPUs four hours.
# Others: make mutants-core MUTANTS_PART=3/60. Of one file: make mutants-core MUTANTS_PART=0/1 MUTANTS_IN=src/shard.rs.
MUTANTS_PART := 17/60
MUTANTS_IN := $(addprefix src/,collate/** memory/** pipeline/** rng/** sampler/** shard.rs state.rs state/** dataset/format/**)
CARGO_MUTANTS := .cache/cargo-mutants/bin/cargo-mutants

$(CARGO_MUTANTS):
	cargo install --quiet --locked --debug --version 27.1.0 --root .cache/cargo-mutants cargo-mutants

mutants-core: $(CARGO_MUTANTS) $(VENV)/.installed $(NASM) ## Change the crate in random places, one at a time, and list what the native tests do not notice
	$(CARGO_MUTANTS) mutants --package sluicegate --features $(CRATE_FEATURES) $(foreach each,$(MUTANTS_IN),--file '$(each)') \
		--sharding round-robin --shard $(MUTANTS_PART) --shuffle --timeout 300 --build-timeout 1800 \
		--output .cache/mutants -- --locked --lib --test native

# Run by hand, with a nightly compiler that has the component miri. rayon's queues never free their memory, which miri reports
# as a leak, so the only test with a thread pool runs separately.
MIRI := -Zmiri-disable-isolation -Zmiri-tree-borrows

miri: ## Run the tests of memory and collate in an interpreter that knows what is undefined
	MIRIFLAGS='$(MIRI)' cargo +nightly miri test --locked --lib -- memory:: collate:: \
		--skip two_processes --skip fork:: --skip fault:: --skip container
	MIRIFLAGS='$(MIRI)' cargo +nightly miri test --locked --test native -- interpreted:: collate:: batch:: --skip on_threads
	MIRIFLAGS='$(MIRI) -Zmiri-ignore-leaks' cargo +nightly miri test --locked --test native -- interpreted::batches_are_fetched_on_threads

# The oldest compiler that Cargo.toml promises to support; candle and burn need a newer one.
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

msrv: $(VENV)/.installed $(NASM) ## Check the crate with the oldest compiler that it promises
	cargo +$(MSRV).0 check --locked --features $(CRATE_FEATURES)

bench: $(VENV)/.optimized ## Measure against torch and print the tables
	cargo bench --locked --package sluicegate-benches
	$(BIN)/python benches/python/run.py --markdown

# A separate package with its own lock file, because burn takes minutes to build. One part: make bench-native VERSUS=slow
VERSUS :=

bench-native: ## Measure the crate against other Rust loaders and print the table
	@cargo bench --locked --quiet --manifest-path benches/versus/Cargo.toml -- $(VERSUS)

lock: ## Renew the lock files
	cargo update
	cargo update --manifest-path benches/versus/Cargo.toml
	cargo update --manifest-path fuzz/Cargo.toml
	$(UV) pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-annotate --no-header \
		--extra demo --group build --group dev --upgrade --output-file $(LOCK) pyproject.toml

clean: ## Remove everything that was made
	cargo clean
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
