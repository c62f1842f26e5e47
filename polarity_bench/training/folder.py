"""A run's folder: what it holds, when it is another run's, which checkpoint is whole.

```
RUN/train.json              the whole spec, its digest, and whether training has finished
RUN/history.csv, .svg       scores by epoch
RUN/checkpoints/            while training; removed when it has finished
RUN/README.md, modules.json, model.safetensors, ...   the encoder, as sentence-transformers saves it
```

The encoder is written aside and moved into place file by file, `modules.json` last: a folder with
that file holds a whole encoder. A checkpoint counts only with the mark that is written after it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from polarity_bench.encoders.folder import quiet
from polarity_bench.errors import InputError
from polarity_bench.files import check_writable, write_atomically
from polarity_bench.training.spec import differences
from polarity_bench.types import EncoderId

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

FORMAT = 1
TRAIN_FILE = "train.json"
_WHOLE = "whole"
_ENTRY = "modules.json"
_BEING_WRITTEN = "encoder-being-written"
_OWN = ("history.csv", "history.svg", "checkpoints", _BEING_WRITTEN)


class Identity(Protocol):
    """What tells one run from another, such as `RunIdentity`; its values name a `base`."""

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over all that decides what comes out."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run.

    Attributes:
        path: Where it lies.
        base: What the base is loaded by: a name, or the absolute path of a folder.
    """

    path: Path
    base: str

    @property
    def train_file(self) -> Path:
        """What says which run this is."""
        return self.path / TRAIN_FILE

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints lie while training."""
        return self.path / "checkpoints"

    def check(self, identity: Identity, *, overwrite: bool = False) -> bool:
        """Return whether this very run has finished here, before any work is done.

        Raises:
            InputError: If another run's output, or anything else, is there.
        """
        check_writable(self.path)
        stored = read_train_file(self.path)
        if stored is None:
            foreign = sorted(p.name for p in self.path.iterdir()) if self.path.is_dir() else []
            if foreign:
                raise InputError(
                    f"--output {self.path}: the folder is not empty ({', '.join(foreign[:3])}) and "
                    "holds no run; name a new folder"
                )
            return False
        if stored["run"] == identity.digest:
            return bool(stored["finished"]) and not overwrite
        if not overwrite:
            wanted = json.loads(json.dumps(identity.to_dict()))
            raise InputError(
                f"--output {self.path} holds another run ({stored['run']}); it differs in "
                f"{'; '.join(differences(wanted, stored['spec'])[:6]) or 'its code'}. Name another "
                "folder, or say --overwrite"
            )
        return False

    def claim(self, identity: Identity, *, overwrite: bool = False) -> bool:
        """Make the folder this run's if `check` allows it; returns what that returns.

        An unfinished run of the same spec is gone on with, even when told to overwrite.
        """
        if self.check(identity, overwrite=overwrite):
            return True
        stored = read_train_file(self.path)
        if stored is not None and (stored["finished"] or stored["run"] != identity.digest):
            self._write(stored | {"finished": False})
            self._clear(stored["files"])
        self.record(identity, finished=False)
        return False

    def record(
        self,
        identity: Identity,
        *,
        finished: bool,
        files: Sequence[str] = (),
        outcome: Mapping[str, Any] | None = None,
    ) -> None:
        """Write what this run is, and what came of it; a finished one needs no checkpoints."""
        content = {
            "format": FORMAT,
            "run": identity.digest,
            "finished": finished,
            "base": self.base,
            "files": sorted(files),
            "spec": identity.to_dict(),
            **(outcome or {}),
        }
        self.path.mkdir(parents=True, exist_ok=True)
        self._write(content)
        if finished:
            shutil.rmtree(self.checkpoints, ignore_errors=True)

    def _write(self, content: Mapping[str, Any]) -> None:
        write_atomically(self.train_file, (json.dumps(content, indent=2) + "\n").encode())

    def _clear(self, published: Sequence[str]) -> None:
        """Remove what a run wrote and nothing else; the file that says so goes last."""
        for name in (*published, *_OWN, TRAIN_FILE):
            if Path(name).name != name or name in {"", ".", ".."}:
                raise InputError(f"{self.train_file}: {name!r} is no name of a file; delete it")
            entry = self.path / name
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink(missing_ok=True)

    def mark_whole(self, step: int) -> None:
        """Say that the checkpoint of a step has been written to its end."""
        write_atomically(self.checkpoint(step) / _WHOLE, b"")

    def checkpoint(self, step: int) -> Path:
        """The folder of the checkpoint of a step."""
        return self.checkpoints / f"checkpoint-{step}"

    def whole_steps(self) -> list[int]:
        """The steps whose checkpoints are whole, in order."""
        marks = self.checkpoints.glob(f"checkpoint-*/{_WHOLE}")
        return sorted(int(mark.parent.name.rpartition("-")[2]) for mark in marks)

    def keep_only(self, steps: Collection[int]) -> None:
        """Remove all checkpoints but the whole ones of these steps, each one's mark first."""
        kept = {self.checkpoint(step) for step in set(steps) & set(self.whole_steps())}
        for folder in self.checkpoints.glob("checkpoint-*"):
            if folder not in kept:
                (folder / _WHOLE).unlink(missing_ok=True)
                shutil.rmtree(folder)

    def publish(
        self, model: SentenceTransformer, beside: Mapping[str, bytes], *, prompt: str | None = None
    ) -> list[str]:
        """Save an encoder with files beside it: written aside, synced, then moved into place.

        Args:
            model: The encoder.
            beside: The content of other files by name, such as the card.
            prompt: The text that it was trained with before every text: its default from now on.

        Returns:
            The names of all that was written.
        """
        if prompt:
            model.prompts["polarity"] = prompt
            model.default_prompt_name = "polarity"
        saved = self.path / _BEING_WRITTEN
        if saved.exists():
            shutil.rmtree(saved)
        with quiet():
            model.save_pretrained(str(saved), create_model_card=False, safe_serialization=True)
        for name, content in beside.items():
            write_atomically(saved / name, content)
        for file in saved.rglob("*"):
            if file.is_file():
                with file.open("rb") as stream:
                    os.fsync(stream.fileno())
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


