"""Text classifiers that predict classes from an encoder's vectors, or by the axis of an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from polarity_bench.classifiers.head import Head, pair_vectors
from polarity_bench.classifiers.tokens import encode_all, tokenize
from polarity_bench.embedding.embedder import Embedder
from polarity_bench.encoders.axis import axis_of
from polarity_bench.encoders.load import EncoderOptions, SentenceTransformerEncoder, load_encoder
from polarity_bench.encoders.steered import at_strength
from polarity_bench.errors import InputError
from polarity_bench.files import expanded
from polarity_bench.progress import Bar, no_bar
from polarity_bench.tasks.labelled import Text
from polarity_bench.values import FloatArray


@dataclass(frozen=True)
class Classifier:
    """Encoder with a classifier head.

    A classifier is stored in a valid sentence-transformers folder, which can also be loaded as an
    encoder. An encoder with an axis needs no stored head, because its vectors contain the class.

    Attributes:
        encoder: Encoder that computes the vectors of texts.
        head: Head that computes the classes from vectors.

    Example:
        `Classifier.load("runs/sst2").predict(["What a joy."])` returns `["positive"]`.
    """

    encoder: SentenceTransformerEncoder
    head: Head

    @classmethod
    def load(cls, folder: str | Path, options: EncoderOptions | None = None) -> Classifier:
        """Load a classifier from a folder.

        Args:
            folder: Folder of the classifier.
            options: Options of the encoder; None for the defaults.

        Raises:
            InputError: If the folder does not exist, if the encoder is missing, if the encoder has
                neither a head nor an axis, or if the head and the encoder have different numbers of
                dimensions.
        """
        path = expanded(folder)
        if not path.is_dir():
            raise InputError(
                f"classifier {str(folder)!r}: no such folder; name the folder of a classifier"
            )
        # The path is absolute, because `load_encoder` reads `minilm` as an encoder's short name.
        encoder = load_encoder(str(path.absolute()), options)
        # `load_encoder` returns this class for every folder.
        assert isinstance(encoder, SentenceTransformerEncoder)  # noqa: S101  for mypy
        if (axis := axis_of(encoder.model)) is not None:
            return cls(encoder, Head.of_axis(axis.classes))
        head = Head.read(path)
        if encoder.id.pooling_added:
            raise InputError(
                f"classifier {path}: modules.json is missing, so the folder is not a classifier "
                "or an incomplete copy; copy the whole folder"
            )
        size = encoder.model.get_embedding_dimension()
        if size != head.n_dimensions:
            raise InputError(
                f"classifier {path}: the head needs vectors of {head.n_dimensions} dimensions, but "
                f"the encoder has {size}; train the classifier again"
            )
        return cls(encoder, head)

    @property
    def classes(self) -> Sequence[str]:
        """Names of the classes, in the order of the columns of `predict_proba`."""
        return self.head.classes

    def predict_proba(self, texts: Sequence[Text], *, bar: Bar = no_bar) -> FloatArray:
        """Return the probability of each class for each text, (n, c); rows sum to 1."""
        return self.head.probabilities(self.vectors(texts, bar=bar))

    def predict(
        self, texts: Sequence[Text], *, with_proxies: bool = False, bar: Bar = no_bar
    ) -> list[str]:
        """Return the class of each text.

        Raises:
            InputError: If `with_proxies` is set and the head has no proxies.
        """
        scores = self.scores(texts, with_proxies=with_proxies, bar=bar)
        return [self.classes[column] for column in scores.argmax(axis=1)]

    def scores(
        self, texts: Sequence[Text], *, with_proxies: bool = False, bar: Bar = no_bar
    ) -> FloatArray:
        """Return the score of each class for each text, (n, c); see `Head.scores`.

        Raises:
            InputError: If `with_proxies` is set and the head has no proxies.
        """
        if with_proxies:
            self.head.check_proxies()  # fail before any text is encoded
        return self.head.scores(self.vectors(texts, bar=bar), with_proxies=with_proxies)

    def vectors(self, texts: Sequence[Text], *, bar: Bar = no_bar) -> FloatArray:
        """Return the vectors that the head needs, (n, d) for texts or (n, 3d) for pairs of texts.

        Raises:
            InputError: If the head needs pairs and some texts are not pairs.
        """
        if not self.head.of_pairs:
            return self._encode(texts, bar)
        pairs = [text for text in texts if not isinstance(text, str)]
        if len(pairs) < len(texts):
            raise InputError(
                "`pair`: this classifier needs pairs of texts, but some texts have no second text; "
                "add the second texts"
            )
        places, distinct = pd.factorize(np.array(pairs, dtype=object).ravel())
        firsts, seconds = self._encode(list(distinct), bar)[places.reshape(-1, 2).T]
        return pair_vectors(firsts, seconds)

    def _encode(self, texts: Sequence[Text], bar: Bar) -> FloatArray:
        if not texts:
            return np.empty((0, self.head.n_dimensions), dtype=np.float32)
        n_coordinates = self.encoder.id.axis
        if n_coordinates or not callable(self.encoder.model.tokenizer):  # a static encoder
            singles = [text for text in texts if isinstance(text, str)]
            if len(singles) < len(texts):
                raise InputError(
                    "`pair`: the classifier's encoder does not accept pairs of texts; omit the "
                    "second texts"
                )
            if not n_coordinates:
                return self.encoder.encode(singles)
            dial = at_strength(self.encoder, 1.0)
            with bar("classifying", len(set(singles))) as advance:
                embedded = Embedder.on(self.encoder).embed(dial, singles, advance)
            return embedded.sources(singles).vectors[:, :n_coordinates]
        rows = tokenize(self.encoder.model, texts, self.encoder.id.prompt or "")
        with bar("classifying", len(texts)) as advance:
            return encode_all(self.encoder.model, rows, advance)
