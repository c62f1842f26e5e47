"""Training: recipes, examples, losses, training loops, and run folders.

`__init__.pyi` lists the public names. They are imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
