"""Measure the speed of encoding, retrieval, training, commands and a suite, beside other libraries.

    python benchmarks/performance.py [encoding gpu retrieval training gpu-training start suite]
                                     [--rounds 5]

In every round, all paths of a section run one after another. The tables show medians over the
rounds. Run the script on an idle machine: it records the load before each section. The script
writes `docs/performance.json` and the tables between the markers of `docs/performance.md`.

Encoding includes fastembed if it is installed (`pip install fastembed`), and a model2vec encoder
(`--static`) if it can be loaded. Without a GPU, the sections `gpu` and `gpu-training` are left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
Action = Callable[[], Any]
Timed = dict[str, list[float]]
Section = tuple[list[str], list[list[Any]], str]
"""Headings, rows and introduction of a table."""


def interleave(paths: dict[str, Action], rounds: int) -> Timed:
    """Run every path once untimed, then time all paths in each round; return the seconds."""
    for path in paths.values():
        path()
    seconds: Timed = {name: [] for name in paths}
    for _ in range(rounds):
        for name, path in paths.items():
            begun = time.perf_counter()
            path()
            seconds[name].append(time.perf_counter() - begun)
    return seconds


def medians(seconds: Timed) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in seconds.items()}


# Encoding


def encoding(rounds: int, static: str) -> Section:
    """Time every path on the same texts, without the store of vectors."""
    import torch

    from polarity_bench import EncoderOptions, load_encoder, load_task
    from polarity_bench.encoders.load import SentenceTransformerEncoder

    task: Any = load_task("contrast")
    texts = list(dict.fromkeys(task.texts))[:800]
    encoders: dict[str, Any] = {}
    for backend, dtype in [
        ("torch", "float32"),
        ("torch", "bfloat16"),
        ("openvino", "float32"),
        ("openvino", "bfloat16"),
        ("openvino", "int8"),
        ("onnx", "float32"),
        ("onnx", "int8"),
    ]:
        options = EncoderOptions(backend=backend, dtype=dtype, device="cpu")  # type: ignore[arg-type]
        encoders[f"{backend}, {dtype}"] = load_encoder("minilm", options)
    plain = encoders["torch, float32"]
    assert isinstance(plain, SentenceTransformerEncoder)
    n_tokens = int(plain.count_tokens(texts).sum())

    paths = {
        "`SentenceTransformer.encode`, float32": with_library(plain, texts),
        "`SentenceTransformer.encode`, bfloat16": with_library(encoders["torch, bfloat16"], texts),
    }
    paths |= {f"polarity-bench, {name}": ours(encoder, texts) for name, encoder in encoders.items()}
    with tempfile.TemporaryDirectory() as folder:
        paths |= other_libraries(plain, texts, Path(folder), static)
    seconds = medians(interleave(paths, rounds))
    expected = plain.model.encode(texts, normalize_embeddings=True)
    rate = matrix_rate()
    parameters = sum(
        module.weight.numel()
        for module in plain.model.modules()
        if isinstance(module, torch.nn.Linear)
    )
    rows = []
    for name, value in seconds.items():
        vectors = np.array(paths[name]())
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        is_minilm = vectors.shape == expected.shape
        cosine = float((vectors * expected).sum(axis=1).mean()) if is_minilm else None
        share = 100 * 2 * parameters * n_tokens / value / rate if "float32" in name else None
        speed = n_tokens / value
        rows.append([name, speed, next(iter(seconds.values())) / value, share, cosine])
    head = ["path", "tokens/s", "against `encode`", "share of the matrix rate, %", "mean cosine"]
    note = f"MiniLM, {len(texts)} texts of contrast, {n_tokens:,} tokens. "
    return head, rows, f"{note}The matrix rate is {rate / 1e9:.0f} GFLOP/s in float32."


def with_library(encoder: Any, texts: list[str], batch_size: int = 32) -> Action:
    return lambda: encoder.model.encode(texts, batch_size=batch_size, show_progress_bar=False)


def ours(encoder: Any, texts: list[str]) -> Action:
    from polarity_bench.embedding.embedder import Embedder

    return lambda: Embedder.on(encoder).embed(encoder, texts).vectors(texts).vectors


def other_libraries(plain: Any, texts: list[str], folder: Path, static: str) -> dict[str, Action]:
    """Return the paths of libraries that may be missing; standard error names those left out.

    Args:
        plain: MiniLM by torch in float32. fastembed gets its transformer as an ONNX graph.
        texts: The texts to encode.
        folder: Folder for the graph.
        static: Name or folder of a model2vec encoder.
    """
    import torch
    from model2vec import StaticModel

    paths: dict[str, Action] = {}
    try:
        from fastembed import TextEmbedding
        from fastembed.common.model_description import ModelSource, PoolingType
    except ImportError as error:
        print(f"without fastembed: {error}", file=sys.stderr)
    else:
        from polarity_bench.encoders.backends import TracedTransformer, export_onnx

        plain.model.save_pretrained(str(folder), create_model_card=False)
        traced = TracedTransformer(plain.model, plain.model[0].auto_model.forward)
        with warnings.catch_warnings(action="ignore"):
            export_onnx(traced, folder / "model.onnx")
        nowhere = ModelSource(hf="local/minilm")
        TextEmbedding.add_custom_model(
            "local/minilm", PoolingType.MEAN, True, nowhere, dim=384, model_file="model.onnx"
        )
        threads = torch.get_num_threads()
        fast = TextEmbedding("local/minilm", threads=threads, specific_model_path=str(folder))
        paths["fastembed (ONNX), float32"] = lambda: list(fast.embed(texts))
    try:
        vectors = StaticModel.from_pretrained(static)
    except Exception as error:  # noqa: BLE001 - the library raises what its parts raise
        print(f"without model2vec: {static}: {error}", file=sys.stderr)
    else:
        paths[f"model2vec, {Path(static).name}"] = lambda: vectors.encode(texts)
    return paths


def matrix_rate() -> float:
    """Return the float32 operations per second of a product in the encoder's shapes."""
    import torch

    texts, weights = torch.randn(2048, 384), torch.randn(384, 1536)
    best = 0.0
    with torch.inference_mode():
        for _ in range(40):
            begun = time.perf_counter()
            for _ in range(10):
                texts @ weights
            rate = 10 * 2 * 2048 * 384 * 1536 / (time.perf_counter() - begun)
            best = max(best, rate)
    return best


