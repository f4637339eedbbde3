"""`busload submit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from busload_shared.errors import RequestInvalid

from ..async_client import AsyncClient
from . import request_options as field
from .options import QUEUE, REDIS_URL, AsJson, QueueName, RedisUrl, TimeoutS, partitions
from .output import DONE, PATIENCE_S, Output, perform
from .reading import fields_of, prompt_fields, requests_in
from .requests import show_all

Prompt = Annotated[str | None, typer.Argument(help="The prompt; - reads it from stdin", show_default=False)]
File = Annotated[
    str | None, typer.Option("--file", "-f", help="Requests as JSON: an object, or one a line; - reads stdin")
]
Chat = Annotated[bool, typer.Option("--chat", help="Apply the model's chat template to the prompt")]
System = Annotated[str | None, typer.Option(help="System message of the chat; means --chat")]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Wait for the results and print them")]
Limit = Annotated[int, typer.Option("--max-queue-length", min=1, help="Refused when so many wait already")]

_OWN = ("prompt", "file", "chat", "system", "wait", "timeout_s", "max_queue_length", "redis_url", "queue", "as_json")


@dataclass(frozen=True, slots=True)
class _Order:
    requests: list[dict[str, Any]]
    wait: bool
    timeout_s: float | None


def submit(  # noqa: PLR0913, PLR0917 - each is an option of the command
    prompt: Prompt = None,
    file: File = None,
    chat: Chat = False,
    system: System = None,
    wait: Wait = False,
    timeout_s: TimeoutS = None,
    id: field.Id = None,
    max_tokens: field.MaxTokens = None,
    min_tokens: field.MinTokens = None,
    temperature: field.Temperature = None,
    top_p: field.TopP = None,
    top_k: field.TopK = None,
    min_p: field.MinP = None,
    seed: field.Seed = None,
    stop: field.Stop = None,
    presence_penalty: field.PresencePenalty = None,
    frequency_penalty: field.FrequencyPenalty = None,
    repetition_penalty: field.RepetitionPenalty = None,
    n: field.Samples = None,
    logprobs: field.Logprobs = None,
    ignore_eos: field.IgnoreEos = False,
    return_token_ids: field.ReturnTokenIds = False,
    json_schema: field.JsonSchema = None,
    regex: field.Regex = None,
    choice: field.Choice = None,
    grammar: field.Grammar = None,
    priority: field.Priority = None,
    ttl_s: field.TtlS = None,
    deadline: field.Deadline = None,
    route: field.Route = None,
    metadata: field.Metadata = None,
    max_queue_length: Limit = 100_000,
    redis_url: RedisUrl = REDIS_URL,
    queue: QueueName = QUEUE,
    as_json: AsJson = False,
) -> None:
    """Enqueue a request and print its id.

    Options add to what a file says, and win over it. For files of many thousands use `busload run`.
    An id that is known already is not enqueued twice; its state is told on stderr.

        busload submit "The capital of France is" --max-tokens 8 --wait

        busload submit --chat "Why is the sky blue?" --system "One sentence." --ttl-s 30

        echo '{"prompt": "Hello", "max_tokens": 4}' | busload submit --file - | busload wait -
    """
    _submit(locals())


def _submit(typed: Mapping[str, Any]) -> None:
    output = Output("busload submit", typed["as_json"])

    async def work() -> int:
        order = _Order(_requests(typed), typed["wait"], typed["timeout_s"])
        async with AsyncClient(
            typed["redis_url"],
            queue=typed["queue"],
            partitions=partitions.get(),
            max_queue_length=typed["max_queue_length"],
            patience_s=PATIENCE_S,
        ) as client:
            return await _send(client, output, order)

    perform(output, work, interrupted="what was enqueued goes on: `busload cancel ID` stops it")


def _requests(typed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What to enqueue. Raises RequestInvalid."""
    given = fields_of({name: value for name, value in typed.items() if name not in _OWN})
    given |= prompt_fields(typed["prompt"], chat=typed["chat"], system=typed["system"])
    if typed["file"] is None:
        if "prompt" not in given and not any(turn["role"] == "user" for turn in given.get("messages", ())):
            raise RequestInvalid("give a prompt, or --file with requests")
        return [given]
    requests = [request | given for request in requests_in(typed["file"])]
    if "id" in given and len(requests) > 1:
        raise RequestInvalid("--id fits one request, and the file has more")
    return requests


async def _send(client: AsyncClient, output: Output, order: _Order) -> int:
    async with output.patient(f"enqueueing {len(order.requests)}"):
        if len(order.requests) == 1:
            sent = [await client.submit(order.requests[0])]
        else:
            sent = await client.submit_many(order.requests)
    for submission in sent:
        if submission.state != "queued":
            output.note(f"{submission.id}: known already, {submission.state}; nothing was added")
        if order.wait:
            continue
        if output.as_json:
            output.json_line(submission._asdict())
        else:
            output.answer(submission.id)
    if not order.wait:
        return DONE
    if len(sent) == 1 and output.shows_progress:
        output.note(f"{sent[0].id} is enqueued")
    ids = list(dict.fromkeys(each.id for each in sent))
    return await show_all(output, client.as_completed(ids, order.timeout_s), total=len(ids))
