"""A queue that is spread over several lists, each a queue of its own, perhaps on a server of its own."""
