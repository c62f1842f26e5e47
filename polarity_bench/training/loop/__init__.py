"""The loop of gradient steps: sentence-transformers' trainer with what a run needs beside."""
