# Two commands do everything: `make demo` and `make test`. Run `make help` for the rest.
SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin
TARGET := $(or $(CARGO_TARGET_DIR),target)

.PHONY: help demo test simulate bench bench-python header audit build clean wheel sdist python-api python-docs soak-python install deb reference

help:
	@echo "make demo    builds, and shows a C client that survives an outage"
	@echo "make test    builds, and runs every test in every language"
	@echo "make simulate N=100000 SEED=1   lives of clients and servers on a fake clock, with everything going wrong"
	@echo "make bench   measures calls beside a bare ping-pong of the same size"
	@echo "make build   the library, static and shared, and the command line, into $(TARGET)/release"
	@echo "make install PREFIX=/usr/local    builds, and installs libraries, headers, CMake and pkg-config files, examples"
	@echo "make deb     builds, and makes Debian packages in build/deb"
	@echo "make reference    the HTML reference of the C and C++ headers, into build/reference/html (needs doxygen)"
	@echo "make wheel   the Python package, into $(TARGET)/wheels; make sdist its source"
	@echo "make bench-python  calls from Python beside grpcio, pyzmq and raw sockets (part of make bench)"
	@echo "make soak-python   a million calls and a thousand reconnections from Python, with flat memory"
	@echo "make python-api    writes docs/python/api.md anew; make python-docs makes HTML of all pages, in $(TARGET)/site"
	@echo "make header  writes include/witrpc.h, ffi/since.txt and ffi/symbols.txt anew"
	@echo "make audit   licences and known advisories of all dependencies, as far as that works offline"

build:
	@tools/setup.sh build
	cargo build --release -p witrpc-ffi -p witrpc-cli
	@ln -sf libwitrpc.so $(TARGET)/release/libwitrpc.so.0

demo: build
	cc -std=c11 -O2 -Wall -Iinclude examples/c/outage.c -o $(TARGET)/release/outage \
	  -L$(TARGET)/release -lwitrpc -lpthread -Wl,-rpath,$(abspath $(TARGET)/release)
	@examples/c/demo.sh $(TARGET)/release/outage $(TARGET)/release/witrpc

test:
	@tools/setup.sh test
	@tests/run

# FAULTS and STEPS, as a failure prints them, keep only those of one life (N=1).
simulate:
	@tools/setup.sh build
	cargo build --release --quiet -p witrpc-simulator
	$(TARGET)/release/witrpc-simulate $(or $(N),100000) $(or $(SEED),1) \
	  $(if $(filter-out undefined,$(origin FAULTS)),--faults "$(FAULTS)") \
	  $(if $(filter-out undefined,$(origin STEPS)),--steps "$(STEPS)")

bench: build
	cargo build --release -p witrpc-bench
	cc -std=c11 -O2 -Wall -Iinclude benches/c/blocking.c -o $(TARGET)/release/bench-blocking \
	  -L$(TARGET)/release -lwitrpc -lpthread -Wl,-rpath,$(abspath $(TARGET)/release)
	$(TARGET)/release/witrpc-bench $(TARGET)/release/bench-blocking
	@. tools/dotnet.sh; if [ -n "$$dotnet" ]; then eval "$$dotnet"; \
	  dotnet build -c Release -v q benches/dotnet && dotnet benches/dotnet/bin/Release/net10.0/WitRpc.Native.Bench.dll $(TARGET)/release/witrpc; \
	else echo "skipped the .NET binding: no .NET 10 SDK found"; fi
	@$(MAKE) --no-print-directory bench-python

# Python: the wheel is installed into an environment of its own, and never the source folder.
PYVENV := $(abspath $(TARGET))/python-venv/bin

wheel:
	@tools/setup.sh python
	@tools/python.sh wheel

sdist:
	@tools/setup.sh python
	@tools/python.sh sdist

bench-python: wheel
	@tools/python.sh install bench
	$(PYVENV)/python benches/python/bench.py

soak-python: wheel
	@tools/python.sh install test
	cd python/tests && WITRPC_SOAK=full $(PYVENV)/python -m pytest -c ../pyproject.toml --rootdir .. test_soak.py

python-api: wheel
	@tools/python.sh install test
	$(PYVENV)/python tools/python_api.py

python-docs:
	@tools/setup.sh python
	@tools/python.sh docs

PREFIX ?= /usr/local
install: build
	PREFIX="$(PREFIX)" LIBDIR="$(or $(LIBDIR),lib)" DESTDIR="$(DESTDIR)" packaging/install.sh $(TARGET)/release

deb: build
	packaging/deb.sh $(TARGET)/release build/deb

reference:
	@mkdir -p build/reference
	doxygen docs/Doxyfile

header:
	WITRPC_UPDATE_HEADER=1 cargo test --quiet -p witrpc-ffi
	cargo build --release -p witrpc-ffi
	nm -D --defined-only $(TARGET)/release/libwitrpc.so | awk '{ print $$3 }' | LC_ALL=C sort > ffi/symbols.txt

audit:
	@tools/audit.sh

clean:
	cargo clean
