"""Command line: a module for each command, and modules for options, inputs and output."""
