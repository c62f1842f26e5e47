"""Where the numbers of boards come from, looked up in raw files by other ways than they took."""
