"""The folder of a training run: its files, its lock, and its checkpoints.

```
RUN/train.json              identity of the run, its results, and whether training has finished
RUN/history.csv, .svg       scores by epoch
RUN/checkpoints/            only while training; removed when the run has finished
RUN/.lock                   locked by the process that trains, and names that process
RUN/README.md, modules.json, model.safetensors, ...   the encoder, as sentence-transformers saves it
```

The encoder is written to a temporary folder and moved into place file by file, `modules.json` last.
So a folder with that file holds a complete encoder. A checkpoint is valid only if it holds the mark
that is written after all its other files.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from filelock import FileLock, Timeout

from polarity_bench.encoders.base import EncoderId
from polarity_bench.encoders.load import quiet
from polarity_bench.encoders.train_file import FORMAT, TRAIN_FILE, read_train_file
from polarity_bench.errors import InputError
from polarity_bench.files import check_writable, write_atomically
from polarity_bench.values import digest_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from polarity_bench.training.recipes.base import Recipe

_WHOLE = "whole"
_ENTRY = "modules.json"
_LOCK, _HOLDER = ".lock", ".holder"
_BEING_WRITTEN = "encoder-being-written"
_OWN = ("history.csv", "history.svg", "checkpoints", _BEING_WRITTEN)

State = Literal["new", "unfinished", "finished"]
"""State of a run in its folder."""


@dataclass(frozen=True)
class RunIdentity:
    """Everything that affects the resulting weights and scores. Its digest is the run's id.

    Attributes:
        recipe: How the encoder is trained.
        base: The encoder that training starts from.
        encoders: Other encoders that affect the result, such as the one whose neighbours define the
            examples, by role.
        task: Digest of the task file.
        inputs: Digest of the training data.
        judged: Digest of all queries and sources that the encoder is scored on, the task's own and
            the held-out ones, and of the protocol.
        processes: Number of processes that train together, each on its own batches.
        gathered: Whether the loss is computed over the joined batches of all processes.
    """

    recipe: Recipe
    base: EncoderId
    encoders: Mapping[str, EncoderId]
    task: str
    inputs: str
    judged: str
    processes: int = 1
    gathered: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the identity as JSON values."""
        return {
            "version": self.recipe.version,
            "recipe": self.recipe.to_dict("moves"),
            "base": self.base.to_dict(),
            "encoders": {role: encoder.to_dict() for role, encoder in self.encoders.items()},
            **{name: getattr(self, name) for name in ("task", "inputs", "judged")},
            **({"processes": self.processes} if self.processes > 1 else {}),
            **({"gathered": True} if self.gathered else {}),  # older versions never gathered
        }

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over the whole identity except the encoders' names."""
        encoders = {role: encoder.digest for role, encoder in self.encoders.items()}
        return digest_of(self.to_dict() | {"base": self.base.digest, "encoders": encoders})


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run.

    Attributes:
        base: The name of the base, or the absolute path of its folder, to load it by.
    """

    path: Path
    base: str

    @property
    def train_file(self) -> Path:
        """The file with the identity of the run."""
        return self.path / TRAIN_FILE

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints, which exists while training."""
        return self.path / "checkpoints"

    def titled(self, step: int) -> str:
        """Return the title of the progress bar of a training that resumes after a step."""
        after = f", resumed after step {step:,}" if step else ""
        return f"training {self.path.name}{after}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against all other processes until the end of the block.

        If the folder did not exist before and nothing was written to it, it is removed again.

        Raises:
            InputError: If another process holds the lock; says which, where and since when.
        """
        new = [place for place in (self.path, *self.path.parents) if not place.exists()]
        check_writable(self.path)
        holder = self.path / _HOLDER
        lock = FileLock(self.path / _LOCK, blocking=False)
        try:
            lock.acquire()
        except Timeout as error:
            held = holder.read_text(encoding="utf-8") if holder.is_file() else "another process"
            raise InputError(
                f"`output` {self.path}: {held} is training there; wait until it ends, or use "
                "another folder"
            ) from error
        try:
            since = datetime.now().astimezone().isoformat(" ", "seconds")
            description = f"process {os.getpid()} on {platform.node()}, since {since},"
            write_atomically(holder, description.encode())
            yield
        finally:
            with suppress(OSError):  # some systems cannot remove open files: they stay
                holder.unlink()
                (self.path / _LOCK).unlink()  # before the release: the next process makes its own
            lock.release()
            with suppress(OSError):  # folders that are not empty stay
                for place in new:
                    place.rmdir()

    def state(self, identity: RunIdentity, *, overwrite: bool = False) -> State:
        """Return the state of this run in the folder; a finished run to be overwritten is new.

        An unfinished run with the same identity is resumed, even with `overwrite`.

        Raises:
            InputError: If the folder holds the output of another run, or anything else.
        """
        stored = read_train_file(self.path)
        if stored is None:
            entries = [] if not self.path.is_dir() else sorted(p.name for p in self.path.iterdir())
            ours = (_LOCK, _HOLDER, f".{_HOLDER}.", f".{TRAIN_FILE}.")  # or partly written
            foreign = [name for name in entries if not name.startswith(ours)]
            if foreign:
                raise InputError(
                    f"`output` {self.path}: the folder is not empty ({', '.join(foreign[:3])}) and "
                    "holds no run; use a new folder"
                )
            return "new"
        is_same = stored["run"] == identity.digest
        if is_same and not stored["finished"]:
            return "unfinished"
        if overwrite:
            return "new"
        if is_same:
            return "finished"
        wanted = json.loads(json.dumps(identity.to_dict()))
        raise InputError(
            f"`output` {self.path} holds another run ({stored['run']}); it differs in "
            f"{'; '.join(differences(wanted, stored['spec'])[:6]) or 'its code'}. Use another "
            "folder, or set `overwrite`"
        )

    def claim(self, identity: RunIdentity, *, overwrite: bool = False) -> None:
        """Claim the folder for this run, if `state` allows it and the run has not finished."""
        stored = read_train_file(self.path)
        if self.state(identity, overwrite=overwrite) == "new" and stored is not None:
            self._write(stored | {"finished": False})
            self._clear(stored["files"])
        self.record(identity, finished=False)

    def record(
        self,
        identity: RunIdentity,
        *,
        finished: bool,
        files: Sequence[str] = (),
        outcome: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the run's identity and its results. A finished run's checkpoints are removed."""
        content = {
            "format": FORMAT,
            "run": identity.digest,
            "finished": finished,
            "base": self.base,
            "files": sorted(files),
            "spec": identity.to_dict(),
            "places": identity.recipe.below(Path.cwd()).to_dict("place"),
            **(outcome or {}),
        }
        self.path.mkdir(parents=True, exist_ok=True)
        self._write(content)
        if finished:
            shutil.rmtree(self.checkpoints, ignore_errors=True)

    def _write(self, content: Mapping[str, Any]) -> None:
        text = json.dumps(content, indent=2, allow_nan=False)
        write_atomically(self.train_file, (text + "\n").encode())

    def _clear(self, published: Sequence[str]) -> None:
        """Remove the files of a run, last of all `train.json`, which lists them."""
        for name in (*published, *_OWN, TRAIN_FILE):
            if Path(name).name != name or name in {"", ".", ".."}:
                raise InputError(f"{self.train_file}: {name!r} is not a file name; delete it")
            entry = self.path / name
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink(missing_ok=True)

    def mark_whole(self, step: int) -> None:
        """Mark the checkpoint of a step as complete."""
        write_atomically(self.checkpoint(step) / _WHOLE, b"")

    def checkpoint(self, step: int) -> Path:
        """Return the folder of a step's checkpoint."""
        return self.checkpoints / f"checkpoint-{step}"

    def whole_steps(self) -> list[int]:
        """Return the steps with complete checkpoints, ascending."""
        marks = self.checkpoints.glob(f"checkpoint-*/{_WHOLE}")
        return sorted(int(mark.parent.name.rpartition("-")[2]) for mark in marks)

    def keep_only(self, steps: Collection[int]) -> None:
        """Remove all checkpoints but complete ones of these steps; each mark is removed first."""
        kept = {self.checkpoint(step) for step in set(steps) & set(self.whole_steps())}
        for folder in self.checkpoints.glob("checkpoint-*"):
            if folder not in kept:
                (folder / _WHOLE).unlink(missing_ok=True)
                shutil.rmtree(folder)

    def publish(
        self, model: SentenceTransformer, beside: Mapping[str, bytes], *, prompt: str | None
    ) -> list[str]:
        """Save an encoder and additional files: write them aside, sync them, move them into place.

        The prompt of the training, which may be None, becomes the encoder's only prompt.

        Returns:
            The names of all files and folders written.
        """
        saved = self.path / _BEING_WRITTEN
        shutil.rmtree(saved, ignore_errors=True)
        save_encoder(model, saved, beside, prompt=prompt)
        entries = sorted(saved.iterdir(), key=lambda entry: entry.name == _ENTRY)
        names = [entry.name for entry in entries]
        self._write((read_train_file(self.path) or {}) | {"files": sorted(names)})
        for entry in entries:
            target = self.path / entry.name
            if target.is_dir():
                shutil.rmtree(target)
            entry.replace(target)
        saved.rmdir()
        return names


