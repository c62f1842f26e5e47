"""An encoder's identity: whatever moves a vector gives another identity, or an error."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder, MultiVectorEncoder, SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Router, Transformer
from sentence_transformers.sentence_transformer import modules
from sentence_transformers.sentence_transformer.modules import Pooling
from sentence_transformers.sentence_transformer.modules.tokenizer import (
    TransformersTokenizerWrapper,
    WhitespaceTokenizer,
)
from standins import word_tokenizer
from standins.models import WORDS
from torch import nn
from transformers import BertConfig, BertForMaskedLM

from polarity_bench.embedding.embedder import Embedder
from polarity_bench.embedding.store import EmbeddingStore
from polarity_bench.encoders.axis import Axis
from polarity_bench.encoders.load import (
    EncoderOptions,
    SentenceTransformerEncoder,
    digest_of_model,
    load_encoder,
)
from polarity_bench.encoders.probe import TEXTS
from polarity_bench.errors import InputError
from polarity_bench.evaluation.many_tasks import EvaluationPlan, run_suite
from polarity_bench.tasks.catalogue import load_task

WIDTH = 16
"""Number of dimensions of the model `bert`."""

OWN = ["the film was good.", "A BAD film , and the acting was bad", "not very good"]


def load(folder: Path, **options: Any) -> SentenceTransformerEncoder:
    encoder = load_encoder(str(folder), EncoderOptions(device="cpu", **options))
    assert isinstance(encoder, SentenceTransformerEncoder)
    return encoder


def word_embeddings(width: int = 8) -> nn.Module:
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), width)).astype(np.float32)
    tokenizer = WhitespaceTokenizer(WORDS, stop_words=["the"], do_lower_case=True)
    return modules.WordEmbeddings(tokenizer, vectors)


def save(parts: list[Any], folder: Path) -> Path:
    model = SentenceTransformer(modules=parts, device="cpu")
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


def transformer(bert: Path, **options: Any) -> list[Any]:
    return [Transformer(str(bert), **options), Pooling(WIDTH, "mean")]


def adapted(bert: Path, folder: Path) -> Path:
    """Save a model with an adapter of peft that is not zero."""
    peft = pytest.importorskip("peft")
    model = SentenceTransformer(modules=transformer(bert), device="cpu")
    targets = ["query", "value"]
    model.add_adapter(peft.LoraConfig(r=2, lora_alpha=8, target_modules=targets))
    torch.manual_seed(0)
    for name, weights in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(weights, std=0.3)
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


KINDS: dict[str, Callable[[Path, Path], Path]] = {
    "transformer": lambda bert, folder: save(transformer(bert, max_seq_length=16), folder),
    "static": lambda _, folder: save(
        [modules.StaticEmbedding(word_tokenizer(), embedding_dim=8)], folder
    ),
    "word embeddings": lambda _, folder: save([word_embeddings(), Pooling(8, "mean")], folder),
    "adapter": adapted,
    "dial": lambda bert, folder: save(
        [*transformer(bert), Normalize(), Axis(["bad", "good"], WIDTH)], folder
    ),
}

ADDED: dict[str, dict[str, Any]] = {
    "tokenizer_config.json": {
        "model_input_names": ["input_ids"],
        "padding_side": "left",
        "truncation_side": "left",
        "clean_up_tokenization_spaces": True,
        "do_lower_case": False,
        "add_bos_token": True,
        "chat_template": "{{ messages }}",
    },
    "config_sentence_transformers.json": {"truncate_dim": 4, "default_prompt_name": "query"},
    "sentence_bert_config.json": {"max_seq_length": 4, "do_lower_case": True},
    "adapter_config.json": {
        "lora_alpha": 0.0001,
        "alpha_pattern": {"query": 1},
        "use_rslora": True,
        "use_dora": True,
    },
}
"""Values that a user may set, in addition to small changes of the values that are there."""

OTHER_WORDS = {"mean": "cls", "right": "left", "gelu": "relu", "cosine": "dot", "LORA": "LOHA"}


def changed(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return 2 * value + 0.5
        case str():
            return OTHER_WORDS.get(value, f"{value}x")
        case list() if value:
            return value[:-1]
        case dict() if value:
            name, first = next(iter(value.items()))
            return {**value, name: changed(first)}
    return None


def edits(folder: Path) -> Iterator[str]:
    """Change every file and every setting of a folder, and yield a name of each change."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        before, where = file.read_bytes(), file.relative_to(folder)
        if file.suffix == ".safetensors":
            tensors = load_file(file)
            first = sorted(tensors)[0]
            save_file({**tensors, first: tensors[first] + 0.1}, file)
            yield f"{where}: {first}"
        elif file.suffix == ".json" and isinstance(stored := json.loads(before), dict):
            values = [(key, changed(value)) for key, value in stored.items()]
            for key, value in [*values, *ADDED.get(file.name, {}).items()]:
                if value is not None and value != stored.get(key):
                    file.write_text(json.dumps({**stored, key: value}))
                    yield f"{where}: {key} = {str(value)[:60]}"
        file.write_bytes(before)