def gpu(rounds: int) -> Section:
    """Time sentence-transformers and this package on a GPU, on short and on long texts."""
    from polarity_bench import EncoderOptions, load_encoder, load_task
    from polarity_bench.encoders.base import Dtype

    task: Any = load_task("sst2")
    short = list(dict.fromkeys(task.texts))
    long = [" ".join(short[first : first + 10]) for first in range(0, len(short), 5)]
    dtypes: tuple[Dtype, ...] = ("float32", "bfloat16")
    encoders: dict[str, Any] = {
        dtype: load_encoder("minilm", EncoderOptions(dtype=dtype, device="cuda"))
        for dtype in dtypes
    }
    rows = []
    for name, texts in (("short", short), ("long", long)):
        n_tokens = int(encoders["float32"].count_tokens(texts).sum())
        paths: dict[str, Action] = {}
        for dtype, encoder in encoders.items():
            for size in (32, 512):
                path = f"`SentenceTransformer.encode`, {dtype}, batches of {size}"
                paths[path] = with_library(encoder, texts, size)
            paths[f"polarity-bench, {dtype}"] = ours(encoder, texts)
        seconds = medians(interleave(paths, rounds))
        plain = next(iter(seconds.values()))
        expected = encoders["float32"].model.encode(texts, normalize_embeddings=True)
        for path, value in seconds.items():
            vectors = np.array(paths[path]())
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            cosine = float((vectors * expected).sum(axis=1).mean())
            rows.append(
                [f"{name}, {n_tokens:,} tokens", path, n_tokens / value, plain / value, cosine]
            )
    head = ["texts", "path", "tokens/s", "against `encode`, batches of 32", "mean cosine"]
    note = f"MiniLM. Short: {len(short):,} texts of SST-2. Long: {len(long):,} texts, each ten of "
    return head, rows, f"{note}them in a row, overlapping by five."


# Retrieval


