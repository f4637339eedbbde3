"""Ray Serve: one replica with @serve.batch, called through a handle; without dashboard, with its own fast settings."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import ray
from handler import Handler, batch_size, window_ms
from ray import serve


@serve.deployment(num_replicas=1, max_ongoing_requests=2048, ray_actor_options={"num_cpus": 1})
class Peer:
    def __init__(self) -> None:
        self._handle = Handler()

    @serve.batch(max_batch_size=batch_size(), batch_wait_timeout_s=window_ms() / 1000)
    async def _together(self, prompts: list[str]) -> list[str]:
        return self._handle(prompts)

    async def __call__(self, prompt: str) -> str:
        return await self._together(prompt)


if __name__ == "__main__":
    named = {name: value for name, value in os.environ.items() if name.startswith(("PEERS_", "RAY_SERVE_"))}
    named["PYTHONPATH"] = str(Path(__file__).parent)
    context = ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": named}, log_to_driver=False)
    serve.run(Peer.bind(), name="peers", route_prefix=None)
    Path(sys.argv[1]).write_text(context.address_info["gcs_address"])
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    ray.shutdown()
