#!/usr/bin/env bash
# Run tests of the queue and its clients with the oldest libraries that pyproject.toml allows for them: pip gives
# everybody else the newest. More words go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=".venv/bin/python"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT

mapfile -t oldest < <("$python" - <<'END'
import re
import tomllib
from pathlib import Path

for needed in tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]:
    name, least = re.match(r"([\w\[\]-]+)>=([\d.]+)", needed).groups()
    print(f"{name}=={least}.*")
END
)
echo "oldest: ${oldest[*]}"
"$python" -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --target "$folder" "${oldest[@]}"
PYTHONPATH="$folder${PYTHONPATH:+:$PYTHONPATH}" "$python" -m pytest -q tests/unit/test_messages.py \
  tests/queue/test_{wire,lines,inbox,outages,client,submit,deliver}.py tests/worker/test_forming.py "$@"
