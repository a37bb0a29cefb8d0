# SPDX-License-Identifier: MIT
# make demo   trains a network on handwritten digits on an OpenCL device; sets up everything it needs
# make test   the tests, on Intel's OpenCL runtime for CPUs and on PoCL, in 40 to 55 minutes on two cores
# make test-whole   all of them, on both, with all of PyTorch's operator database
# make wheels wheels in dist/: pytorch_ocl for each minor version of PyTorch, or for those in TORCHES="2.13.0 2.14.1",
#               and dlprim for this Python, or for those in PYTHONS="python3.11 python3.12"
#
# All work in the virtual environment VENV and install there what is missing. Choose another PyTorch with TORCH=...,
# or name an environment of yours that has one with VENV=...
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
TORCHVISION ?= torchvision==0.28.0

SHELL := /bin/bash
.SHELLFLAGS := -eo pipefail -c
export VENV PYTHON TORCH TORCHVISION

STAMPS := $(VENV)/.setup
SOURCES := CMakeLists.txt pyproject.toml $(shell find cmake dlprim pytorch_ocl -type f \
  -not -path '*/tests/*' -not -path '*/lib/lib*.so' -not -name '*.pyc' -not -name 'pytorch_ocl_torch*.json')
TESTS := $(shell find dlprim/tests -type f)

# Versions that `make wheels` builds for; none: the last release of each minor version.
TORCHES ?=
PYTHONS ?=

.PHONY: demo test test-whole wheels clean
demo: $(STAMPS)/demo
	@echo "== examples/mnist.py"
	$(VENV)/bin/python examples/mnist.py

test: $(STAMPS)/test
	$(VENV)/bin/python tools/run_tests.py

test-whole: $(STAMPS)/test
	$(VENV)/bin/python tools/run_tests.py whole

wheels: $(STAMPS)/wheels
	$(VENV)/bin/python tools/wheels.py --install $(if $(TORCHES),--torch $(TORCHES))
	$(VENV)/bin/python tools/dlprim_wheels.py --install $(if $(PYTHONS),--python $(PYTHONS))

$(STAMPS)/environment: tools/setup.sh
	tools/setup.sh environment

$(STAMPS)/wheels: $(STAMPS)/environment
	tools/setup.sh wheels

$(STAMPS)/demo: $(STAMPS)/environment $(SOURCES)
	tools/setup.sh demo

$(STAMPS)/test: $(STAMPS)/environment $(SOURCES) $(TESTS) tools/style.txt
	tools/setup.sh test

clean:
	rm -rf build .venv
