"""Puts the layers' folder on the path, for its cases."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "layers"))
