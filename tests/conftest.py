"""What all Python tests share: where the build is, and the tiny model, made once."""

import os
import subprocess
import sys

import pytest

from paths import BUILD, ROOT

# Before torch is loaded: its threads wait in a loop otherwise, and beside another busy process, as
# under `pytest -n`, everything takes five times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
sys.path.insert(0, str(BUILD / "python"))
sys.path.insert(0, str(ROOT / "examples"))
sys.path.insert(0, str(ROOT / "tests" / "format"))  # the reader written from the page


@pytest.fixture(scope="session")
def build():
    return BUILD


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Folder of the tiny Qwen3.5 hybrid, made by the example's own command line."""
    folder = tmp_path_factory.mktemp("models") / "qwen35"
    subprocess.run([sys.executable, ROOT / "examples" / "make_tiny_qwen35.py", folder],
                   check=True, capture_output=True)
    return folder
