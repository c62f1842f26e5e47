from .examples.source import generate_examples as generate_examples
from .examples.source import write_examples as write_examples
from .examples.spec import ExampleSpec as ExampleSpec
from .recipes.axis.recipe import Axis as Axis
from .recipes.margins.recipe import Margins as Margins
from .recipes.scl.recipe import Scl as Scl
from .recipes.setfit.recipe import SetFit as SetFit
from .recipes.triple_entropy import TripleEntropy as TripleEntropy
from .train import TrainingRun as TrainingRun

__all__: list[str]
