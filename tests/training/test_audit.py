"""What an audit found wrong in training, each as a test."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standins import QUERIES, SOURCES, write_task
from test_train import SMALL, model, run, tasks, weights  # noqa: F401

from polarity_bench.data.sources import DataAccess
from polarity_bench.errors import InputError
from polarity_bench.training.data import load_training_data
from polarity_bench.registry import load_tasks


def norm(t):
    return " ".join(re.findall(r"\w+", t.casefold()))

PHRASES = [(f"{t} {i} {w}", l) for i in range(6) for w in ("", "indeed", "indeed yes") for t, l in SOURCES]

def test_no_pool_text_contains_a_held_out_text_or_is_contained_in_one(tmp_path):
    write_task(tmp_path, sources=PHRASES)
    d = load_training_data(load_tasks(tmp_path)["mini"], DataAccess(offline=True), held_out=20, seed=0)
    held = [norm(t) for t in d.held_out.query.texts]
    assert len(held) == 20
    assert not [(h, p) for h in held for p in map(norm, d.pool.texts) if h in p or p in h]
    assert not [(h, p) for h in held for p in map(norm, d.held_out.source.texts) if h in p or p in h]

def test_queries_never_enter_the_pool(tmp_path):
    write_task(tmp_path, sources=[*SOURCES, (QUERIES[0][0].upper(), "0")])
    d = load_training_data(load_tasks(tmp_path)["mini"], DataAccess(offline=True), held_out=0, seed=0)
    assert norm(QUERIES[0][0]) not in set(map(norm, d.pool.texts))

def test_edited_test_labels_are_another_run(model, tasks, tmp_path):
    run(model, tasks, tmp_path / "x")
    write_task(tasks, queries=[(t, "1" if l == "0" else "0") for t, l in QUERIES[:3]] + list(QUERIES[3:]))
    with pytest.raises(InputError, match="holds another run"):
        run(model, tasks, tmp_path / "x")

def test_no_prompt_is_kept(model, tasks, tmp_path):
    from sentence_transformers import SentenceTransformer
    from polarity_bench.encoders import EncoderOptions, load_encoder
    m = SentenceTransformer(str(model), device="cpu")
    m.prompts["q"] = "What a "
    m.default_prompt_name = "q"
    m.save_pretrained(str(tmp_path / "prompted"))
    done = run(tmp_path / "prompted", tasks, tmp_path / "x", options=EncoderOptions(prompt=""))
    assert done.rows[0]["retention"] == 1.0
    assert load_encoder(str(tmp_path / "x")).id.prompt is None

def test_bf16(model, tasks, tmp_path):
    from polarity_bench import evaluate, load_encoder, load_polarity
    done = run(model, tasks, tmp_path / "x", replace(SMALL, dtype="bfloat16", epochs=1))
    data = load_polarity(load_tasks(tasks)["mini"], DataAccess(offline=True))
    later = evaluate(load_encoder(str(tmp_path / "x")), data, reference=load_encoder(str(model)))
    assert {m: done.rows[-1][m] for m in ("polarity", "similarity", "joint")} == {m: later.scores[f"{m}_at_4"] for m in ("polarity", "similarity", "joint")}

def test_test_queries_as_examples(model, tasks, tmp_path):
    q = [t.upper() for t, _ in QUERIES]
    with pytest.raises(InputError, match="row 0"):
        from polarity_bench.training.spec import ExampleSpec
        run(model, tasks, tmp_path / "x", replace(SMALL, examples=ExampleSpec()), examples={"anchor": q, "positive": q, "negative": q})

def test_base_is_a_candidate(model, tasks, tmp_path, monkeypatch):
    from polarity_bench.training.evaluation import EpochEvaluator
    joints = iter([0.9, 0.5, 0.4])
    original = EpochEvaluator._scores
    monkeypatch.setattr(EpochEvaluator, "_scores", lambda self, c: original(self, c) | {"held_out_joint": next(joints)})
    done = run(model, tasks, tmp_path / "x")
    assert done.best_step == 0

def test_lock(model, tasks, tmp_path):
    import subprocess, sys, time
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r}); sys.path.insert(0, {str(Path(__file__).parent)!r})
import time
from pathlib import Path
from polarity_bench.training.trainer import PolarityTrainer
original = PolarityTrainer.compute_loss
def slow(self, *a, **k):
    Path({str(tmp_path/'go')!r}).touch(); time.sleep(60)
PolarityTrainer.compute_loss = slow
from test_train import run
run(Path({str(model)!r}), Path({str(tasks)!r}), Path({str(tmp_path/'x')!r}))
"""
    p = subprocess.Popen([sys.executable, "-c", code])
    try:
        while not (tmp_path/'go').exists():
            assert p.poll() is None
            time.sleep(0.1)
        with pytest.raises(InputError, match="trained"):
            run(model, tasks, tmp_path / "x")
    finally:
        p.kill()
