"""The HTTP gateway: OpenAI's interface in front of Busload's queues. Needs `pip install "busload[gateway]"`."""
