# Everything runs in one virtual environment, .venv, which `make setup` keeps up to date.
# PYTHON=... names the interpreter to make it with; ARGS=... goes to the command that a target runs.

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-oldest test-compose chaos mutants check format bench bench-gateway bench-idle bench-simulated bench-agreement bench-curve bench-peers bench-modes clean

VENV := .venv/bin
ARGS ?=

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

setup: ## Make .venv with Busload, vLLM and the tools (quick when nothing has changed)
	@ops/install.sh

demo: setup ## Serve a few dozen questions on a real model and show it (ARGS="--help" tells the options)
	@$(VENV)/busload demo $(ARGS)

test: setup ## Run all tests: first those that can share the machine, then those with the real engine
	$(VENV)/python -m pytest -m "not engine" -n auto --durations=10 $(ARGS)
	$(VENV)/python -m pytest -m engine --durations=10 $(ARGS)

test-oldest: setup ## Run the tests of queue and client with the oldest libraries that pyproject.toml allows
	ops/oldest.sh $(ARGS)

test-compose: setup ## Build the images and try the compose file's deployment on a real Docker engine (minutes)
	$(VENV)/python -m pytest -s -m compose tests/compose --durations=5 $(ARGS)

chaos: setup ## Break everything for a minute, then see that nothing is lost (ARGS="--seconds 600", or "--help")
	$(VENV)/python -m tests.hostile.fuzz_parser --seconds 20
	$(VENV)/python -m tests.chaos $(ARGS)

mutants: setup ## Break each guard in a copy and see that a test notices (ARGS="--only lease": some of them)
	$(VENV)/python ops/mutants.py $(ARGS)

check: setup ## Lint, formatting, types, sizes and words
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/python -m pytest -q tests/unit/test_size.py tests/unit/test_words.py

format: setup ## Format the code and fix what can be fixed
	$(VENV)/ruff check --fix .
	$(VENV)/ruff format .

bench: setup ## Measure throughput beside a bare loop, latency, and the overhead over bare vLLM (quiet machine!)
	$(VENV)/python ops/bench/throughput.py $(ARGS)
	$(VENV)/python ops/bench/latency.py $(ARGS)
	$(VENV)/python ops/bench/overhead.py $(ARGS)

bench-gateway: setup ## Measure the HTTP gateway's requests per second and latency (quiet machine!)
	$(VENV)/python ops/bench/gateway.py $(ARGS)

bench-simulated: setup ## What length order and the learned wait gain, by simulation (ARGS="--quick")
	$(VENV)/python ops/bench/simulated.py $(ARGS)

bench-idle: setup ## What idle workers cost Redis, as they are and as if each were alone (quiet machine!)
	$(VENV)/python ops/bench/idle.py $(ARGS)

bench-peers: setup ## Busload beside Mosec, Ray Serve, BentoML, LitServe, celery-batches, batched (ARGS="--quick")
	PYTHONPATH=ops/bench $(VENV)/python -m peers $(ARGS)

bench-modes: setup ## What each remedy gains on a real engine, beside the textbook and continuous batching (ARGS="--quick")
	$(VENV)/python ops/bench/modes.py $(ARGS)

bench-agreement: setup ## The simulator against the real system, in 4 minutes (quiet machine!)
	$(VENV)/python ops/bench/agreement.py $(ARGS)

bench-curve: setup ## How well a worker knows how long its batches take, on the real engine (quiet machine!)
	$(VENV)/python ops/bench/curve.py $(ARGS)

clean: ## Remove what make made here; the converted model stays in ~/.cache/busload
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis bench-results dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
