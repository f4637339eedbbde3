# The light image: the HTTP gateway, the exporter and the command line. Build from the repository's root:
#
#   docker compose build gateway
#   docker run --rm busload-gateway busload-exporter --help
#
# No entrypoint: the first word of a command names the program. Behind a mirror set PIP_INDEX_URL and the like; a value
# with a password would stay in the builder's cache.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS dependencies
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_TRUSTED_HOST
ARG EXTRAS=gateway,cli,metrics,celery,otel
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_PROGRESS_BAR=off
WORKDIR /build
COPY pyproject.toml constraints.txt ./
# An empty package stands for the code, which comes last: a change of it leaves this layer alone.
RUN python3 -m venv --without-pip /opt/busload \
 && mkdir -p producer/busload shared/busload_shared worker/busload_worker \
 && touch README.md LICENSE producer/busload/__init__.py shared/busload_shared/__init__.py worker/busload_worker/__init__.py \
 && python3 -m pip --python /opt/busload/bin/python3 install -q --constraint constraints.txt ".[${EXTRAS}]" \
 && python3 -m pip --python /opt/busload/bin/python3 uninstall -q -y busload

FROM dependencies AS code
COPY README.md LICENSE ./
COPY shared shared
COPY producer producer
COPY worker worker
RUN python3 -m pip --python /opt/busload/bin/python3 install -q --no-deps --root /code .

FROM ${PYTHON_IMAGE} AS gateway
RUN useradd --uid 10001 --create-home --home-dir /home/busload busload \
 && install -d -o busload -g busload /var/lib/busload
COPY --from=dependencies /opt/busload /opt/busload
COPY --from=code /code/opt/busload /opt/busload
ENV PATH=/opt/busload/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /home/busload
EXPOSE 8000
# of the gateway; docker-compose.yml has the exporter's
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health/live', timeout=4)"]
STOPSIGNAL SIGTERM
CMD ["busload-gateway"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="busload-gateway" \
      org.opencontainers.image.description="Busload's HTTP gateway, exporter and command line" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
