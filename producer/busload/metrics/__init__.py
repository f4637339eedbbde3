"""Prometheus metrics of queues (`busload-exporter`) and of the gateway. Needs the extra `metrics`."""
