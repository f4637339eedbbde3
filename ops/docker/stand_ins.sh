#!/usr/bin/env bash
# Make stand-ins for the base images on a machine whose Docker can pull none. For tests only: what users run is the real
# images. Made from Debian's packages with debootstrap, under the names that the Dockerfiles and docker-compose.yml use.
#
#   ops/docker/stand_ins.sh            those that are missing
#   ops/docker/stand_ins.sh --remove   remove what this script made
#
# Needs root, a Docker engine and debootstrap. The stand-in for Python installs packages as this machine does: with its
# certificates, its index (PIP_INDEX_URL and the like) and its folder of wheels (PIP_FIND_LINKS).
set -euo pipefail

SUITE=bookworm
PYTHON=python:3.11-slim-bookworm
REDIS=redis:7-bookworm
PROMETHEUS=prom/prometheus:v3.5.0
LABEL=busload.stand-in
ROOT=busload-stand-in:$SUITE
CERTIFICATES=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}

die() { echo "stand-ins: $*" >&2; exit 1; }

has_image() { docker image inspect "$1" >/dev/null 2>&1; }

make_root() { # a minimal Debian with this machine's certificates
  has_image $ROOT && return
  command -v debootstrap >/dev/null || die "debootstrap is missing. Run: apt-get install debootstrap"
  debootstrap --variant=minbase --include=ca-certificates $SUITE "$work/root" >"$work/debootstrap.log" 2>&1 \
    || { tail -n 5 "$work/debootstrap.log" >&2; die "debootstrap failed"; }
  cp "$CERTIFICATES" "$work/root/etc/ssl/certs/ca-certificates.crt"
  rm -rf "$work"/root/var/cache/apt/archives/*.deb "$work"/root/var/lib/apt/lists/*
  tar -C "$work/root" -c . | docker import --change "LABEL $LABEL=true" - $ROOT >/dev/null
  rm -rf "$work/root"
}

build() { # build NAME PACKAGES, the rest of the Dockerfile on standard input
  local name=$1 packages=$2 context=$work/context
  mkdir -p "$context/wheels"
  pip_settings >"$context/pip.conf"
  {
    echo "FROM $ROOT"
    echo "RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends" \
      "$packages >/dev/null && rm -rf /var/lib/apt/lists/*"
    cat
  } >"$context/Dockerfile"
  docker build -q -t "$name" "$context" >/dev/null 2>"$work/build.log" || { tail -n 20 "$work/build.log" >&2; die "$name failed"; }
  echo "stand-ins: made $name"
}

pip_settings() {
  printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\ntimeout = 180\n'
  [ -z "${PIP_INDEX_URL:-}" ] || echo "index-url = $PIP_INDEX_URL"
  [ -z "${PIP_EXTRA_INDEX_URL:-}" ] || echo "extra-index-url = $PIP_EXTRA_INDEX_URL"
  [ -z "${PIP_TRUSTED_HOST:-}" ] || echo "trusted-host = $PIP_TRUSTED_HOST"
  if [ -d "${PIP_FIND_LINKS:-}" ]; then
    cp "$PIP_FIND_LINKS"/*.whl "$work/context/wheels/"
    echo "find-links = $PIP_FIND_LINKS"
  fi
}

make_python() {
  build $PYTHON "python3 python3-venv python3-pip" <<D
COPY pip.conf /etc/pip.conf
COPY wheels ${PIP_FIND_LINKS:-/wheels}
RUN rm -f /usr/lib/python3*/EXTERNALLY-MANAGED && ln -sf python3 /usr/bin/python
ENV LANG=C.UTF-8 SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
CMD ["python3"]
D
}

make_redis() {
  build $REDIS redis-server <<'D'
RUN mkdir -p /data && chown redis:redis /data
WORKDIR /data
VOLUME /data
EXPOSE 6379
CMD ["redis-server", "--protected-mode", "no"]
D
}

make_prometheus() {
  build $PROMETHEUS prometheus <<'D'
RUN mkdir -p /prometheus && chown nobody:nogroup /prometheus
USER nobody
WORKDIR /prometheus
VOLUME /prometheus
EXPOSE 9090
ENTRYPOINT ["/usr/bin/prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
D
}

remove() {
  local image
  for image in $PYTHON $REDIS $PROMETHEUS $ROOT; do
    [ "$(docker image inspect -f "{{index .Config.Labels \"$LABEL\"}}" "$image" 2>/dev/null)" != true ] \
      || docker image rm -f "$image" >/dev/null
  done
}

docker info >/dev/null 2>&1 || die "no Docker engine answers"
[ "${1:-}" != --remove ] || { remove; exit; }
[ "$(id -u)" = 0 ] || die "debootstrap needs root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
has_image $PYTHON || { make_root; make_python; }
has_image $REDIS || { make_root; make_redis; }
has_image $PROMETHEUS || { make_root; make_prometheus; }
