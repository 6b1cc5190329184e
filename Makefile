# What a newcomer and the continuous integration call. Each target sets up what it needs; a second run finds it done.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# On two processors four processes leave a fifth of the time unused, and more if no Spark is among them.
TEST_PROCESSES ?= 6
# Tests start hundreds of processes, and without bytecode each of them compiles what it imports.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install checkpoint-jar demo unit test check check-style check-types check-docs check-worlds sim fuzz faults checker bench docs docs-reference schema config-table etcd-messages clean test-spark-on-kafka test-spark-on-workers test-spark-on-4.2 upgrade

help:
	@echo 'make demo     watch a year of flights in a topic, read by a group and by a pipeline on Spark; both survive a kill -9'
	@echo 'make unit     run the tests that need no process and no socket, in about a minute'
	@echo 'make test     run all tests'
	@echo 'make check    format, lint, types, imports between rooms, names, documentation, simulated worlds of each kind'
	@echo 'make sim      run simulated worlds: SEEDS=100000 for more'
	@echo 'make fuzz     send random and damaged bytes to every decoder: SECONDS=600 for each target'
	@echo 'make faults   kill the broker and cut its power 500 times, and check what clients see: ROUNDS=50 CHECKER_SECONDS=60 for less'
	@echo 'make checker  run many clients while brokers, workers and etcd are killed or lose power, and check what they saw: CHECKER_ROUNDS=5 for more'
	@echo 'make upgrade  upgrade a cluster under load from another commit, and downgrade it again: FROM=COMMIT'
	@echo 'make bench    compare klamm with Apache Kafka and other brokers'
	@echo 'make test-spark-on-kafka  run the tests of the Spark source and sink with Apache Kafka as broker'
	@echo 'make test-spark-on-workers  run them with three workers of `klamm serve` as brokers'
	@echo 'make test-spark-on-4.2    run the most important of these tests with PySpark 4.2, also with the jar of Delta Lake'
	@echo 'make install  only set up $(VENV)'

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt setup.py $(wildcard src/klamm/protocol/*.pyx src/klamm/protocol/*.pxi) tools/install.sh tools/build_checkpoint_jar.sh $(wildcard src/klamm/spark/checkpoints/java/dev/klamm/checkpoints/*.java)
	@PYTHON='$(PYTHON)' sh tools/install.sh '$(VENV)'
	@touch $@

# For klamm.spark.session(fast_checkpoints=True); `install` has called it where there is a JDK.
checkpoint-jar: install
	@sh tools/build_checkpoint_jar.sh '$(VENV)'

demo: install
	@$(BIN)/python -m examples.flights

# Property tests try a tenth of their examples; `make test` tries them all.
unit: install
	@TEST_EXAMPLES_DIVISOR=10 $(BIN)/python -m pytest tests/unit --numprocesses=2 $(TEST_OPTIONS)

# In processes side by side: most suites wait for timeouts more than they compute.
test: install
	@$(BIN)/python -m pytest --numprocesses=$(TEST_PROCESSES) --no-loadscope-reorder $(TEST_OPTIONS)

# Source and sink must not be able to tell the brokers apart.
SPARK_TESTS ?= tests/spark
test-spark-on-kafka: install
	@KLAMM_SPARK_TEST_BROKER=apache-kafka $(BIN)/python -m pytest $(SPARK_TESTS) --numprocesses=$(TEST_PROCESSES) --no-loadscope-reorder $(TEST_OPTIONS)

# One test process: each starts three workers, and the workers need the cores.
test-spark-on-workers: install
	@KLAMM_SPARK_TEST_BROKER=workers $(BIN)/python -m pytest $(SPARK_TESTS) $(TEST_OPTIONS)

# The oldest supported PySpark, in a virtual environment of its own: for users of jars that exist for it only.
OLDER_PYSPARK := 4.2.1
OLDER_VENV := .venv-pyspark-4.2
OLDER_SPARK_TESTS ?= tests/spark/test_session.py tests/spark/test_plain_session.py tests/spark/test_batch_read.py tests/spark/test_streaming.py \
	tests/spark/test_group_commits.py tests/spark/test_sink.py tests/spark/test_sink_exactly_once.py \
	tests/spark/pipelines/test_pipeline_runs.py tests/spark/pipelines/test_bad_records.py tests/spark/pipelines/test_stateful_flows.py \
	tests/spark/pipelines/test_table_formats.py
test-spark-on-4.2: $(OLDER_VENV)/.installed
	@$(OLDER_VENV)/bin/python -m pytest $(OLDER_SPARK_TESTS) --numprocesses=$(TEST_PROCESSES) --no-loadscope-reorder $(TEST_OPTIONS)

$(OLDER_VENV)/.installed: pyproject.toml constraints.txt setup.py tools/install.sh Makefile
	@mkdir -p $(OLDER_VENV)
	@sed 's/^pyspark==.*/pyspark==$(OLDER_PYSPARK)/' constraints.txt > $(OLDER_VENV)/constraints.txt
	@PYTHON='$(PYTHON)' CONSTRAINTS=$(OLDER_VENV)/constraints.txt sh tools/install.sh '$(OLDER_VENV)'
	@touch $@

# Its parts use one processor each: `make -j2 --output-sync=target check` runs them next to each other.
check: check-style check-types check-docs check-worlds

check-style: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python tools/check_house.py

check-types: install
	$(BIN)/mypy

check-docs: install
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html

check-worlds: install
	@for kind in groups log broker delivery; do $(BIN)/python -m tests.simulation --world $$kind --seeds 1..300 || exit 1; done
	$(BIN)/python -m tests.simulation --world cluster --seeds 1..100
	@for faults in majority unlimited; do $(BIN)/python -m tests.simulation --world replicas --faults $$faults --seeds 1..30 || exit 1; done

# SEEDS=1000 for the first thousand, SEEDS=5000..6000 for those, SEED_OPTIONS='--trace' and more: python -m tests.simulation --help
SEEDS ?= 10000
sim: install
	@$(BIN)/python -m tests.simulation --seeds '$(if $(findstring ..,$(SEEDS)),$(SEEDS),1..$(SEEDS))' $(SEED_OPTIONS)

# TARGETS='requests scanner' for some of them; python -m tests.fuzz --help
SECONDS ?= 60
fuzz: install
	@$(BIN)/python -m tests.fuzz --seconds '$(SECONDS)' $(TARGETS)

# Each of the tests that strike a broker under load; with the others of tests/faults.
ROUNDS ?= 500
CHECKER_SECONDS ?= 600
SPARK_KILLS ?= 20
PIPELINE_KILLS_SECONDS ?= 600
ETCD_ROUNDS ?= 200
CLUSTER_ROUNDS ?= 200
# Their clusters run on both kinds of etcd: Debian's, and a current one.
CLUSTER_FAULTS := tests/faults/test_replica_disks.py tests/faults/test_etcd_disk.py tests/faults/test_etcd_quota.py tests/faults/test_etcd_restored.py
faults: install
	@KLAMM_FAULT_ROUNDS='$(ROUNDS)' KLAMM_UPGRADE_FROM='$(FROM)' $(BIN)/python -m pytest tests/faults $(addprefix --ignore=,$(CLUSTER_FAULTS))
	@KLAMM_SPARK_KILLS='$(SPARK_KILLS)' $(BIN)/python -m pytest tests/spark/test_driver_kills.py tests/spark/pipelines/test_backfill_commands.py
	@KLAMM_EXACTLY_ONCE_MATRIX=1 $(BIN)/python -m pytest tests/interop/test_producer_in_a_cluster.py tests/spark/test_exactly_once_with_acls.py
	@for broker in klamm apache-kafka; do \
		KLAMM_EXACTLY_ONCE_MATRIX=1 KLAMM_SPARK_KILLS='$(SPARK_KILLS)' KLAMM_SPARK_TEST_BROKER=$$broker \
			$(BIN)/python -m pytest tests/spark/test_exactly_once_kills.py tests/spark/test_exactly_once_runs.py tests/spark/test_exactly_once_executors.py tests/spark/test_exactly_once_marker.py || exit 1; \
		PIPELINE_KILLS_SECONDS='$(PIPELINE_KILLS_SECONDS)' KLAMM_SPARK_TEST_BROKER=$$broker \
			$(BIN)/python -m pytest tests/spark/pipelines/test_pipeline_kills.py || exit 1; \
	done
	@for etcd in debian current; do \
		KLAMM_TEST_ETCD=$$etcd KLAMM_ETCD_ROUNDS='$(ETCD_ROUNDS)' $(BIN)/python -m pytest tests/integration/metadata/etcd tests/integration/cli/test_serve_cluster.py || exit 1; \
		KLAMM_TEST_ETCD=$$etcd KLAMM_FAULT_ROUNDS='$(ROUNDS)' $(BIN)/python -m pytest $(CLUSTER_FAULTS) || exit 1; \
	done
	@$(BIN)/python -m tests.checker --seconds '$(CHECKER_SECONDS)'
	@$(BIN)/python -m tests.checker --seconds '$(CHECKER_SECONDS)' --workers 3 --java
	@for etcd in debian current; do \
		for members in 1 3; do \
			KLAMM_TEST_ETCD=$$etcd $(BIN)/python -m tests.checker --seconds '$(CHECKER_SECONDS)' --rounds '$(CLUSTER_ROUNDS)' --cluster --etcd-members $$members --java || exit 1; \
		done; \
	done

# CHECKER_SECONDS for each of the seven; all of them run, even if one finds something. CHECKER_ROUNDS times all of them.
CHECKER_ROUNDS ?= 1
checker: install
	@status=0; for round in $$(seq '$(CHECKER_ROUNDS)'); do \
		for options in '--fsync ack' '--fsync ack --power' '' '--power' '--workers 3 --java' \
			'--cluster --java' '--cluster --etcd-members 3'; do \
			$(BIN)/python -m tests.checker --seconds '$(CHECKER_SECONDS)' $$options || status=1; \
		done; \
	done; exit $$status

# A cluster under load is upgraded from this commit, one broker after the other, and downgraded again. Without a tag it is
# the last commit before a format on the disk changed: its snapshots hold one batch of each producer, and present ones
# hold five (ADR 50). So each version reads files of the other one.
FROM ?= $(shell git describe --tags --abbrev=0 2>/dev/null || echo 56fc622d1e15)
upgrade: install
	@KLAMM_UPGRADE_FROM='$(FROM)' $(BIN)/python -m pytest tests/faults/test_rolling_restart.py

bench: install
	@$(BIN)/python -m bench $(BENCH)

docs: install
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo 'docs/_build/html/index.html'

docs-reference: install
	$(BIN)/python tools/generate_configuration_docs.py
	$(BIN)/python tools/generate_protocol_docs.py

# KAFKA_JARS: a folder with Apache Kafka's jars, as `mvn dependency:copy-dependencies` fills one (tests/interop/java/pom.xml).
schema: install
	$(BIN)/python tools/generate_schema.py $(KAFKA_JARS)

# In an environment of its own: this version of the generator makes code that protobuf 6.31 and later can load.
etcd-messages:
	@$(PYTHON) -m venv build/protoc
	@build/protoc/bin/python -m pip install --quiet --disable-pip-version-check 'grpcio-tools==1.76.0'
	@sh tools/generate_etcd_messages.sh build/protoc/bin/python

config-table:
	java -cp '$(KAFKA_JARS)/*' tools/dump_kafka_configs/DumpKafkaConfigs.java > src/klamm/config/kafka_configs.json

clean:
	rm -rf $(VENV) $(OLDER_VENV) build docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
