"""Engines that run the items of a sweep: local processes, or tasks on a Ray cluster."""
