"""Convert the folds of `fewshot` in the format before x-few to results."""
import json, shlex, shutil, sys
from pathlib import Path
from dataclasses import replace

from polarity_bench.cross_validation.experiment import with_folds, CROSS_VALIDATION, VERSION
from polarity_bench.cross_validation.methods import flat, make_method, parameters_of, full_title
from polarity_bench.cross_validation.protocol import Protocol
from polarity_bench.encoders.base import EncoderId
from polarity_bench.results.packed_results import pack
from polarity_bench.results.result_files import Result, ResultKey, write_result
from polarity_bench.scores import ScoreKey
from polarity_bench.tasks.catalogue import load_tasks
from polarity_bench.files import folder_name


def command_of(specs):
    spec = specs[0]
    encoder, method, protocol = spec["encoder"], flat(spec["method"]), spec["protocol"]
    name = method["name"]
    default, parameters = Protocol(), sorted(parameters_of(name))
    of_method = flat(make_method(name, {}).to_dict("moves"))
    usual = {key: of_method[key] for key in parameters}
    usual |= {"rows": default.rows, "folds": default.folds, "seeds": "0"}
    options = {
        "task": ",".join(dict.fromkeys(each["task"] for each in specs)),
        "loss": name,
        "model": encoder["name"],
        **{key: encoder[key] for key in ("revision", "prompt", "max_tokens")},
        "rows": protocol["rows"] or "all",
        **{key: protocol[key] for key in ("folds", "sample")},
        "seeds": ",".join(map(str, protocol["seeds"])),
        **{key: method.get(key) for key in parameters},
    }
    options = {key: value for key, value in options.items() if value != usual.get(key)}
    words = [(f"--{key.rstrip('_').replace('_', '-')}", value) for key, value in options.items()]
    arguments = [str(word) for pair in words if pair[1] is not None for word in pair]
    return shlex.join(["polarity-bench", "fewshot", *arguments])


def lines(file):
    return [json.loads(x) for x in file.read_bytes().split(b"\n")[:-1]]


tasks = load_tasks()
for folder in map(Path, sys.argv[1:]):
    read = []
    for file in sorted(folder.glob("*/*.jsonl")):
        if ".seconds." not in file.name:
            spec, *folds = lines(file)
            read.append((spec, folds, lines(file.with_suffix(".seconds.jsonl")), file))
    groups = {}
    for spec, *_ in read:
        key = json.dumps([spec["protocol"], spec["method"], spec["title"], spec["encoder"]], sort_keys=True)
        groups.setdefault(key, []).append(spec)
    for spec, folds, seconds, file in read:
        assert spec["version"] == VERSION
        key = json.dumps([spec["protocol"], spec["method"], spec["title"], spec["encoder"]], sort_keys=True)
        recipe, encoder = flat(spec["method"]), EncoderId(**spec["encoder"])
        given = {n: v for n, v in recipe.items() if n in parameters_of(recipe["name"])}
        method = make_method(recipe["name"], given)
        assert flat(method.to_dict("moves")) == recipe, (flat(method.to_dict("moves")), recipe)
        assert full_title(method) == spec["title"]
        division = {n: v for n, v in spec["protocol"].items() if n != "cut"}
        protocol = division | {"version": VERSION, "method": recipe}
        p = Protocol(**{n: v for n, v in division.items() if n not in ("name", "seeds")}, seeds=tuple(division["seeds"]))
        assert p.spec() == division
        result_key = ResultKey(spec["data"], spec["data"], encoder, None, protocol)
        counts = json.loads((file.parent / f"classes-{spec['data']}.json").read_bytes())["counts"]
        task = tasks[spec["task"]]
        assert len(task.labels) == len(counts), (task.labels, counts)
        assert sum(counts) == spec["rows"]
        planned = Result(
            task=spec["task"], kind=CROSS_VALIDATION, result_name=folder_name(spec["task"]),
            version=VERSION, languages=task.languages,
            main_score=ScoreKey("accuracy" if division["rows"] is None else "macro_f1"),
            key=result_key, scores={}, counts=dict(zip(task.labels, counts)),
            training={"recipe": recipe, "title": spec["title"], "base": encoder.name},
            experiment=f"{recipe['name']}-{result_key.digest}",
            environment={"command": command_of(groups[key])},
        )
        flatfolds = []
        for fold, took in zip(folds, seconds, strict=True):
            values = {n: fold[n] for n in ("seed", "fold", "train", "test")}
            values |= {"empty_batches": fold.get("empty_batches", 0), "seconds": took["seconds"]}
            for way in ("dense", "proxies"):
                if way in fold:
                    part = None if way == "dense" else way
                    values |= {str(ScoreKey(n, part=part)): fold[way][n] for n in ("macro_f1", "accuracy")}
            flatfolds.append(values)
        result = replace(with_folds(planned, flatfolds), date=max(x["ended"] for x in seconds))
        write_result(result, folder / "results")
    for file in {f.parent for *_, f in read}:
        shutil.rmtree(file)
    if "--no-pack" not in sys.argv:
        pack(folder / "results")
