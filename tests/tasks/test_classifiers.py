"""The classifiers against the toolkit's loop and plain scikit-learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.utils.parallel import delayed
from standins.labelled_vectors import blobs
from torch import nn

from polarity_bench.tasks.senteval.classifiers import (
    ClassifierFamily,
    SklearnLogistic,
    TorchClassifier,
    single_threaded,
    single_threaded_processes,
)
from polarity_bench.tasks.senteval.toolkit_training import Schedule, batches, train_linear
from polarity_bench.values import FloatArray, IntArray

TORCH = TorchClassifier(batch_size=32, tenacity=1, epoch_size=2, max_epochs=30)


def slow_torch(
    parameters: TorchClassifier,
    train: tuple[FloatArray, IntArray],
    dev: tuple[FloatArray, IntArray] | None,
    weight_decay: float,
    n_classes: int,
) -> tuple[nn.Sequential, int]:
    """The toolkit's loop from its description, over the global generators; counts its epochs."""
    np.random.seed(parameters.seed)  # noqa: NPY002 - what is to be equalled
    torch.manual_seed(parameters.seed)
    d, h = train[0].shape[1], parameters.n_hidden
    if h:
        dropout = nn.Dropout(parameters.dropout)
        model = nn.Sequential(nn.Linear(d, h), dropout, nn.Sigmoid(), nn.Linear(h, n_classes))
    else:
        model = nn.Sequential(nn.Linear(d, n_classes))
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.param_groups[0]["weight_decay"] = weight_decay
    if dev is None:
        order = np.random.permutation(len(train[1]))  # noqa: NPY002
        cut = int(0.05 * len(order))
        dev = train[0][order[:cut]], train[1][order[:cut]]
        train = train[0][order[cut:]], train[1][order[cut:]]
    features, labels = torch.from_numpy(train[0]), torch.from_numpy(train[1])
    best = -1.0
    kept = {key: value.clone() for key, value in model.state_dict().items()}
    n_epochs = stop_count = 0
    stop = False
    while not stop and n_epochs <= parameters.max_epochs:
        for _ in range(parameters.epoch_size):
            model.train()
            order = np.random.permutation(len(labels))  # noqa: NPY002
            for start in range(0, len(labels), parameters.batch_size):
                index = torch.from_numpy(order[start : start + parameters.batch_size])
                loss = nn.CrossEntropyLoss()(model(features[index]), labels[index])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        n_epochs += parameters.epoch_size
        model.eval()
        with torch.no_grad():
            predicted = model(torch.from_numpy(dev[0])).numpy().argmax(1)
        accuracy = float((predicted == dev[1]).mean())
        if accuracy > best:
            best = accuracy
            kept = {key: value.clone() for key, value in model.state_dict().items()}
        else:
            if stop_count >= parameters.tenacity:
                stop = True
            stop_count += 1
    model.load_state_dict(kept)
    model.eval()
    return model, n_epochs


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("with_dev", [True, False])
@pytest.mark.parametrize("d", [12, 11], ids=["stacked", "one by one"])
@pytest.mark.parametrize(
    "parameters",
    [
        TORCH,
        replace(TORCH, tenacity=0, epoch_size=1, seed=7),
        replace(TORCH, batch_size=1000, tenacity=30),
        replace(TORCH, n_hidden=8),
        replace(TORCH, n_hidden=8, dropout=0.5),
    ],
    ids=["linear", "impatient", "one batch", "hidden", "dropout"],
)
def test_the_torch_classifier_is_the_toolkits_loop_bit_for_bit(
    parameters: TorchClassifier, with_dev: bool, n_classes: int, d: int
) -> None:
    train, test = blobs(203, n_classes, seed=1, d=d), blobs(400, n_classes, seed=2, d=d)
    dev = blobs(60, n_classes, seed=3, d=d) if with_dev else None

    with single_threaded():
        fitted = parameters.fit(train, parameters.grid, n_classes=n_classes, dev=dev)
        for predict, weight_decay in zip(fitted, parameters.grid, strict=True):
            slow, _ = slow_torch(parameters, train, dev, weight_decay, n_classes)
            with torch.no_grad():
                wanted = slow(torch.from_numpy(test[0])).numpy().argmax(1)
            assert predict(test[0]).tolist() == wanted.tolist()


@pytest.mark.parametrize("n", [200, 193, 207], ids=["whole batches", "a last batch of one", "15"])
@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("d", [8, 36, 100, 384])
def test_stacked_layers_end_with_the_bits_of_each_alone(n: int, n_classes: int, d: int) -> None:
    parameters = TorchClassifier(batch_size=32, tenacity=2, epoch_size=3, max_epochs=60)
    train, dev = blobs(n, n_classes, seed=1, d=d), blobs(65, n_classes, seed=2, d=d)
    decays = (*parameters.grid, 0.0)
    epochs = []
    with single_threaded():
        torch.manual_seed(parameters.seed)
        layers = train_linear(
            (torch.from_numpy(train[0]), torch.from_numpy(train[1])),
            (torch.from_numpy(dev[0]), torch.from_numpy(dev[1])),
            nn.Linear(d, n_classes),
            decays,
            Schedule(batch_size=32, epoch_size=3, tenacity=2, max_epochs=60),
            np.random.RandomState(parameters.seed),
        )
        for layer, weight_decay in zip(layers, decays, strict=True):
            slow, n_epochs = slow_torch(parameters, train, dev, weight_decay, n_classes)
            wanted = slow.state_dict()
            assert torch.equal(layer.weight, wanted["0.weight"])
            assert torch.equal(layer.bias, wanted["0.bias"])
            epochs.append(n_epochs)
    assert min(epochs) < 60, "no layer stopped early"


