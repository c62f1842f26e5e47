"""Evaluation of encoders on tasks."""
