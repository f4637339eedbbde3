"""Who may import whom, read from the source; and that importing the client stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "busload": ROOT / "producer" / "busload",
    "busload_shared": ROOT / "shared" / "busload_shared",
    "busload_worker": ROOT / "worker" / "busload_worker",
}
HEAVY = ("torch", "vllm", "celery", "typer", "rich", "pydantic_settings", "transformers", "fastapi", "busload_worker")


def files(package: str) -> list[Path]:
    return sorted(PACKAGES[package].rglob("*.py"))


def imports(file: Path) -> Iterator[str]:
    """Full names of all modules a file imports, wherever in it; relative ones made absolute."""
    package = next(name for name, folder in PACKAGES.items() if file.is_relative_to(folder))
    inside = [package, *file.relative_to(PACKAGES[package]).with_suffix("").parts]
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = ".".join(inside[: -node.level]) + "." if node.level else ""
            module = (parent + (node.module or "")).rstrip(".")
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def offenders(package: str, *forbidden: str, under: str = "") -> list[str]:
    """Imports of forbidden modules in a package."""
    return [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in files(package)
        if str(file.relative_to(PACKAGES[package])).startswith(under)
        for name in imports(file)
        if any(name == bad or name.startswith(bad + ".") for bad in forbidden)
    ]


def test_the_shared_part_knows_neither_side() -> None:
    assert offenders("busload_shared", "busload", "busload_worker") == []


def test_the_producer_knows_no_worker_code_but_the_demo_and_of_the_planner_the_simulator() -> None:
    found = [line for line in offenders("busload", "busload_worker") if "/demo" not in line]
    assert [line for line in found if not ("/plan/" in line and " busload_worker.simulation" in line)] == []


def test_the_worker_knows_no_client() -> None:
    assert offenders("busload_worker", "busload") == []


def test_only_the_shared_part_speaks_redis() -> None:
    found = [line for line in offenders("busload", "redis") if "/demo" not in line]
    assert found == [], "the demo plays a raw producer; nobody else does"
    spoken = {line.split(" imports ")[1] for line in offenders("busload_worker", "redis")}
    assert spoken <= {"redis.asyncio", "redis.asyncio.Redis"}, "the worker only hands a connection on"


def test_engines_know_messages_and_nothing_of_queues() -> None:
    allowed = {"request", "result", "errors"}
    strangers = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in files("busload_worker")
        if "engines" in file.parts
        for name in imports(file)
        if name.startswith("busload_shared.") and name.split(".")[1] not in allowed
    ]
    assert strangers == []
    assert offenders("busload_worker", "redis", under="engines") == []


@pytest.mark.parametrize("package", PACKAGES)
def test_nobody_imports_a_main(package: str) -> None:
    mains = [f"{name}.__main__" for name in PACKAGES]
    assert offenders(package, *mains) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_reads_the_environment_when_imported(package: str) -> None:
    readers = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in files(package)
        for node in top_level(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}
    ]
    assert readers == []


def top_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Nodes that run when the module is imported: all but the bodies of functions."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def test_a_backend_that_imports_the_client_loads_no_worker_code() -> None:
    code = f"import sys, busload; print([name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert loaded.stdout.strip() == "[]"


def test_importing_the_client_starts_no_thread() -> None:
    code = "import threading, busload; busload.Client(); print(threading.active_count())"
    started = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert started.stdout.strip() == "1"


def test_all_public_names_are_there() -> None:
    import busload

    assert all(hasattr(busload, name) for name in busload.__all__)
    assert list(busload.__all__) == sorted(busload.__all__, key=lambda name: (name.startswith("_"), name))
