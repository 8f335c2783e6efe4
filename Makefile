# make train: set up a virtual environment and train the reference model on the digits.
# make test:  set up the same environment for development, check the style and the types, build the
#             documentation, run the tests.
# make docs:  set up the same environment, build the documentation as a site in build/site.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Warnings are errors (--quiet would hide them from --strict); the variable silences a notice.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
# glibc keeps large arrays that were freed: to map memory anew takes a tenth of the time of some tests.
KEEP_MEMORY := MALLOC_MMAP_THRESHOLD_=1000000000 MALLOC_TRIM_THRESHOLD_=1000000000
INPUTS := setup.cfg pyproject.toml tfpn/_version.py

.PHONY: train test docs clean

train: $(VENV)/.installed-run
	$(BIN)/tfpn train digits --output runs/digits --overwrite

test: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MKDOCS)
	$(KEEP_MEMORY) $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

docs: $(VENV)/.installed-test
	$(MKDOCS)

$(BIN)/python:
	$(PYTHON) -c "import sys; sys.version_info >= (3, 11) or sys.exit('tfpn needs Python 3.11 or later; set PYTHON=')"
	$(PYTHON) -m venv $(VENV)

# The installation is editable, so changed code needs no new one; changed requirements do.
$(VENV)/.installed-run: $(INPUTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[datasets,plots]'
	touch $@

$(VENV)/.installed-test: $(INPUTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[test]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
