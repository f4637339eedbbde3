"""LitServe: one API server process, one worker process, ZeroMQ between them (its fast queue)."""

from __future__ import annotations

import sys

import litserve
from handler import Handler, batch_size, window_ms


class Peer(litserve.LitAPI):
    def setup(self, _device: str) -> None:
        self._handle = Handler()

    def decode_request(self, request: dict[str, str]) -> str:
        return request["prompt"]

    def batch(self, inputs: list[str]) -> list[str]:
        return inputs

    def predict(self, prompts: list[str] | str) -> list[str] | str:
        """A list, or a single prompt when the batch size is 1."""
        return self._handle(prompts) if isinstance(prompts, list) else self._handle([prompts])[0]

    def unbatch(self, outputs: list[str]) -> list[str]:
        return outputs

    def encode_response(self, output: str) -> dict[str, str]:
        return {"text": output}


if __name__ == "__main__":
    api = Peer(max_batch_size=batch_size(), batch_timeout=window_ms() / 1000 if batch_size() > 1 else 0)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, fast_queue=True, timeout=False)
    server.run(
        host="127.0.0.1",
        port=int(sys.argv[1]),
        num_api_servers=1,
        log_level="warning",
        generate_client_file=False,
        access_log=False,
    )
