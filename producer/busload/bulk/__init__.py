"""Whole files and iterables of requests: bounded in flight, in any order, and resumable."""
