"""Benchmark of sentence encoders: do they distinguish polarity without losing meaning?

- `evaluate("minilm", "sst2")` scores an encoder on a task.
- `score` scores your own vectors.
- `train(Job(...))` trains an encoder. Recipes and training examples are in
  `polarity_bench.training`.
- `register()` adds the tasks to mteb.
- `PolarityEvaluator` scores an encoder inside a trainer.

The public names are listed in `__init__.pyi` and imported on first use, so importing the package is
fast.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
