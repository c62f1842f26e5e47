"""Programs and modules outside the package, which are imported by their file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest


def load_program(file: Path) -> Any:
    """Import a Python file and return the module, which stays out of `sys.modules`."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, file.stem, module)  # a dataclass looks itself up there
        spec.loader.exec_module(module)
    return module
