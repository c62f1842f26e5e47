"""Boards and tables: stored results to numbers in rows and columns, and what renders those."""
