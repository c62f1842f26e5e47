from __future__ import annotations

from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata


class ContrastOpinionRetrieval(AbsTaskRetrieval):
    metadata = TaskMetadata(
        name="ContrastOpinionRetrieval",
        description=(
            "Retrieve sentences that express the same opinion, positive or negative, about the "
            "same topic as the query. Corpus and queries consist of minimal pairs: for every "
            "relevant sentence, the corpus also contains an almost identical sentence of the "
            "opposite opinion, which is not relevant. A model that knows the topic but not the "
            "polarity of a sentence scores about 0.5. There are 14 everyday topics and six ways "
            "to reverse an opinion, such as negation, antonyms, concession and sarcasm."
        ),
        reference="https://github.com/polarity-bench/polarity-bench",
        dataset={
            # The repository does not exist yet. Its first commit is the revision.
            "path": "polarity-bench/ContrastOpinionRetrieval",
            "revision": "0000000000000000000000000000000000000000",
        },
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
        date=("2026-11-01", "2026-11-30"),
        domains=["Reviews", "Constructed", "Written"],
        task_subtypes=["Sentiment/Hate speech"],
        license="apache-2.0",
        annotations_creators="derived",
        dialect=["en-Latn-GB"],
        sample_creation="created",
        prompt={
            "query": (
                "Given a sentence that expresses an opinion, retrieve sentences that express "
                "the same opinion, positive or negative, about the same topic"
            )
        },
        bibtex_citation=r"""
@software{polaritybench,
  author = {{The polarity-bench developers}},
  license = {Apache-2.0},
  title = {polarity-bench},
  url = {https://github.com/polarity-bench/polarity-bench},
  version = {0.1.0},
  year = {2026},
}
""",
        adapted_from=None,
        is_public=True,
        contributed_by="polarity-bench",
        superseded_by=None,
        is_beta=False,
    )
