"""What every process that shows Prometheus metrics has in common."""
