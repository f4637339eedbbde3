"""Publishes the JSON Schemas of Request and Result from the models, under docs/schema: python ops/write_schemas.py."""

from __future__ import annotations

from pathlib import Path

from busload_shared.schema import json_schema

FOLDER = Path(__file__).parents[1] / "docs" / "schema"


def files() -> dict[Path, str]:
    """What the folder should hold."""
    return {
        FOLDER / "request.json": json_schema("request"),
        FOLDER / "result.json": json_schema("result"),
    }


def main() -> None:
    """Write them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
