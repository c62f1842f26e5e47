"""Loading encoders: every kind of folder, what is refused, and baselines."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from sklearn.exceptions import NotFittedError
from standins import word_tokenizer
from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertModel

from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.load import EncoderOptions, SentenceTransformerEncoder, load_encoder
from polarity_bench.errors import InputError
from polarity_bench.values import FloatArray

TEXTS = ["the film was good.", "a bad film", "not very good"]
WORDS = ["the", "film", "good"]


def load(folder: Path, **options: object) -> SentenceTransformerEncoder:
    encoder = load_encoder(str(folder), EncoderOptions(device="cpu", **options))  # type: ignore[arg-type]
    assert isinstance(encoder, SentenceTransformerEncoder)
    return encoder


# Kinds of folders


def test_a_plain_transformer_gets_mean_pooling_and_says_so(bert: Path) -> None:
    encoder = load(bert)
    assert encoder.id.pooling_added
    assert encoder.id.name == "tiny-bert"
    tokenizer, model = AutoTokenizer.from_pretrained(bert), BertModel.from_pretrained(bert)
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    expected = ((states * mask).sum(1) / mask.sum(1)).numpy()
    found = encoder.encode(TEXTS)
    assert found.dtype == np.float32
    assert np.allclose(found, expected, atol=1e-6)


def test_a_sentence_transformers_folder(sentence_bert: Path, bert: Path) -> None:
    encoder = load(sentence_bert)
    assert not encoder.id.pooling_added
    assert np.allclose(encoder.encode(TEXTS), load(bert).encode(TEXTS), atol=1e-6)
    assert encoder.count_tokens(TEXTS).tolist() == [7, 5, 5]


def test_texts_that_reach_the_limit_of_tokens_are_counted(sentence_bert: Path) -> None:
    texts = [*TEXTS, TEXTS[0]]  # 7, 5, 5 and again 7 tokens
    for limit, n in ((8, 0), (7, 1), (6, 1), (5, 3)):
        usage = Embedder().embed(load(sentence_bert, max_tokens=limit), texts).usage
        assert (usage.n_at_limit, usage.n_encoded) == (n, 3), limit


# model2vec before 0.10 does not close the files of a model that it saves.
@pytest.mark.filterwarnings("ignore:unclosed file.*json:ResourceWarning")
def test_a_model2vec_folder(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    StaticModel(vectors, word_tokenizer(WORDS)).save_pretrained(tmp_path / "static")
    encoder = load(tmp_path / "static")
    assert not encoder.id.pooling_added
    found = encoder.encode(["the film", "good"])  # rows 5, 6 and 7, after the special tokens
    assert np.allclose(found[1] / np.linalg.norm(found[1]), _unit(vectors[7]))
    mean = vectors[[5, 6]].mean(axis=0)
    assert np.allclose(_unit(found[0]), _unit(mean), atol=1e-6)


def _unit(vector: np.ndarray) -> np.ndarray:
    result: np.ndarray = vector / np.linalg.norm(vector)
    return result


def test_a_static_embedding_folder(tmp_path: Path) -> None:
    torch.manual_seed(0)
    static = StaticEmbedding(word_tokenizer(WORDS), embedding_dim=8)
    SentenceTransformer(modules=[static]).save(str(tmp_path / "static"))
    encoder = load(tmp_path / "static")
    assert encoder.encode(TEXTS).shape == (3, 8)
    assert encoder.id.max_tokens is None
    with pytest.raises(InputError, match="is static, so `max_tokens` has no effect"):
        load(tmp_path / "static", max_tokens=2)


# What they are fed


def test_a_prompt_is_put_before_every_text(sentence_bert: Path) -> None:
    plain, prompted = load(sentence_bert), load(sentence_bert, prompt="query: ")
    by_name = load(sentence_bert, prompt_name="query")
    expected = plain.encode([f"query: {text}" for text in TEXTS])
    assert np.allclose(prompted.encode(TEXTS), expected, atol=1e-6)
    assert by_name.id.digest == prompted.id.digest
    assert "(prompt 'query: ')" in prompted.id.label


def test_an_empty_prompt_turns_the_default_off(sentence_bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(sentence_bert, tmp_path / "default")
    file = folder / "config_sentence_transformers.json"
    config = json.loads(file.read_text()) | {"default_prompt_name": "query"}
    file.write_text(json.dumps(config))
    assert load(folder).id.prompt == "query: "
    assert load(folder, prompt="").id.digest == load(sentence_bert).id.digest
    assert np.array_equal(load(folder, prompt="").encode(TEXTS), load(sentence_bert).encode(TEXTS))
    for encoder in (load(folder), load(folder, prompt="")):  # the id's None is the options' ""
        assert load(folder, prompt=encoder.id.prompt or "").id == encoder.id


def test_texts_are_cut_at_the_maximum_of_tokens(sentence_bert: Path) -> None:
    encoder = load(sentence_bert, max_tokens=4)
    assert encoder.count_tokens(TEXTS).tolist() == [4, 4, 4]
    assert np.allclose(encoder.encode(["the film was"]), encoder.encode(["the film good ."]))


def test_the_dtype_is_that_of_the_weights(sentence_bert: Path) -> None:
    encoder = load(sentence_bert, dtype="bfloat16")
    assert encoder.id.dtype == "bfloat16"
    assert {p.dtype for p in encoder.model.parameters()} == {torch.bfloat16}
    found = encoder.encode(TEXTS)
    assert found.dtype == np.float32
    assert np.allclose(found, load(sentence_bert).encode(TEXTS), atol=0.1)


def test_on_a_gpu_the_next_batch_is_tokenized_while_one_is_encoded(
    sentence_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No GPU is needed: an encoder on the CPU names a GPU as its device."""
    encoder = load(sentence_bert)
    texts = [f"{'the film was ' * n}good" for n in range(5)]
    expected = Embedder(batch_size=2).embed(encoder, texts).vectors(texts).vectors
    tokenized = [Event(), Event(), Event()]
    tokenize, encode_tokens = encoder.tokenize, encoder.encode_tokens
    n_tokenized, n_encoded = 0, 0

    def note_tokenize(batch: Sequence[str]) -> dict[str, Any]:
        nonlocal n_tokenized
        features = tokenize(batch)
        tokenized[n_tokenized].set()
        n_tokenized += 1
        return features

    def wait_and_encode(features: dict[str, Any]) -> FloatArray:
        nonlocal n_encoded
        n_encoded += 1
        assert tokenized[min(n_encoded, 2)].wait(60), "the next batch waits for this one"
        return encode_tokens(features)

    monkeypatch.setattr(SentenceTransformerEncoder, "device", "cuda:0")
    monkeypatch.setattr(encoder, "tokenize", note_tokenize)
    monkeypatch.setattr(encoder, "encode_tokens", wait_and_encode)
    progress: list[int] = []
    found = Embedder(batch_size=2).embed(encoder, texts, progress.append)
    assert np.array_equal(found.vectors(texts).vectors, expected)
    assert (n_encoded, progress) == (3, [0, 2, 2, 1])


