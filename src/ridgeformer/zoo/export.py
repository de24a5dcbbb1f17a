"""The zoo as a folder in the form of a Hugging Face repository: model files, an index of them, and a model card.

The card begins with metadata in YAML, whose fields Hugging Face defines: licence, library, and a ``model-index`` of
measured results. Values are written as JSON, which is YAML too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ridgeformer._version import __version__
from ridgeformer.core.model_file import read_model
from ridgeformer.core.storage import write_whole
from ridgeformer.zoo import SUFFIX, ZooEntry, zoo_folder

PAPER = "https://arxiv.org/abs/2402.14180"
_CARD = """---
{metadata}
---

# Linear transformers for noisy regression in context

{count} small transformers made only of linear attention. Given examples (x, y) of a noisy linear rule in its context, a
model predicts y at a new x. It is told neither the rule nor how noisy the examples are. The models reproduce and extend
Vladymyrov, von Oswald, Sandler, Ge, *Linear Transformers are Versatile In-Context Learners*, NeurIPS 2024,
[arXiv 2402.14180]({paper}).

* **Library**: [ridgeformer](https://github.com/ridgeformer/ridgeformer), version {version}.
* **Licence**: Apache-2.0, for the models and for the library.
* **Format**: safetensors. A file holds the parameters, and in its metadata what the model was trained with, what was
  measured, and a SHA-256 of all that. `config.json` is an index of all files.

## How to use them

```python
import numpy as np
import ridgeformer as rf

model = rf.load("{example}{suffix}")  # the path of a file of this folder
X, y = np.random.randn(1, {examples}, {dim}), np.random.randn(1, {examples})  # your examples
weights = rf.implicit_weights(model, X, y)  # (1, {dim}): the prediction at x is <weights, x>
```

A name says kind, layers and noise: `full-7-uniform-5` has 7 layers of the kind FULL and was trained with a noise level
σ drawn uniformly between 0 and 5. FULL layers have two whole matrices, DIAG layers four numbers that matter, and GD++
layers two. `categorical:1+3` means that σ is 1 or 3. Names that end in `-seed-1` and so on are further runs of the same
training.

## Training data

Random sequences, drawn afresh for every step; no data from people or places. Weights w ~ N(0, I), features x ~ N(0, I),
targets y = <w, x> + σ N(0, 1) with σ from the noise prior of the model. Features and examples of each model are in the
table (d and n).

## What was measured

The *adjusted loss* is one half of the squared error minus that of ridge regression that is told σ: zero is perfect.
It is a mean over fresh sequences from the distribution of the training, with its standard error (s.e.). *Largest* is
the largest loss of a single sequence.

{table}

## Limits

* A model is right only for problems like those of its training: as many features, about as many examples, features and
  weights of unit variance, Gaussian noise in its range. Scale your data first.
* Away from that a model can be far off, or give numbers that are not finite, and says nothing. With fewer layers and
  little noise that can happen, rarely, even on the training's own distribution: see *largest*.
* A model gives no error bars.
* They were made for research into what transformers learn, not for decisions about people.

## Citation

```bibtex
@inproceedings{{vladymyrov2024linear,
  title     = {{Linear Transformers are Versatile In-Context Learners}},
  author    = {{Vladymyrov, Max and von Oswald, Johannes and Sandler, Mark and Ge, Rong}},
  booktitle = {{Advances in Neural Information Processing Systems}},
  volume    = {{37}},
  year      = {{2024}}
}}
```
"""


def export_zoo(entries: Sequence[ZooEntry], folder: Path) -> int:
    """Write models of the zoo, ``config.json`` and a model card into a folder; the bytes written.

    Each file is written whole or not at all; other files of the folder stay as they are.
    """
    records, written = [_record(entry) for entry in entries], 0
    for entry in entries:
        written += _write(folder / f"{entry.name}{SUFFIX}", _data(entry))
    index = {"library_name": "ridgeformer", "library_version": __version__, "models": records}
    written += _write(folder / "config.json", (json.dumps(index, indent=2, ensure_ascii=False) + "\n").encode())
    return written + _write(folder / "README.md", model_card(records).encode())


def model_card(records: Sequence[dict[str, Any]]) -> str:
    """The card of these models, in Markdown."""
    rows = ["| file | d | n | parameters | adjusted loss | s.e. | largest | sequences |"]
    rows += ["|---|---:|---:|---:|---:|---:|---:|---:|"]
    for one in records:
        numbers = (_number(one["adjusted_loss"], 4), _number(one["standard_error"], 1), _number(one["largest_loss"], 3))
        cells = (one["file"], one["dim"], one["examples"], one["parameters"], *numbers, f"{one['sequences']:,}")
        rows.append(f"| {' | '.join(map(str, cells))} |")
    best = _best(records)
    example = min(best or records, key=lambda one: (one["noise"] != "uniform:5", one["layers"]))
    return _CARD.format(
        metadata=_metadata(best),
        count=len(records),
        paper=PAPER,
        version=__version__,
        example=example["name"],
        suffix=SUFFIX,
        examples=example["examples"],
        dim=example["dim"],
        table="\n".join(rows),
    )


def _data(entry: ZooEntry) -> bytes:
    return (zoo_folder() / f"{entry.name}{SUFFIX}").read_bytes()


def _record(entry: ZooEntry) -> dict[str, Any]:
    """What config.json and the card say of one model."""
    model, training, measured = read_model(_data(entry), entry.name), entry.training, entry.evaluation
    return {
        "name": entry.name,
        "file": f"{entry.name}{SUFFIX}",
        "sha256": entry.sha256,
        "kind": model.kind,
        "layers": model.layers,
        "heads": model.heads,
        "registers": model.registers,
        "dim": model.dim,
        "examples": training.get("examples", training.get("context")),  # files of version 0.1.0 have the former name
        "noise": training["noise"],
        "parameters": model.size,
        "adjusted_loss": measured["adjusted_loss"],
        "standard_error": measured["standard_error"],
        "largest_loss": measured["maximum"],
        "sequences": measured["sequences"],
    }


def _best(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each noise prior, the model with the lowest loss; first runs only, so that no seed is picked for its luck."""
    finite = [one for one in records if one["adjusted_loss"] is not None and "-seed-" not in one["name"]]
    by_noise: dict[str, dict[str, Any]] = {}
    for one in sorted(finite, key=lambda one: float(one["adjusted_loss"])):
        by_noise.setdefault(one["noise"], one)
    return [by_noise[noise] for noise in sorted(by_noise)]


def _metadata(best: Sequence[dict[str, Any]]) -> str:
    """The head of the card: a line of YAML for each field, its value as JSON."""
    results = [
        {
            "task": {"type": "tabular-regression", "name": "noisy linear regression in context"},
            "dataset": {
                "type": "synthetic",
                "name": f"σ ~ {one['noise']}, d = {one['dim']}, n = {one['examples']}, fresh sequences",
            },
            "metrics": [{"type": "adjusted-loss", "name": one["name"], "value": one["adjusted_loss"]}],
        }
        for one in best
    ]
    fields = {
        "license": "apache-2.0",
        "library_name": "ridgeformer",
        "pipeline_tag": "tabular-regression",
        "tags": ["in-context-learning", "linear-attention", "linear-regression", "ridge-regression", "safetensors"],
        "model-index": [{"name": "ridgeformer zoo", "results": results}],
    }
    return "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items())


def _number(value: float | None, digits: int) -> str:
    return "not finite" if value is None else f"{value:.{digits}g}"


def _write(path: Path, data: bytes) -> int:
    write_whole(path, data)
    return len(data)