def run_folder(model: str, output: str | Path) -> RunFolder:
    """Return the folder of a run that begins with this model.

    Raises:
        InputError: If the model lies in it.
    """
    path = Path(output).expanduser().absolute()
    local = Path(model).expanduser()
    if not local.is_dir():
        return RunFolder(path, model)
    if path.resolve() in (local.resolve(), *local.resolve().parents):
        raise InputError(f"--output {output}: the model {model} lies there; name another folder")
    return RunFolder(path, str(local.absolute()))


def read_train_file(folder: Path) -> dict[str, Any] | None:
    """Read a run's `train.json`; None where there is none.

    Raises:
        InputError: If the file is none of ours.
    """
    file = folder / TRAIN_FILE
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: not readable as JSON: {error}") from error
    keys = {"format", "run", "finished", "base", "files", "spec"}
    if not (isinstance(content, dict) and keys <= set(content) and content["format"] == FORMAT):
        raise InputError(f"{file}: not written by polarity-bench in format {FORMAT}; move it away")
    return content


def base_of(model: str) -> tuple[str, EncoderId] | None:
    """Return what a run's base is loaded by, and which encoder it was; None if it is no run's.

    Raises:
        InputError: If the run has not finished.
    """
    folder = Path(model).expanduser()
    if not folder.is_dir():
        return None
    stored = read_train_file(folder)
    if stored is None:
        return None
    if not stored["finished"]:
        command = stored["spec"].get("method", "train")
        going_on = ", which goes on from the last checkpoint" if command == "train" else ""
        raise InputError(
            f"--model {model}: its training has not finished; run the same `polarity-bench "
            f"{command}` again{going_on}"
        )
    return stored["base"], EncoderId(**stored["spec"]["base"])
