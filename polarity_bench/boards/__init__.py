"""Leaderboards: tables rendered from stored results. Nothing is rounded before it is rendered."""
