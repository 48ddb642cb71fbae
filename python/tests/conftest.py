"""What the tests share."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
READER = {"ioengine": "libaio", "direct": 1, "rw": "randread", "bs": "4k", "iodepth": 8, "number_ios": 500}


@pytest.fixture
def root() -> pathlib.Path:
    """The folder of the project."""
    return ROOT


@pytest.fixture
def reader() -> dict[str, object]:
    """The options of a job that does 500 reads."""
    return dict(READER)