@pytest.mark.filterwarnings("ignore")  # Libraries warn about odd settings.
@pytest.mark.parametrize("kind", KINDS)
def test_each_edit_of_a_folder_gives_another_identity_or_the_same_vectors(
    kind: str, bert: Path, tmp_path: Path
) -> None:
    folder = KINDS[kind](bert, tmp_path / "encoder")
    texts = [*OWN, *TEXTS]
    encoder = load(folder)
    vectors = encoder.encode(texts)
    hidden, n_other = [], 0
    for edit in edits(folder):
        try:
            edited = load(folder)
        except InputError:
            continue
        if edited.id.digest != encoder.id.digest:
            n_other += 1
        elif not np.allclose(edited.encode(texts), vectors, atol=1e-6, equal_nan=True):
            hidden.append(edit)
    assert not hidden
    assert n_other > 2  # The edits reach the encoder.


@pytest.mark.parametrize(
    "setting", [{"lora_alpha": 32}, {"lora_alpha": 0.0001}, {"use_rslora": True}]
)
def test_the_settings_of_an_adapter_are_part_of_the_digest(
    setting: dict[str, Any], bert: Path, tmp_path: Path
) -> None:
    folder = adapted(bert, tmp_path / "encoder")
    before = load(folder)
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | setting))
    after = load(folder)
    assert not np.allclose(before.encode(OWN), after.encode(OWN))
    assert before.id.digest != after.id.digest