def test_batches_are_larger_on_a_gpu(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = load(bert)
    assert (
        Embedder.on(encoder) == Embedder.on(load_encoder("tfidf", EncoderOptions())) == Embedder()
    )
    monkeypatch.setattr(SentenceTransformerEncoder, "device", None)
    assert Embedder.on(encoder) == Embedder()
    monkeypatch.setattr(SentenceTransformerEncoder, "device", "cuda:0")
    assert Embedder.on(encoder) == Embedder(None, batch_tokens=32_768, batch_size=2048)


# What is refused


def test_a_token_with_a_huge_id_is_named(tiny_model: Path, tmp_path: Path) -> None:
    """Writing such a tokenizer would take gigabytes, and abort the process without them."""
    shutil.copytree(tiny_model, tmp_path / "tiny")
    file = tmp_path / "tiny" / "tokenizer.json"
    content = json.loads(file.read_bytes())
    token = next(iter(content["model"]["vocab"]))
    content["model"]["vocab"][token] = 2**31
    file.write_text(json.dumps(content))
    message = f"gives the token {token!r} the id 2147483648, but ids must be below 10,000,000;"
    with pytest.raises(InputError, match=re.escape(message)):
        load(tmp_path / "tiny")


def test_pickled_weights_are_refused_unless_allowed(bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert, tmp_path / "pickled")
    (folder / "model.safetensors").unlink()
    torch.save(BertModel.from_pretrained(bert).state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pickled weights: .*`allow_pickle`"):
        load(folder)
    assert load(folder, allow_pickle=True).id.digest == load(bert).id.digest


def test_an_unknown_prompt_name_is_answered_with_near_ones(sentence_bert: Path) -> None:
    with pytest.raises(InputError, match=r"unknown `prompt_name` 'qury'; did you mean 'query'\?"):
        load(sentence_bert, prompt_name="qury")


def _config(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "the folder has neither modules.json (sentence-transformers) nor config.json"),
        ("{", "config.json: damaged, not valid JSON"),
        ("[]", "has no model_type, so"),
        ('{"architectures": ["X"]}', "has no model_type, so"),
        ('{"model_type": "no-such-type"}', "cannot be loaded as an encoder"),
        ('{"model_type": "bert"}', "cannot be loaded as an encoder"),
    ],
)
def test_a_folder_that_holds_no_encoder(tmp_path: Path, config: str | None, message: str) -> None:
    if config is not None:
        _config(tmp_path, config)
    with pytest.raises(InputError, match=re.escape(message)) as error:
        load(tmp_path)
    assert str(error.value).startswith(f"the encoder {tmp_path.name!r}: ")
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


