"""`busload autoscale`: how many workers a queue needs, and somebody who sees to it."""