@pytest.mark.filterwarnings("ignore:Already found a `peft_config`")
def test_the_active_adapter_is_part_of_the_digest(bert: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    model = load(adapted(bert, tmp_path / "encoder")).model
    model.add_adapter(peft.LoraConfig(r=2, target_modules=["query"]), "second")
    digests = []
    for name in ("default", "second"):
        model.set_adapter(name)
        digests.append(digest_of_model(model))
    model.disable_adapters()
    assert len({*digests, digest_of_model(model)}) == 3


def test_an_adapter_has_the_same_digest_in_every_folder(bert: Path, tmp_path: Path) -> None:
    folder = adapted(bert, tmp_path / "encoder")
    other = shutil.copytree(folder, tmp_path / "other")
    base = shutil.copytree(bert, tmp_path / "moved")
    file = other / "adapter_config.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({**stored, "base_model_name_or_path": str(base)}))
    assert load(folder).id.digest == load(other).id.digest


# Settings that no digest knows


class Moody(nn.Module):
    """Depends on a file that no configuration names."""

    file: Path

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        vectors = features["sentence_embedding"]
        turned = vectors + float(self.file.read_text()) * vectors.flip(1)
        return features | {"sentence_embedding": turned}


class Noting(nn.Module):
    """Changes an attribute of its own with each batch."""

    n_batches = 0

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        self.n_batches += 1
        return features


@pytest.fixture
def moody(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Any]:
    monkeypatch.setattr(Moody, "file", tmp_path / "mood", raising=False)

    def encoder(mood: float) -> SentenceTransformerEncoder:
        Moody.file.write_text(str(mood))
        model = SentenceTransformer(modules=[*transformer(bert), Moody()], device="cpu")
        return SentenceTransformerEncoder(model, name="moody")

    return encoder


def test_the_store_refuses_an_encoder_whose_vectors_changed_under_its_digest(
    moody: Callable[[float], Any], tmp_path: Path
) -> None:
    with EmbeddingStore(tmp_path / "store") as store:
        first = moody(0)
        Embedder(store).embed(first, OWN)
        Embedder(store).embed(moody(0.001), OWN)  # A rounding error is accepted.
        second = moody(0.5)
        assert second.id.digest == first.id.digest
        with pytest.raises(
            InputError, match=r"\.sqlite: the encoder moody .* the encoder moody "
        ) as error:
            Embedder(store).embed(second, OWN)
        assert first.id.digest in str(error.value)


def test_a_stored_result_is_not_reused_for_other_vectors(
    moody: Callable[[float], Any], tmp_path: Path
) -> None:
    task = load_task("contrast")
    output = tmp_path / "results"
    run_suite(EvaluationPlan(moody(0)), [task], output)
    assert run_suite(EvaluationPlan(moody(0.001)), [task], output).reused == ["contrast"]
    changed = run_suite(EvaluationPlan(moody(0.5)), [task], output)
    assert not changed.results
    assert re.search(
        r"ContrastPolarityRetrieval\.json: the encoder moody .* digest .* cache prune` with this",
        changed.failures["contrast"],
    )
    again = run_suite(EvaluationPlan(moody(0.5)), [task], output, overwrite=True)
    assert not again.reused
    assert not again.failures


def test_a_probe_is_not_part_of_the_digest(bert: Path) -> None:
    encoder = load(bert)
    assert encoder.id.probe
    assert len(encoder.id.probe) == len(TEXTS)
    assert "probe" not in encoder.id.to_dict()


# Kinds of modules

Parts = Callable[[Path], list[Any]]

MODULES: dict[str, Parts] = {
    "Transformer": transformer,
    "Pooling": transformer,
    "Normalize": lambda bert: [*transformer(bert), Normalize()],
    "Dense": lambda bert: [*transformer(bert), Dense(WIDTH, 8)],
    "LayerNorm": lambda bert: [*transformer(bert), modules.LayerNorm(WIDTH)],
    "Dropout": lambda bert: [*transformer(bert), modules.Dropout(0.1)],
    "WeightedLayerPooling": lambda bert: [
        Transformer(str(bert), config_kwargs={"output_hidden_states": True}),
        modules.WeightedLayerPooling(WIDTH, num_hidden_layers=1, layer_start=1),
        Pooling(WIDTH, "mean"),
    ],
    "StaticEmbedding": lambda _: [modules.StaticEmbedding(word_tokenizer(), embedding_dim=8)],
    "WordEmbeddings": lambda _: [word_embeddings(), Pooling(8, "mean")],
    "WordWeights": lambda _: [
        word_embeddings(),
        modules.WordWeights(WORDS, {word: 1 / n for n, word in enumerate(WORDS, 1)}),
        Pooling(8, "mean"),
    ],
    "BoW": lambda _: [modules.BoW(WORDS, {word: 1 / n for n, word in enumerate(WORDS, 1)})],
    "CNN": lambda _: [word_embeddings(), modules.CNN(8, 4), Pooling(12, "mean")],
    "LSTM": lambda _: [word_embeddings(), modules.LSTM(8, 4), Pooling(8, "mean")],
    "Router": lambda bert: [
        Router({"query": transformer(bert), "document": [*transformer(bert), Normalize()]})
    ],
}


@pytest.mark.parametrize("name", MODULES)
def test_each_kind_of_module_loads_and_has_an_identity(
    name: str, bert: Path, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    folder = save(MODULES[name](bert), tmp_path / "encoder")
    other = shutil.copytree(folder, tmp_path / "other")
    encoder = load(folder)
    assert encoder.id.digest == load(other).id.digest
    # A router encodes the texts of symmetric tasks as documents.
    expected = SentenceTransformer(str(folder), device="cpu").encode_document(OWN)
    assert np.allclose(encoder.encode(OWN), expected, atol=1e-5)
    assert (encoder.count_tokens(OWN) > 0).all()


def test_the_word_lists_of_a_tokenizer_are_part_of_the_digest(bert: Path, tmp_path: Path) -> None:
    folder = KINDS["word embeddings"](bert, tmp_path / "encoder")
    digests = {load(folder).id.digest}
    file = next(folder.rglob("whitespacetokenizer_config.json"))
    stored = json.loads(file.read_text())
    for change in ({"stop_words": ["film"]}, {"do_lower_case": False}, {"vocab": WORDS[::-1]}):
        file.write_text(json.dumps({**stored, **change}))
        digests.add(load(folder).id.digest)
    assert len(digests) == 4


def test_the_rules_of_a_wrapped_tokenizer_are_part_of_the_digest(
    bert: Path, tmp_path: Path
) -> None:
    """Words that no probe contains are swapped in the vocabulary of a tokenizer of transformers."""
    from transformers import AutoTokenizer

    vectors = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    digests = set()
    for name, n in (("one", 0), ("two", 1)):
        tokenizer = AutoTokenizer.from_pretrained(str(bert))
        tokenizer.add_tokens(["zyzzyva", "quokka"][:: 1 - 2 * n])
        words = modules.WordEmbeddings(TransformersTokenizerWrapper(tokenizer), vectors)
        digests.add(load(save([words, Pooling(8, "mean")], tmp_path / name)).id.digest)
    assert len(digests) == 2


def test_a_slow_tokenizer_has_the_same_digest_in_every_folder_and_after_use(
    bert: Path, tmp_path: Path
) -> None:
    from transformers import ByT5Tokenizer

    digests = set()
    for name in ("one", "two"):
        ByT5Tokenizer().save_pretrained(tmp_path / name)
        model = SentenceTransformer(modules=transformer(bert), device="cpu")
        inner: Any = model[0]
        inner.processor = ByT5Tokenizer.from_pretrained(tmp_path / name)
        digests.add(digest_of_model(model))
        model.tokenizer("good")
        digests.add(digest_of_model(model))
    assert len(digests) == 1


def test_a_module_that_notes_what_it_saw_keeps_its_digest(bert: Path) -> None:
    model = SentenceTransformer(modules=[*transformer(bert), Noting()], device="cpu")
    before = digest_of_model(model)
    model.encode(OWN)
    assert digest_of_model(model) == before


def test_each_route_of_a_router_has_its_tokenizer_in_the_digest(bert: Path, tmp_path: Path) -> None:
    parts = {"query": transformer(bert), "document": transformer(bert)}
    folder = save([Router(parts, default_route="document")], tmp_path / "encoder")
    before = load(folder).id.digest
    (file,) = [f for f in folder.rglob("tokenizer.json") if "document" in f.parts[-2]]
    rules = json.loads(file.read_text())
    rules["normalizer"] = None
    file.write_text(json.dumps(rules))
    assert load(folder).id.digest != before


def sparse(bert: Path, folder: Path) -> None:
    from sentence_transformers import SparseEncoder
    from transformers import AutoTokenizer

    masked = folder.with_name("masked")
    BertForMaskedLM(BertConfig.from_pretrained(bert)).save_pretrained(masked)
    AutoTokenizer.from_pretrained(str(bert)).save_pretrained(masked)
    SparseEncoder(str(masked), device="cpu").save_pretrained(str(folder))


OTHERS: dict[str, Callable[[Path, Path], object]] = {
    "CrossEncoder": lambda bert, folder: CrossEncoder(
        str(bert), num_labels=1, device="cpu"
    ).save_pretrained(str(folder)),
    "MultiVectorEncoder": lambda bert, folder: MultiVectorEncoder(
        str(bert), device="cpu"
    ).save_pretrained(str(folder)),
    "SparseEncoder": sparse,
}


@pytest.mark.filterwarnings("ignore")  # The weights of the heads are new.
@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds_of_models_are_refused_by_name(name: str, bert: Path, tmp_path: Path) -> None:
    OTHERS[name](bert, tmp_path / "encoder")
    with pytest.raises(InputError, match=rf"contains a {name}; polarity-bench needs a Sentence"):
        load(tmp_path / "encoder")


def test_a_module_for_images_is_refused_by_name(bert: Path, tmp_path: Path) -> None:
    folder = save(transformer(bert), tmp_path / "encoder")
    file = folder / "modules.json"
    file.write_text(file.read_text().replace("modules.transformer.Transformer", "models.CLIPModel"))
    with pytest.raises(InputError, match="contains a CLIPModel"):
        load(folder)


def test_modules_without_a_sentence_embedding_are_refused(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no sentence embedding; add a pooling module"):
        load(save([Transformer(str(bert))], tmp_path / "encoder"))


def test_the_page_about_evaluation_lists_each_kind_of_module() -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluate.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `")]
    listed = {
        name: support.strip()[:3]
        for names, support in rows
        for name in re.findall(r"`([A-Z]\w+)`", names)
    }
    assert {name for name, support in listed.items() if support == "yes"} == set(MODULES)
    refused = {name for name, support in listed.items() if support == "ref"}
    assert refused == {*OTHERS, "CLIPModel"}
    assert f"{len(TEXTS)} fixed texts" in page
