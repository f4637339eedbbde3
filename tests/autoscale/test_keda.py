"""What KEDA is told: whom to scale, by which number, in which steps, and with which rights on Redis."""

from __future__ import annotations

import re
from hashlib import sha256

import pytest
import redis
from tests.autoscale.manifests import FOLDER, documents, of_kind


@pytest.mark.parametrize("name", ["scaledobject.yaml", "scaledobject-prometheus.yaml"])
def test_keda_scales_the_workers_by_their_queue_one_step_at_a_time(name: str) -> None:
    (scaled,) = [one for one in documents(FOLDER / "keda" / name) if one["kind"] == "ScaledObject"]
    spec, (trigger,) = scaled["spec"], scaled["spec"]["triggers"]
    assert spec["scaleTargetRef"]["name"] in of_kind("Deployment")
    assert spec["minReplicaCount"] < spec["maxReplicaCount"]
    queue = of_kind("ConfigMap")["worker-settings"]["data"]["BUSLOAD_QUEUE"]
    assert queue in (trigger["metadata"].get("listName"), *re.findall(r'queue="([^"]+)"', str(trigger)))
    assert all(type(value) is str for value in trigger["metadata"].values()), "KEDA takes text only"
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] > 0


def test_kedas_address_is_redis_and_its_metric_exists() -> None:
    first = documents(FOLDER / "keda" / "scaledobject.yaml")
    trigger = next(one for one in first if one["kind"] == "ScaledObject")["spec"]["triggers"][0]
    namespace = documents(FOLDER / "keda" / "kustomization.yaml")[0]["namespace"]
    assert trigger["metadata"]["address"] == f"redis.{namespace}.svc:6379"
    assert trigger["authenticationRef"]["name"] in {one["metadata"]["name"] for one in first}
    query = documents(FOLDER / "keda" / "scaledobject-prometheus.yaml")[0]["spec"]["triggers"][0]["metadata"]["query"]
    series = re.search(r"busload_\w+", query)
    assert series is not None
    assert f"`{series.group()}`" in (FOLDER.parents[1] / "docs" / "metrics.md").read_text(encoding="utf-8")


COUNT = "local kind = redis.call('type', KEYS[1]).ok; return {kind, redis.call('llen', KEYS[1])}"


def test_kedas_redis_user_may_count_the_list_and_read_nothing(any_redis_url: str) -> None:
    text = (FOLDER / "secret.example.yaml").read_text(encoding="utf-8")
    line = re.search(r"^ +user keda (.*)$", text, re.MULTILINE)
    assert line is not None
    rules = line.group(1).replace("REPLACE", sha256(b"a-password").hexdigest())
    with redis.Redis.from_url(any_redis_url) as operator:
        if int(operator.info("server")["redis_version"].split(".")[0]) < 7:
            pytest.skip("selectors need Redis 7")
        operator.execute_command("ACL", "SETUSER", "keda", "reset", *re.findall(r"\([^)]*\)|\S+", rules))
        operator.lpush("busload:default", "{}")
        try:
            with redis.Redis.from_url(any_redis_url, username="keda", password="a-password") as keda:
                assert keda.eval(COUNT, 1, "busload:default") == [b"list", 1]
                for script in ("return redis.call('lrange', KEYS[1], 0, -1)", "return redis.call('del', KEYS[1])"):
                    with pytest.raises(redis.ResponseError, match="can't run this command"):
                        keda.eval(script, 1, "busload:default")
                with pytest.raises(redis.exceptions.NoPermissionError):
                    keda.eval(COUNT, 1, "other")
        finally:
            operator.execute_command("ACL", "DELUSER", "keda")
            operator.delete("busload:default")
