"""`python -m tests.chaos`: see --help."""

from __future__ import annotations

import asyncio
import sys

from tests.chaos.options import Options, parse
from tests.chaos.restarts import restarts
from tests.chaos.run import run


async def main(options: Options) -> bool:
    """The run that the options ask for; whether all promises were kept."""
    return await (restarts(options, options.restarts) if options.restarts else run(options))


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(main(parse())) else 1)
