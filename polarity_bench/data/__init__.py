"""Data: finding a task's files (`sources`), reading them (`readers`) and the resulting splits."""
