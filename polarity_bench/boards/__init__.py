"""Boards: lay stored results out as tables and figures, and build the files of a board."""
