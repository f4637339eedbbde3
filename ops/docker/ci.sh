#!/usr/bin/env bash
# For .ci/run: run `make test-compose` on a Docker engine, where none runs on one of our own that ends with us.
# Base images are pulled, or made from Debian's packages where no registry answers. Needs docker, Compose, and for an
# engine of our own root, dockerd, iptables and debootstrap.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

IMAGES=(python:3.11-slim-bookworm redis:7-bookworm prom/prometheus:v3.5.0)
START_S=60
PULL_S=300
folder=$(mktemp -d /tmp/busload-docker.XXXX)
engine=

die() { echo "ci: $*" >&2; exit 1; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo --non-interactive "$@"; fi; }

answers() { docker info >/dev/null 2>&1; }

start_engine() {
  answers && return
  command -v dockerd >/dev/null || die "there is no Docker engine and no dockerd to start one. Debian: apt-get install docker.io"
  echo "ci: starting a Docker engine"
  # where nothing else has mounted control groups
  [ -d /sys/fs/cgroup/memory ] || [ -e /sys/fs/cgroup/cgroup.controllers ] || as_root cgroupfs-mount
  as_root dockerd --exec-root "$folder/run" --pidfile "$folder/pid" >"$folder/log" 2>&1 &
  engine=$!
  for _ in $(seq "$START_S"); do
    sleep 1
    if answers; then
      # what a run left that was killed; its engine was ours too
      docker ps -aq --filter name=busload-test- | xargs -r docker rm -f >/dev/null
      return
    fi
    kill -0 "$engine" 2>/dev/null || break
  done
  tail -n 20 "$folder/log" >&2
  die "no Docker engine can be started here; its log is above"
}

end_engine() {
  if [ -n "$engine" ]; then
    as_root kill "$(cat "$folder/pid" 2>/dev/null)" 2>/dev/null || true
    for _ in $(seq 30); do kill -0 "$engine" 2>/dev/null || break; sleep 1; done
  fi
  # a build that was broken off leaves mounts
  as_root umount "$folder"/run/netns/* 2>/dev/null || true
  as_root rm -rf "$folder" || true
}

base_images() {
  local image
  for image in "${IMAGES[@]}"; do
    docker image inspect "$image" >/dev/null 2>&1 || timeout "$PULL_S" docker pull -q "$image" 2>"$folder/pull" \
      || { echo "ci: $image cannot be pulled ($(tail -n 1 "$folder/pull")); making stand-ins"; as_root ops/docker/stand_ins.sh; return; }
  done
}

trap end_engine EXIT
start_engine
base_images
# a folder of wheels that is configured has PyTorch's build for CPUs
[ -z "${PIP_FIND_LINKS:-}" ] || export TORCH_INDEX=${TORCH_INDEX:-none}
make test-compose
