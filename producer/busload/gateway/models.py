"""GET /v1/models: what the queue's workers serve."""

from __future__ import annotations

import time
from typing import Final, Literal

from fastapi import APIRouter

from ..openai_api.answers import OpenAIObject
from .access import AtDesk
from .documented import ERRORS
from .roster import unknown_model

router: Final = APIRouter(tags=["Models"], responses=ERRORS)

_BEGAN = int(time.time())


class Model(OpenAIObject):
    """A model that a worker serves. `created` is when this gateway began, Unix time in seconds."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "busload"


class Models(OpenAIObject):
    """All that are served now; empty while no worker is up."""

    object: Literal["list"] = "list"
    data: list[Model]


@router.get("/v1/models")
async def list_models(desk: AtDesk) -> Models:
    """The models that workers of your queue serve now."""
    return Models(data=[Model(id=name, created=_BEGAN) for name in await desk.roster.models()])


@router.get("/v1/models/{model:path}")
async def get_model(model: str, desk: AtDesk) -> Model:
    """One model, if a worker of your queue serves it now."""
    served = await desk.roster.models()
    if model not in served:
        raise unknown_model(model, served)
    return Model(id=model, created=_BEGAN)
