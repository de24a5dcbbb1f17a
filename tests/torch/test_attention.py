"""Attentions are in a registry that anyone can extend: the example of docs/extending.md runs and keeps the contract."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ridgeformer.core.registry import Look
from support import refusal

torch = pytest.importorskip("torch", reason="needs torch: make test-torch installs it")
rt: Any = pytest.importorskip("ridgeformer.torch")

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page's code for torch defines; the registry is put back afterwards."""
    monkeypatch.setattr(rt.ATTENTIONS, "_entries", dict(rt.ATTENTIONS))
    monkeypatch.chdir(tmp_path)
    defined = vars(ModuleType("extending"))
    blocks = re.findall(r"^```python torch\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1
    exec(compile(blocks[0], str(PAGE), "exec"), defined)  # our own page, not a file from elsewhere
    return defined


def test_example_of_the_page_runs_and_its_attention_is_found_everywhere(names: dict[str, Any]) -> None:
    assert "relu" in rt.ATTENTIONS
    assert rt.load("relu.safetensors").architecture.kind == "relu"
    assert names["result"].steps == 100
    attend = rt.ATTENTIONS["relu"].attend
    queries, keys, values = torch.randn(3, 2, 2, 9, 4, generator=torch.Generator().manual_seed(0))
    everything = torch.full((9,), 9)
    assert torch.allclose(attend(queries, keys, values, everything), attend(queries, keys, values, None))


def test_name_that_is_taken_is_refused() -> None:
    with refusal("already"):
        rt.ATTENTIONS.add(rt.Attention("softmax", "mine", lambda *arguments: None, Look("#000000")))