def save_encoder(
    model: SentenceTransformer, folder: Path, beside: Mapping[str, bytes], *, prompt: str | None
) -> None:
    """Save an encoder and additional files, all synced, and declare the prompt of its training.

    The prompt, which may be None, becomes the default and the prompt of both sides, for
    `encode_query` and `encode_document`. Other prompts that the base declares are dropped: mteb
    would choose one of them by its name, and the encoder was not trained with it.
    """
    model.prompts = {"query": prompt or "", "document": prompt or ""}
    model.default_prompt_name = "query" if prompt else None
    with quiet():
        model.save_pretrained(str(folder), create_model_card=False, safe_serialization=True)
    for name, content in beside.items():
        write_atomically(folder / name, content)
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())


def run_folder(model: str, output: str | Path) -> RunFolder:
    """Return the folder of a run that starts from this model.

    Raises:
        InputError: If the model is in that folder.
    """
    path = Path(output).expanduser().absolute()
    local = Path(model).expanduser()
    if not local.is_dir():
        return RunFolder(path, model)
    if path.resolve() in (local.resolve(), *local.resolve().parents):
        raise InputError(f"`output` {output}: it contains the model {model}; use another folder")
    return RunFolder(path, str(local.absolute()))


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the differences between two runs, such as `recipe.epochs: 5, there 3`."""
    listed = []
    for key in sorted({*ours, *theirs}):
        mine, other = ours.get(key), theirs.get(key)
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            listed += differences(mine, other, f"{prefix}{key}.")
        elif mine != other:
            listed.append(f"{prefix}{key}: {mine!r}, there {other!r}")
    return listed
