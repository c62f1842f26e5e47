"""Boards: tables and figures of stored results, and the files of a board."""