def test_early_stopping_counts_blocks_and_never_forgets_them() -> None:
    """A dev set that nothing can improve on: one best block, then tenacity + 1 others."""
    train = blobs(64, 2, seed=1)
    dev = (np.zeros((4, 12), dtype=np.float32), np.array([0, 1, 0, 1]))
    for tenacity in (0, 2):
        parameters = replace(TORCH, tenacity=tenacity, epoch_size=3, max_epochs=100)
        _, n_epochs = slow_torch(parameters, train, dev, 0.0, 2)
        assert n_epochs == 3 * (1 + tenacity + 1)


@pytest.mark.parametrize("name", ["sgd,lr=0.5", "rmsprop", "adagrad,lr=0.1,lr_decay=0.05"])
def test_the_other_optimizers_learn(name: str) -> None:
    features, labels = blobs(300, 2, seed=1)
    classifier = replace(TORCH, optimizer=name)
    (predict,) = classifier.fit((features, labels), [1e-5], n_classes=2)
    assert (predict(features) == labels).mean() > 0.8


def test_an_unknown_optimizer_is_refused() -> None:
    classifier = replace(TORCH, optimizer="adma")
    with pytest.raises(ValueError, match=r"unknown optimizer 'adma'; known: adadelta, .*, sgd"):
        classifier.fit(blobs(40, 2, seed=1), [1e-5], n_classes=2)


@pytest.mark.parametrize("c", [0.25, 32.0])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_sklearn_family_is_plain_scikit_learn(n_classes: int, c: float) -> None:
    train, test = blobs(200, n_classes, seed=1), blobs(300, n_classes, seed=2)
    with single_threaded():
        (predict,) = SklearnLogistic().fit(train, [c], n_classes=n_classes)
        plain = LogisticRegression(C=c, random_state=1111).fit(*train)
        assert predict(test[0]).tolist() == plain.predict(test[0]).tolist()


@pytest.mark.parametrize("classifier", [SklearnLogistic(), TORCH, replace(TORCH, dropout=0.5)])
def test_a_fit_leaves_the_global_random_state_alone(classifier: ClassifierFamily) -> None:
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    wanted = np.random.random(), torch.rand(1).item()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    classifier.fit(blobs(80, 2, seed=1), [1e-2], n_classes=2)
    assert (np.random.random(), torch.rand(1).item()) == wanted  # noqa: NPY002


def test_features_that_may_not_be_written_to_are_read() -> None:
    features, labels = blobs(80, 2, seed=1)
    features.flags.writeable = labels.flags.writeable = False
    for classifier in (SklearnLogistic(), TORCH):
        (predict,) = classifier.fit((features, labels), [1e-2], n_classes=2)
        assert len(predict(features)) == 80


def test_the_grids_are_the_toolkits() -> None:
    assert SklearnLogistic().grid == (0.25, 0.5, 1, 2, 4, 8)
    assert SklearnLogistic().wide_grid == (0.5, 1, 2, 4, 8, 16, 32)
    assert TORCH.grid == TORCH.wide_grid == (1e-5, 1e-4, 1e-3, 1e-2)


def test_batches_cover_every_row_once() -> None:
    rows = list(range(10))
    assert [rows[part] for part in batches(10, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches(0, 4) == []


def test_counts_of_words_are_fitted_as_dense_numbers_are() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(2, size=300)
    counts = (generator.random((300, 400)) < 0.02).astype(np.float32)
    counts[:, 0] += labels * (generator.random(300) < 0.7)
    (packed,) = SklearnLogistic().fit((counts, labels), [1.0], n_classes=2)
    dense = LogisticRegression(C=1.0, random_state=1111).fit(counts, labels)
    np.testing.assert_array_equal(packed(counts), dense.predict(counts))
    assert (packed(counts) == labels).mean() > 0.8


def test_single_threaded_holds_torch_to_one_thread_whatever_was_set() -> None:
    before = torch.get_num_threads()
    for wanted in (3, before):
        torch.set_num_threads(wanted)
        with single_threaded():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == wanted


def test_single_threaded_processes_have_one_thread_before_they_are_told() -> None:
    def threads_of_torch() -> int:  # within, so that a process need not import this module
        import torch

        return int(torch.get_num_threads())

    found = single_threaded_processes(2)(delayed(threads_of_torch)() for _ in range(4))
    assert found == [1] * 4
