"""What operators do with a queue, free of how it is shown: dead letters, draining, watching, a small load."""
