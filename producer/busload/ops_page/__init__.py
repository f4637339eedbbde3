"""The operations page that the gateway serves to people: queues, workers, buses, and what to do about dead letters."""
