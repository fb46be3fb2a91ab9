# Every target does its own set-up: Python 3.11 or newer is all a fresh machine needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test long lint bench fuzz crash damage kafka golden clean

demo: $(READY)
	@$(BIN)/millstream demo

# Two processes at a time, each with a Spark of its own. Random scripts: 600 here, more where MILLSTREAM_EXAMPLES says so.
test: $(READY)
	MILLSTREAM_EXAMPLES=$${MILLSTREAM_EXAMPLES:-600} $(BIN)/pytest -n 2 --dist worksteal

lint: $(READY)
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(READY)
	$(BIN)/millstream bench plan
	$(BIN)/millstream bench kernel
	$(BIN)/millstream bench tricks
	$(BIN)/millstream bench hot-key
	$(BIN)/millstream bench scaling

# The oracle tests on ever new random cases, until you stop them.
fuzz: $(READY)
	$(BIN)/pytest tests/engine/whole --hypothesis-profile=fuzz

# Kills real processes 25 times over one run and compares what is committed with DuckDB.
crash: $(READY)
	MILLSTREAM_KILLS=25 $(BIN)/pytest tests/pipeline/whole/test_crash.py

# Damages every kind of file of a pipeline's directory in every way, and starts it again.
damage: $(READY)
	MILLSTREAM_DAMAGE=all $(BIN)/pytest tests/pipeline/whole/test_damage.py

# Kafka and Delta for real: the tests fetch the jars with Maven into a cache, and start a broker on loopback. The driver
# and the broker are killed once each, or as often as MILLSTREAM_KILLS says; `bench kafka` is tried too.
kafka: $(READY)
	MILLSTREAM_KAFKA=1 $(BIN)/pytest tests/kafka

# What takes minutes or gigabytes: all damages, all cells of functions against Spark, columns of more than 2 GiB, wide rows,
# dozens of random joins of several streams on Spark, 256 slots.
long: damage
	MILLSTREAM_SPARK_EXAMPLES=30 $(BIN)/pytest tests/engine/whole/test_many_streams.py -k spark
	MILLSTREAM_SLOTS=256 $(BIN)/pytest tests/pipeline/whole/test_many_slots.py
	MILLSTREAM_CELLS=all $(BIN)/pytest tests/functions
	MILLSTREAM_LARGE=1 $(BIN)/pytest tests/engine/test_wide_rows.py -k gigabytes
	MILLSTREAM_LARGE=1 $(BIN)/pytest tests/pipeline/test_session.py

# Rewrites the golden files from what the code prints now; read the difference before you commit it.
golden: $(READY)
	$(BIN)/pytest --golden

$(READY): pyproject.toml constraints.txt tools/java
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Millstream needs Python 3.11 or newer; this is $$($(PYTHON) --version). Set PYTHON=/path/to/python3.11."; exit 1; }
	@echo "Setting up $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@tools/java $(BIN)/python
	@touch $(READY)

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
