"""plumb.torch on a stand-in for PyTorch (stand_in/torch), where PyTorch is not installed and where it is."""
import os
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent


def test_checks_pass():
    path = [str(FOLDER / "stand_in"), str(FOLDER)] + os.environ.get("PYTHONPATH", "").split(os.pathsep)
    run = subprocess.run([sys.executable, str(FOLDER / "stand_in" / "checks.py")], capture_output=True, text=True,
                         env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))})
    assert run.returncode == 0 and " passed" in run.stdout, run.stdout + run.stderr
