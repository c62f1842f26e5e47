"""Run folders: the files, the lock and the checkpoints of a training run.

```
RUN/train.json              identity of the run, its results, and whether training has finished
RUN/history.csv, .svg       scores by epoch
RUN/checkpoints/            only during training; removed when the run has finished
RUN/.lock                   lock of the process that trains
RUN/.holder                 description of the process that trains
RUN/README.md, modules.json, model.safetensors, ...   the encoder, as sentence-transformers saves it
```

The encoder is written to a temporary folder and then moved file by file, `modules.json` last. A
folder with `modules.json` therefore contains a complete encoder. The file `whole` marks a complete
checkpoint and is written after all its other files, with the hash of each.
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
from polarity_bench.encoders.sentence_transformer_encoder import SIDE_NAMES, set_prompt
from polarity_bench.encoders.train_file import FORMAT, TRAIN_FILE, read_train_file
from polarity_bench.errors import InputError
from polarity_bench.files import (
    check_writable,
    expanded,
    file_hash,
    json_bytes,
    read_json,
    with_checksum,
    write_atomically,
)
from polarity_bench.training.parameters import Parameters
from polarity_bench.values import digest_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


_WHOLE = "whole"
_ENTRY = "modules.json"
_LOCK, _HOLDER = ".lock", ".holder"
_BEING_WRITTEN = "encoder-being-written"
_OWN = ("history.csv", "history.svg", "checkpoints", _BEING_WRITTEN)

State = Literal["new", "unfinished", "finished"]
"""State of a run in its folder."""


@dataclass(frozen=True)
class RunIdentity:
    """Identity of a run: everything that affects its weights and scores.

    Attributes:
        recipe: How the encoder is trained.
        base: The encoder that training starts from.
        encoders: Other encoders that affect the result, by role; for example the encoder that finds
            the neighbours for the examples.
        task: Digest of the task file.
        inputs: Digest of the training data.
        judged: Digest of the protocol and of all queries and sources that the encoder is scored on,
            including the held-out queries.
        processes: Number of processes that train together, each on its own batches.
        gathered: Whether the loss is computed on the joined batches of all processes.
    """

    recipe: Parameters
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
        """Digest of the identity without the encoders' names; it is the run's id."""
        encoders = {role: encoder.digest for role, encoder in self.encoders.items()}
        return digest_of(self.to_dict() | {"base": self.base.digest, "encoders": encoders})


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run.

    Attributes:
        path: The folder.
        base: Name of the base, or the absolute path of its folder.
    """

    path: Path
    base: str

    @property
    def train_file(self) -> Path:
        """The file with the identity of the run."""
        return self.path / TRAIN_FILE

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints; it exists only during training."""
        return self.path / "checkpoints"

    def titled(self, step: int) -> str:
        """Return the title of the progress bar, with the step after which training resumes."""
        after = f", resumed after step {step:,}" if step else ""
        return f"training {self.path.name}{after}"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other processes until the end of the block.

        A folder that is created for the lock is removed again if it stays empty.

        Raises:
            InputError: If another process has locked the folder. The message names the process, its
                machine and the time.
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
                f"`output` {self.path}: {held} is training in this folder; wait until it ends, or "
                "use another folder"
            ) from error
        try:
            since = datetime.now().astimezone().isoformat(" ", "seconds")
            description = f"process {os.getpid()} on {platform.node()}, since {since},"
            write_atomically(holder, description.encode())
            yield
        finally:
            with suppress(OSError):  # on systems that cannot remove open files, the files stay
                holder.unlink()
                # If removed after the release, the lock could belong to another process already.
                (self.path / _LOCK).unlink()
            lock.release()
            with suppress(OSError):  # rmdir fails for folders that are not empty
                for place in new:
                    place.rmdir()

    def state(self, identity: RunIdentity, *, overwrite: bool = False) -> State:
        """Return whether this run is new, unfinished or finished in the folder.

        With `overwrite`, a finished run and other runs count as new. An unfinished run with the
        same identity counts as unfinished even then, and is resumed.

        Raises:
            InputError: If the folder contains files that are not from a run, or another run without
                `overwrite`.
        """
        stored = read_train_file(self.path)
        if stored is None:
            entries = [] if not self.path.is_dir() else sorted(p.name for p in self.path.iterdir())
            # The names with an extra dot are temporary files of interrupted writes.
            ours = (_LOCK, _HOLDER, f".{_HOLDER}.", f".{TRAIN_FILE}.")
            foreign = [name for name in entries if not name.startswith(ours)]
            if foreign:
                raise InputError(
                    f"`output` {self.path}: the folder is not empty ({', '.join(foreign[:3])}) and "
                    "contains no run; use a new folder"
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
            f"`output` {self.path}: the folder contains another run ({stored['run']}), which "
            f"differs in {'; '.join(differences(wanted, stored['spec'])[:6]) or 'its code'}. Use "
            "another folder, or set `overwrite`"
        )

    def claim(self, identity: RunIdentity, *, overwrite: bool = False) -> None:
        """Record this run in the folder as unfinished, and delete the files of a replaced run.

        Raises:
            InputError: If `state` does not allow this run in the folder.
        """
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
        """Write `train.json`.

        Args:
            identity: Identity of the run.
            finished: Whether training has finished.
            files: Names of the published files.
            outcome: Results of the run, as JSON values.
        """
        content = {
            "format": FORMAT,
            "run": identity.digest,
            "finished": finished,
            "base": self.base,
            "files": sorted(files),
            "spec": identity.to_dict(),
            **(outcome or {}),
        }
        self._write(content)

    def _write(self, content: Mapping[str, Any]) -> None:
        text = json.dumps(with_checksum(content), indent=2, allow_nan=False)
        write_atomically(self.train_file, (text + "\n").encode())

    def _clear(self, published: Sequence[str]) -> None:
        """Remove the files of a run; `train.json`, which lists them, is removed last."""
        for name in (*published, *_OWN, TRAIN_FILE):
            if Path(name).name != name or name in {"", ".", ".."}:
                raise InputError(
                    f"{self.train_file}: `files` must be file names, got {name!r}; delete it from "
                    "the list"
                )
            entry = self.path / name
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink(missing_ok=True)

    def mark_whole(self, step: int) -> None:
        """Mark the checkpoint of a step as complete."""
        write_atomically(self.checkpoint(step) / _WHOLE, json_bytes(self._hashes(step)))

    def _hashes(self, step: int) -> dict[str, str]:
        """Return the hash of each file of a checkpoint, by its path in the checkpoint."""
        folder, hashes = self.checkpoint(step), {}
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path != folder / _WHOLE:
                with path.open("rb") as file:
                    hashes[path.relative_to(folder).as_posix()] = file_hash(file, "sha256")
        return hashes

    def whole_checkpoint(self, step: int) -> Path:
        """Return the folder of a complete checkpoint, after a check of its files.

        Raises:
            InputError: If a file is damaged or missing.
        """
        folder, found = self.checkpoint(step), self._hashes(step)
        wanted = read_json(folder / _WHOLE)
        if found != wanted:
            raise InputError(
                f"{folder}: the checkpoint is damaged; delete this folder, then run the same "
                "command again to continue from an earlier checkpoint or from the beginning"
            )
        return folder

    def checkpoint(self, step: int) -> Path:
        """Return the folder of a step's checkpoint."""
        return self.checkpoints / f"checkpoint-{step}"

    def whole_steps(self) -> list[int]:
        """Return the steps that have complete checkpoints, ascending."""
        marks = self.checkpoints.glob(f"checkpoint-*/{_WHOLE}")
        return sorted(int(mark.parent.name.rpartition("-")[2]) for mark in marks)

    def remove_checkpoints(self) -> None:
        """Remove all checkpoints; those that cannot be removed do no harm to a finished run."""
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def keep_only(self, steps: Collection[int]) -> None:
        """Remove all checkpoints except the complete ones of these steps.

        The mark of a checkpoint is removed first, so a partly removed checkpoint is not used.
        """
        kept = {self.checkpoint(step) for step in set(steps) & set(self.whole_steps())}
        for folder in self.checkpoints.glob("checkpoint-*"):
            if folder not in kept:
                (folder / _WHOLE).unlink(missing_ok=True)
                shutil.rmtree(folder)

    def publish(
        self, model: SentenceTransformer, beside: Mapping[str, bytes], *, prompt: str | None
    ) -> list[str]:
        """Publish an encoder and additional files in the run folder.

        All files are written to a temporary folder, synced and then moved.

        Args:
            model: The encoder.
            beside: Contents of the additional files, by name.
            prompt: Prompt used in training, if any; the encoder keeps no other prompt.

        Returns:
            The names of all published files and folders.
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


def save_modules(model: SentenceTransformer, folder: Path) -> None:
    """Save the modules of an encoder, without the library's model card."""
    try:
        model.save_pretrained(str(folder), create_model_card=False, safe_serialization=True)
    except Exception as error:
        if type(error) is Exception:  # tokenizers raises no OSError if the disk is full
            raise OSError(f"{folder}: {error}") from error
        raise


