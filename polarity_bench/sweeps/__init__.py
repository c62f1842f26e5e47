"""Sweeps: grids of training runs and evaluations, run by one command that can be resumed."""
