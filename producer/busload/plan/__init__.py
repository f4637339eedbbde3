"""`busload plan`: which batch size, wait, order and how many workers meet a latency target at the least cost, by
simulation."""
