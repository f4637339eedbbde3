"""Busload beside other servers that batch, on the same handler, each in processes of its own."""
