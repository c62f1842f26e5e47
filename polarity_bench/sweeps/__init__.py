"""Sweeps: a grid of trainings and evaluations as one command that goes on where it was stopped."""
