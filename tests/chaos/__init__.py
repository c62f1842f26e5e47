"""Attacks on the promises of docs/reliability.md: kills, faults, full disks, bit flips and fuzz.

`make chaos` runs all of them with a seed and writes the figures to docs/reliability.json.
"""