def retrieval(rounds: int) -> Section:
    """Time the retrieval of 16 sources by the exact search of this package and by faiss."""
    import faiss

    from polarity_bench.embedding.arrays import Embeddings
    from polarity_bench.retrieval import top_k

    generator = np.random.default_rng(0)
    rows = []
    for n_queries, n_sources in [
        (872, 4_360),
        (2_767, 13_835),
        (20_000, 20_000),
        (1_000, 200_000),
        (1_000, 1_000_000),
    ]:
        centre = 0.7 * generator.standard_normal(384, dtype=np.float32)
        query, source = (
            generator.standard_normal((n, 384), dtype=np.float32) + centre
            for n in (n_queries, n_sources)
        )
        for vectors in (query, source):
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

        def with_faiss(query: Any = query, source: Any = source) -> Any:
            index = faiss.IndexFlatIP(source.shape[1])
            index.add(source)
            return index.search(query, 16)[1]

        def ours(query: Any = query, source: Any = source) -> Any:
            return top_k(Embeddings(query), Embeddings(source), 16).index

        seconds = medians(interleave({"faiss": with_faiss, "ours": ours}, rounds))
        rows.append(
            [
                f"{n_queries:,} by {n_sources:,}",
                seconds["faiss"],
                seconds["ours"],
                seconds["ours"] / seconds["faiss"],
                100 * float((with_faiss() == ours()).mean()),
            ]
        )
    head = ["queries by sources", "faiss, s", "polarity-bench, s", "ratio", "equal, %"]
    return head, rows, "384 dimensions, k = 16; faiss is `IndexFlatIP`."


# Training


def training(rounds: int, device: str = "cpu", n: int = 256) -> Section:
    """Time one epoch of a triplet loss by this package and by sentence-transformers' trainer."""
    from training import measure  # beside this script

    from polarity_bench.encoders.base import multiplies_bfloat16
    from polarity_bench.training.examples.source import generate_examples
    from polarity_bench.training.examples.spec import ExampleSpec
    from polarity_bench.training.recipes.margins.settings import TrainDtype

    batch_size = 64
    names = {False: "SentenceTransformerTrainer", True: "polarity-bench"}
    spec = ExampleSpec(examples=n)
    tasks = ("contrast", "sst2")
    examples = {task: generate_examples(task, encoder="minilm", spec=spec) for task in tasks}
    dtypes: tuple[TrainDtype, ...] = ("float32", "bfloat16")
    note = f"MiniLM, {n:,} triplets in batches of {batch_size}, one epoch."
    if device == "cpu" and not multiplies_bfloat16():
        dtypes = dtypes[:1]
        note += " This processor has no instructions for bfloat16."
    kinds = list(itertools.product(tasks, dtypes, names))
    seconds: dict[Any, list[float]] = {kind: [] for kind in kinds}
    for _ in range(rounds):  # `measure` warms up by itself.
        for task, dtype, sort in kinds:
            taken = measure("minilm", examples[task], sort, batch_size, dtype, device)
            seconds[task, dtype, sort].append(taken)
    found = {kind: statistics.median(values) for kind, values in seconds.items()}
    rows = [
        [task, f"{names[sort]}, {dtype}", 3 * n / value, found[task, dtype, False] / value]
        for (task, dtype, sort), value in found.items()
    ]
    head = ["texts", "trainer", "texts/s", "against the trainer in the same precision"]
    return head, rows, note


def gpu_training(rounds: int) -> Section:
    return training(rounds, "cuda", 4_096)


# Commands


