"""`busload run`, from its options to its exit code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from rich.console import Console

from busload_shared.errors import BusloadUnavailable, SettingsInvalid

from ..wiring import Address, Wiring
from .answers import Encoder, OpenAILines, PlainLines, TableRows
from .job import BulkJob, Counts
from .lines import STDIN, Format, LineSource
from .progress import BulkProgress
from .reading import Entries
from .sink import Sink
from .written import Job, Written

RESUME = "the same command goes on where this one stopped"

_LET_GO_S = 1.0


@dataclass(frozen=True, slots=True)
class BulkOptions:
    """Where requests come from and results go; `-` is stdin or stdout. None lets the run find out."""

    source: str
    output: str
    errors: str | None = None
    format: Format | None = None
    job: str | None = None
    in_flight: int = 512


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did. `failed_before` lines stand in the error file from earlier runs."""

    job: str
    output: str
    errors: str
    counts: Counts
    failed_before: int

    @property
    def all_succeeded(self) -> bool:
        """Whether no line has an error, this run's and earlier ones' together."""
        return not (self.counts.failed or self.counts.invalid or self.failed_before)

    def record(self) -> dict[str, Any]:
        """All of it, by name."""
        names = {"job": self.job, "output": self.output, "errors": self.errors}
        return names | asdict(self.counts) | {"failed_before": self.failed_before}

    def lines(self, *, as_json: bool) -> Iterator[str]:
        """For programs, or for people."""
        if as_json:
            yield json.dumps(self.record())
            return
        c = self.counts
        before = f" + {c.skipped:,} done before" if c.skipped else ""
        yield f"read {c.read:,} = {c.succeeded:,} succeeded + {c.failed:,} failed + {c.invalid:,} invalid{before}"
        if c.run_again:
            yield f"{c.run_again:,} had a result that expired before it was written, and were run again"
        if not self.all_succeeded:
            yield f"errors are in {self.errors}" + (f", {self.failed_before:,} of before" if self.failed_before else "")


@dataclass(frozen=True, slots=True)
class _Files:
    """The input, and where its records go. `errors` is `output` where both are stdout."""

    kind: Format
    source: LineSource
    output: Sink
    errors: Sink
    encoder: Encoder


async def run_bulk(wiring: Wiring, options: BulkOptions, console: Console) -> Summary:
    """Run the file. Raises SettingsInvalid, BusloadUnavailable, and BusloadError where a file cannot be written."""
    job = _job(options, console)
    written = Written(job)
    with _opened(options) as files:
        files.output.recover(written, failed=False)
        if files.errors is not files.output:
            files.errors.recover(written, failed=True)
        files.output.open()
        bulk = BulkJob(wiring, files.output, files.errors, files.encoder, in_flight=options.in_flight)
        entries = iter(Entries(files.source, files.kind, job, written))
        with BulkProgress(console, files.source, bulk.counts) as progress:
            await bulk.run(entries, known_until=written.last + options.in_flight + 1, tell=progress.tell)
        return Summary(job.name, files.output.name, files.errors.name, bulk.counts, written.failed)


async def bulk_at(address: Address, options: BulkOptions, console: Console) -> Summary:
    """`run_bulk` with a connection of its own, closed at the end; should Redis be away, within a moment."""
    wiring = Wiring(address)
    try:
        return await run_bulk(wiring, options, console)
    except BusloadUnavailable as error:
        raise type(error)(f"{error}. What is written stays: once Redis is there, {RESUME}") from None
    finally:
        with suppress(TimeoutError):
            await asyncio.wait_for(wiring.close(), _LET_GO_S)


def _job(options: BulkOptions, console: Console) -> Job:
    if options.job is not None:
        return Job(options.job)
    if options.source == STDIN:
        job = Job("bulk-" + uuid4().hex[:12])
        console.print(f"to go on after an interruption give the same lines and --job {job.name}", markup=False)
        return job
    return Job.of_files(str(Path(options.source).resolve()), _resolved(options.output))


def _resolved(path: str) -> str:
    return path if path == STDIN else str(Path(path).resolve())


@contextmanager
def _opened(options: BulkOptions) -> Iterator[_Files]:
    source = LineSource(options.source)
    sinks: list[Sink] = []
    try:
        kind = options.format or source.recognise()
        errors = _errors_path(options)
        if len({_resolved(path) for path in (options.source, options.output, errors) if path != STDIN}) < sum(
            path != STDIN for path in (options.source, options.output, errors)
        ):
            raise SettingsInvalid("input, output and errors must be three different files")
        encoder = _encoder(kind, options.output)
        sinks.append(_sink(options.output, encoder))
        sinks.append(sinks[0] if errors == STDIN == options.output else _sink(errors, encoder))
        yield _Files(kind, source, sinks[0], sinks[1], encoder)
    finally:
        source.close()
        for sink in sinks:
            sink.close()


def _encoder(kind: Format, output: str) -> Encoder:
    if output.endswith(".csv") or (output == STDIN and kind is Format.csv):
        return TableRows()
    return OpenAILines() if kind is Format.openai else PlainLines()


def _sink(path: str, encoder: Encoder) -> Sink:
    return Sink(None if path == STDIN else Path(path), header=encoder.header)


def _errors_path(options: BulkOptions) -> str:
    """As given, or beside the output: out.jsonl has out.errors.jsonl."""
    if options.errors is not None or options.output == STDIN:
        return options.errors or STDIN
    path = Path(options.output)
    return str(path.with_name(f"{path.stem}.errors{path.suffix}"))
