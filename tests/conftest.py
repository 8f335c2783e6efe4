"""Puts this folder on the path, for the modules that tests in several folders share."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
