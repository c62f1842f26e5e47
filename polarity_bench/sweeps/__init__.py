"""Sweeps: training runs and evaluations of a grid of settings, run by one resumable command."""
