# Each target works as the first and only command on a bare Debian clone:
#   make demo     the whole story on a tiny model          make demo FAULT=wrong-eps
#   make test     everything that CI checks
#   make build    build/bin/record and build/bin/replay
#   make fuzz SECONDS=60   lets every fuzz target search that long
#   make bench    digests against XXH3, distances against a plain loop, replaying, the recorder against plain
#                 eager and its peers (HARNESS=folder of theirs)
#   make tsan     the recorder's tests under the thread sanitizer
#   make test-older   the recorder against an older torch, and traces across the two (after make test)
# PYTHON=... uses an interpreter that already has the packages of requirements.txt instead of making .venv.

PACKAGES = clang cmake flatbuffers-compiler g++ libbenchmark-dev libclang-rt-dev libcli11-dev libflatbuffers-dev \
           libboost-math-dev libgmock-dev libgtest-dev libhwy-dev libspdlog-dev libxxhash-dev libzstd-dev ninja-build nlohmann-json3-dev pkg-config \
           python3-dev python3-venv
FAULT = norm-without-one
JOBS = $(shell nproc)
OLDER_TORCH = 2.11.0
SECONDS = 10
HARNESS = ../shared/bench

ifdef PYTHON
  python = $(PYTHON)
else
  python = $(CURDIR)/.venv/bin/python
  environment = .venv/installed
endif

.PHONY: bench build demo test tsan fuzz test-older packages clean
.DEFAULT_GOAL := build

packages:
	@missing=; for package in $(PACKAGES); do \
	  dpkg-query -W -f='$${Status}' $$package 2>/dev/null | grep -q 'ok installed' \
	    || missing="$$missing $$package"; \
	done; \
	[ -z "$$missing" ] && exit 0; \
	if [ "$$(id -u)" = 0 ]; then sudo=; \
	elif sudo -n true 2>/dev/null; then sudo=sudo; \
	else echo "missing packages; run: apt-get install$$missing" >&2; exit 1; fi; \
	$$sudo apt-get update -qq && \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$missing

.venv/installed: requirements.txt | packages
	python3 -m venv .venv
	.venv/bin/python -m pip install -q --disable-pip-version-check -r requirements.txt
	touch $@

build: packages $(environment)
	cmake --preset release -DGOLDENTRACE_PYTHON=$(python)
	cmake --build --preset release -j $(JOBS) --target record replay goldentrace_python

demo: build
	@sh examples/demo.sh build $(python) $(FAULT)

# Everything in a release build; what needs no Torch in a build without it, under the sanitizers; the
# recorder in a debug build, which must record the same; the programs by pytest.
RECORD_TARGETS = record replay goldentrace_python goldentrace_record_test record_cpp long_recording
test: packages $(environment)
	cmake --preset asan-ubsan
	cmake --build --preset asan-ubsan -j $(JOBS)
	cmake --preset release -DGOLDENTRACE_PYTHON=$(python)
	cmake --build --preset release -j $(JOBS)
	cmake --preset dev -DGOLDENTRACE_PYTHON=$(python)
	cmake --build --preset dev -j $(JOBS) --target $(RECORD_TARGETS)
	ctest --test-dir build/asan-ubsan --output-on-failure -j $(JOBS)
	ctest --test-dir build/dev --output-on-failure -j $(JOBS) -L record
	ctest --test-dir build --output-on-failure -j $(JOBS)
	$(python) -m pytest -q -n $(JOBS) --dist loadgroup tests
	$(MAKE) fuzz

bench: build
	cmake --build --preset release -j $(JOBS) --target digest_speed distance_speed replay_speed values_codec
	build/bin/digest_speed
	build/bin/distance_speed
	build/bin/replay_speed build
	$(python) tests/bench/overhead.py --harness $(HARNESS)

# tests/tsan.supp says what is not looked at. One test copies 400 MB through the queue: too slow here.
tsan: export TSAN_OPTIONS = suppressions=$(CURDIR)/tests/tsan.supp
tsan: export OMP_NUM_THREADS = 1
tsan: packages $(environment)
	cmake --preset tsan -DGOLDENTRACE_PYTHON=$(python)
	cmake --build --preset tsan -j $(JOBS) --target goldentrace_record_test goldentrace_inputs_test
	build/tsan/bin/goldentrace_inputs_test
	build/tsan/bin/goldentrace_record_test --gtest_filter=-DeviceTest.CopiesOfValuesAreBounded

# Files from hostile hands, under the sanitizers. TARGETS="file text" are those alone.
TARGETS =
fuzz: packages
	cmake --preset fuzz
	cmake --build --preset fuzz -j $(JOBS) --target fuzz_targets
	tests/fuzz/fuzz.sh build/fuzz $(SECONDS) $(TARGETS)

.venv-older/installed: requirements.txt | packages
	python3 -m venv .venv-older
	sed 's/^torch==.*/torch==$(OLDER_TORCH)/' requirements.txt > .venv-older/requirements.txt
	.venv-older/bin/python -m pip install -q --disable-pip-version-check -r .venv-older/requirements.txt
	touch $@

test-older: packages .venv-older/installed
	cmake --preset release -B build/older -DGOLDENTRACE_PYTHON=$(CURDIR)/.venv-older/bin/python
	cmake --build build/older -j $(JOBS) --target $(RECORD_TARGETS)
	ctest --test-dir build/older --output-on-failure -j $(JOBS) -L record
	GOLDENTRACE_BUILD=build/older .venv-older/bin/python -m pytest -q tests/python/models_test.py
	GOLDENTRACE_OLDER=build/older $(python) -m pytest -q tests/cli/older_test.py

clean:
	rm -rf build
