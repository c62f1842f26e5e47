from .classifiers.classifier import Classifier as Classifier
from .compare.paired_comparison import compare_encoders as compare_encoders
from .data.sources import DataAccess as DataAccess
from .embedding.embedder import Embedder as Embedder
from .embedding.store import EmbeddingStore as EmbeddingStore
from .encoders.base import Encoder as Encoder
from .encoders.base import EncoderId as EncoderId
from .encoders.load import EncoderOptions as EncoderOptions
from .encoders.load import load_encoder as load_encoder
from .errors import InputError as InputError
from .evaluation.one_task import evaluate as evaluate
from .evaluation.vector_scores import score as score
from .integrations.mteb_tasks import register as register
from .integrations.trainer_callback import PolarityEvaluator as PolarityEvaluator
from .results.frame import read_records as read_records
from .results.result_files import Result as Result
from .scores import ScoreKey as ScoreKey
from .tasks.catalogue import load_task as load_task
from .tasks.catalogue import load_tasks as load_tasks
from .tasks.scaffold import task_from as task_from
from .tasks.types.base import Settings as Settings
from .training.job import Job as Job
from .training.train import train as train

__version__: str
__all__: list[str]