def test_names_that_are_neither_folders_nor_repositories(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="expected a folder, got a file"):
        load(tmp_path / "file")
    with pytest.raises(
        InputError, match="no such folder, and not a valid name of a hub repository"
    ):
        load(tmp_path / "none")
    with pytest.raises(InputError, match="not a valid name of a hub repository"):
        load_encoder("org/repo/more")
    with pytest.raises(InputError, match=r"could not be read \(`offline`\)"):
        load_encoder("org/none", EncoderOptions(offline=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": "a", "prompt_name": "b"}, "`prompt` and `prompt_name` exclude each other"),
        ({"max_tokens": 0}, "`max_tokens` must be at least 1, got 0"),
        ({"dtype": "float61"}, "unknown `dtype` 'float61'; did you mean 'float16'"),
    ],
)
def test_options_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        EncoderOptions(**options)  # type: ignore[arg-type]


# Baselines


@pytest.mark.parametrize("name", ["random", "constant"])
def test_baselines_give_equal_texts_equal_vectors(name: str) -> None:
    encoder = load_encoder(name)
    together, alone = encoder.encode(TEXTS), encoder.encode(TEXTS[1:2])
    assert np.array_equal(together[1:2], alone)
    assert together.dtype == np.float32


def test_tfidf_is_nearer_for_shared_words() -> None:
    from polarity_bench.encoders.base import CorpusEncoder

    encoder = load_encoder("tfidf")
    assert isinstance(encoder, CorpusEncoder)
    a, b, c = encoder.for_corpus([*TEXTS, "!"]).encode(["good film", "film good", "very bad"])
    assert a @ b == pytest.approx(a @ a)
    assert a @ c == 0
    with pytest.raises(NotFittedError):
        encoder.encode(TEXTS)


def test_a_baseline_takes_no_argument() -> None:
    with pytest.raises(InputError, match="the baseline 'random' takes no argument"):
        load_encoder("random:3")


_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


@pytest.mark.parametrize("own", [None, "1000"])
def test_kernel_caches_are_small_unless_the_user_says_how_large(
    own: str | None, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in _CACHES:
        monkeypatch.setenv(name, own or "")
        if own is None:
            monkeypatch.delenv(name)
    load(tiny_model)
    assert [os.environ[name] for name in _CACHES] == [own or "32"] * 2


_MANY_LENGTHS = """
import sys
import torch
from polarity_bench import load_encoder

model = load_encoder(sys.argv[1]).model
for length in [3, *range(4, 16), 3]:
    print("length", length, flush=True)
    ids = torch.full((16, length), 7)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        model({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
"""


@pytest.mark.parametrize("own", [None, "1000"])
def test_kernels_of_few_lengths_are_kept_unless_the_user_says_how_many(
    own: str | None, tiny_model: Path
) -> None:
    """Else memory grows with every new length while bfloat16 trains on a CPU.

    oneDNN itself says whether it had a kernel for the length that came first and comes again.
    """
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("oneDNN computes nothing in bfloat16 on this processor")
    environment = {key: value for key, value in os.environ.items() if key not in _CACHES}
    environment |= dict.fromkeys(_CACHES, own) if own else {}
    done = subprocess.run(
        [sys.executable, "-c", _MANY_LENGTHS, str(tiny_model)],
        capture_output=True,
        text=True,
        check=True,
        env=environment | {"ONEDNN_VERBOSE": "profile_create"},
    )
    _, first, *_, again = done.stdout.split("length ")
    if "create:cache_miss" not in first:
        pytest.skip("oneDNN computes nothing here")
    assert ("create:cache_miss" in again) == (own is None)


def test_a_template_that_repeats_texts_is_named(tiny_model: Path, tmp_path: Path) -> None:
    """A text that is repeated a hundred times and cut takes gigabytes."""
    shutil.copytree(tiny_model, tmp_path / "tiny")
    file = tmp_path / "tiny" / "tokenizer.json"
    content = json.loads(file.read_bytes())
    template = content["post_processor"]["single"]
    template[1:2] *= 101
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match="contains each text 101 times, expected once; restore"):
        load(tmp_path / "tiny")


def test_a_tokenizer_that_panics_is_named(tiny_model: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_model, tmp_path / "tiny")
    file = tmp_path / "tiny" / "tokenizer.json"
    content = json.loads(file.read_bytes())
    content["post_processor"]["single"][0]["SpecialToken"]["id"] = "[GONE]"
    file.write_text(json.dumps(content))
    message = r"its tokenizer fails \(.*\); restore its files"
    with pytest.raises(InputError, match=message):
        load(tmp_path / "tiny")
    encoder = load(tiny_model)
    encoder.model.tokenizer._tokenizer = Tokenizer.from_file(str(file))
    with pytest.raises(InputError, match=message):
        encoder.count_tokens(["one text"])