def start(rounds: int) -> Section:
    """Time commands that should be fast, each in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        _command(folder, "run", "--tasks", "contrast", "--model", "random")
        _command(folder, "run", "--tasks", "contrast", "--model", "tfidf")
        board = Path(folder) / "board"
        shutil.copytree(Path(folder) / "results", board / "results")
        (board / "board.toml").touch()
        commands = {
            "`--help`": ["--help"],
            "`tasks`": ["tasks"],
            "`compare`": ["compare", "random", "tfidf", "--task", "contrast"],
            "`leaderboard build`": ["leaderboard", "build", "board"],
            "`run --model random`": ["run", "--tasks", "contrast", "--model", "random", "--output"],
            "`run` with stored vectors": ["run", "--tasks", "contrast", "--output"],
        }
        paths: dict[str, Action] = {
            name: lambda words=words: _command(folder, *words)  # type: ignore[misc]
            for name, words in commands.items()
        }
        seconds = medians(interleave(paths, rounds))
    return ["command", "seconds"], [[name, value] for name, value in seconds.items()], "Wall time."


def suite(rounds: int) -> Section:
    """Time the suite `full` for MiniLM, cold once and warm in each round."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["run", "--suite", "full", "--output"]
        begun = time.perf_counter()
        _command(folder, *words)
        cold = time.perf_counter() - begun
        records = [json.loads(file.read_text()) for file in Path(folder).rglob("*.provenance.json")]
        encoded = max(record["seconds"]["embed"] for record in records)
        rows: list[list[Any]] = [["cold", cold], ["of which encoding", encoded]]
        seconds = interleave({"warm": lambda: _command(folder, *words)}, rounds)
        rows.append(["warm", medians(seconds)["warm"]])
    note = "Wall time; cold: one run; warm: all vectors are stored. "
    note += f"Cold takes {cold / encoded:.2f} times as long as its encoding."
    return ["suite `full`, MiniLM", "seconds"], rows, note


def _command(folder: str, *words: str) -> None:
    """Run a command in a folder with a cache of its own; `--output` gets a new folder."""
    environment = os.environ | {
        "POLARITY_BENCH_CACHE": str(Path(folder) / "cache"),
        "HF_HUB_OFFLINE": "1",
    }
    new = [tempfile.mkdtemp(dir=folder)] if words[-1] == "--output" else []
    command = [sys.executable, "-m", "polarity_bench", *words, *new]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)


SECTIONS: dict[str, Callable[..., Section]] = {
    "encoding": encoding,
    "gpu": gpu,
    "retrieval": retrieval,
    "training": training,
    "gpu-training": gpu_training,
    "start": start,
    "suite": suite,
}


INSTRUCTIONS = ("amx_bf16", "avx512_bf16", "avx512f", "avx2")
"""Vector instructions that decide the speed of encoding, from the fastest."""


def machine(on_gpu: bool) -> str:
    """Describe the processor or the GPU, the cores, the load and the libraries."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    model = re.search(r"model name\s*: (.*)", text)
    packages = ["torch", "sentence-transformers"]
    name = model[1] if model else "unknown processor"
    flags = set(text.partition("flags")[2].partition("\n")[0].split())
    widest = next((each for each in INSTRUCTIONS if each in flags), "no vector instructions")
    name = f"{name} ({widest})"
    if on_gpu:
        import torch

        name = f"{torch.cuda.get_device_name()}, {name}"
    else:
        packages += ["openvino", "onnxruntime", "faiss-cpu"]
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    cores = len(os.sched_getaffinity(0))
    return f"{name}, {cores} cores, load {os.getloadavg()[0]:.2f}; {versions}"


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def write(section: str, text: str) -> None:
    """Replace the section's part of the page."""
    begin, end = f"<!-- {section} -->\n", f"<!-- /{section} -->"
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(begin)
    PAGE.write_text(f"{before}{begin}\n{text}\n\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)} [default: all]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--static", default="minishlab/potion-base-8M", help="model2vec encoder")
    options = parser.parse_args(arguments)
    file = PAGE.with_suffix(".json")
    stored = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for section in options.sections or SECTIONS:
        on_gpu = section.startswith("gpu")
        if on_gpu and not has_gpu():
            print(f"without {section}: this machine has no GPU", file=sys.stderr)
            continue
        where = machine(on_gpu)
        more = {"static": options.static} if section == "encoding" else {}
        head, rows, note = SECTIONS[section](options.rounds, **more)
        stored[section] = {
            "machine": where,
            "note": note,
            "rounds": options.rounds,
            "rows": [dict(zip(head, row, strict=True)) for row in rows],
        }
        formats = [".5f" if "cosine" in title else ".2f" for title in head]
        formats = [
            ",.0f" if title == "tokens/s" else each
            for title, each in zip(head, formats, strict=True)
        ]
        table = tabulate(rows, head, "pipe", floatfmt=formats, missingval="-")
        text = f"{note} Medians of {options.rounds} rounds. {where}.\n\n{table}"
        print(f"{text}\n", flush=True)
        file.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
        write(section, text)


if __name__ == "__main__":
    main()