def save_encoder(
    model: SentenceTransformer, folder: Path, beside: Mapping[str, bytes], *, prompt: str | None
) -> None:
    """Save an encoder with its training prompt and additional files, and sync all files.

    The prompt may be None. Other prompts of the base are dropped, because the encoder was not
    trained with them.
    """
    set_prompt(model, dict.fromkeys(SIDE_NAMES, prompt or ""))
    with quiet():
        save_modules(model, folder)
    for name, content in beside.items():
        write_atomically(folder / name, content)
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())


def run_folder(model: str, output: str | Path) -> RunFolder:
    """Return the run folder at `output` for a run with this base.

    Raises:
        InputError: If `output` is the folder of the base or contains it.
    """
    path = expanded(output).absolute()
    check_apart(path, "model", model)
    local = expanded(model)
    return RunFolder(path, str(local.absolute()) if local.is_dir() else model)


def check_apart(output: Path, role: str, model: str) -> None:
    """Check that a run does not replace an encoder that it reads.

    Raises:
        InputError: If `output` is the folder of the encoder or contains it.
    """
    folder = expanded(model).resolve()
    if folder.is_dir() and output.resolve() in (folder, *folder.parents):
        raise InputError(
            f"`output` {output}: the folder contains the {role} {model}; use another folder"
        )


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the differences between two nested mappings, such as `epochs: expected 5, got 3`."""
    listed = []
    for key in sorted({*ours, *theirs}):
        mine, other = ours.get(key), theirs.get(key)
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            listed += differences(mine, other, f"{prefix}{key}.")
        elif mine != other:
            listed.append(f"{prefix}{key}: expected {mine!r}, got {other!r}")
    return listed
