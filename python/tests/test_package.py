"""The package: its types, its examples, its notebook."""

import doctest
import importlib.util
import subprocess
import sys

import pytest

import elevon


def test_types(root):
    pytest.importorskip("mypy")
    words = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml"]
    out = subprocess.run(words, cwd=root / "python", capture_output=True, text=True)
    assert out.returncode == 0, out.stdout + out.stderr


def test_examples():
    assert doctest.testmod(elevon).failed == 0


def test_every_public_name_is_described():
    for name in elevon.__all__:
        assert name.startswith("__") or name in {"JobInput"} or getattr(elevon, name).__doc__, name


def test_the_notebook_runs(root):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    assert importlib.util.find_spec("matplotlib")
    book = nbformat.read(root / "python" / "notebooks" / "aligned-bio.ipynb", as_version=4)
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs), "the plot"
