"""Ask a thousand questions at once with asyncio. They share a few connections, and ride in as few batches as fit.

python docs/examples/asyncio_many.py 1000
"""

import asyncio
import os
import sys
import time

from busload import AsyncClient, Result


async def ask(client: AsyncClient, number: int) -> Result:
    """What a request handler of a web service would do."""
    return await client.generate(prompt=f"{number} times 7 is", max_tokens=8, timeout_s=120)


async def main(count: int) -> None:
    """Ask them all, and tell how it went."""
    url = os.environ.get("BUSLOAD_REDIS_URL", "redis://127.0.0.1:6379/0")
    began = time.monotonic()
    async with AsyncClient(url) as client:
        results = await asyncio.gather(*(ask(client, number) for number in range(count)))
    answered = sum(result.status == "succeeded" for result in results)
    batches = {result.batch.id for result in results if result.batch}
    print(f"{answered} of {count} answered in {len(batches)} batches and {time.monotonic() - began:.1f} s")


asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
