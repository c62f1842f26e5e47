"""Stand-ins for real encoders, data sets and models in tests."""

from __future__ import annotations

from standins.command import Bench, Done, call, call_several, exit_code_of_copy
from standins.encoders import BagEncoder, HashEncoder, embeddings
from standins.models import tiny_bert, tiny_encoder, word_tokenizer
from standins.server import Server, serve_files
from standins.tasks import QUERIES, SOURCES, Rows, csv_text, write_task
from standins.workshop import QUICK, Workshop, without_times

__all__ = [
    "QUERIES",
    "QUICK",
    "SOURCES",
    "BagEncoder",
    "Bench",
    "Done",
    "HashEncoder",
    "Rows",
    "Server",
    "Workshop",
    "call",
    "call_several",
    "csv_text",
    "embeddings",
    "exit_code_of_copy",
    "serve_files",
    "tiny_bert",
    "tiny_encoder",
    "without_times",
    "word_tokenizer",
    "write_task",
]
