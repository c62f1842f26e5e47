"""The task `moods`: its file and data lie in this folder."""
