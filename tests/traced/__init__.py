"""Tracing of board numbers to raw files, independently of the code that builds the boards."""
