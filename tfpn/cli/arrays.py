"""The .npz files that the commands read."""

import zipfile

import numpy as np

from tfpn.cli.errors import CommandError

_STATICS = ("statics", "statics_variance")


def read_arrays(path):
    """Reads the arrays of an .npz file without unpickling anything."""
    try:
        file = np.load(path, allow_pickle=False)
        if isinstance(file, np.ndarray):
            raise ValueError("it holds a single array")
        with file:
            return {key: file[key] for key in file.files}
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CommandError(
            f"{path} is not an .npz file of plain arrays ({error}); write it with numpy.savez, "
            "without arrays of Python objects"
        ) from error


def read_observations(path, arrays):
    """Makes observations from the arrays of a file."""
    import tfpn

    needed, known = {"points", "values"}, {"points", "values", "variance", *_STATICS}
    if not needed <= set(arrays) <= known:
        raise CommandError(
            f"{path} holds the arrays {sorted(arrays)}; it needs points and values, and may hold "
            "variance, and statics for a model that takes them"
        )
    try:
        return tfpn.observations(**{k: v for k, v in arrays.items() if k not in _STATICS})
    except (ValueError, TypeError) as error:
        raise CommandError(f"{path}: {error}") from error


def read_statics(path, arrays, model):
    """The statics among the arrays of a file, for a model that takes them; NaN means unknown."""
    if ("statics" in model.input) != ("statics" in arrays):
        found, wanted = (
            ("no statics", "takes") if "statics" in model.input else ("statics", "has no")
        )
        raise CommandError(f"{path} holds {found}, but this model {wanted} statics")
    if "statics" not in arrays:
        return {}
    expected = len(arrays["points"]), model.input["statics"].shape[-1]
    statics = arrays["statics"]
    variance = arrays.get("statics_variance", np.zeros(np.shape(statics)))
    if (
        statics.shape != expected
        or np.shape(variance) != expected
        or statics.dtype.kind not in "biuf"
    ):
        raise CommandError(
            f"{path}: statics has the shape {list(statics.shape)} and the dtype {statics.dtype}; "
            f"give numbers of the shape {list(expected)}, and statics_variance, if any, of the same"
        )
    unknown = np.isnan(statics) | np.isinf(variance)
    return {
        "statics": np.where(unknown, 0.0, statics).astype(np.float32),
        "statics_variance": np.where(unknown, np.inf, 0.0).astype(np.float32),
    }


def check_range(path, observed, model):
    """Refuses observed points and values that the model's floating-point type cannot hold."""
    seen = np.isfinite(observed["variance"])
    for key, mask in (("points", seen.any(-1, keepdims=True)), ("values", seen)):
        dtype = model.input[key].dtype
        largest = np.max(np.abs(observed[key]), where=mask, initial=0.0)
        if largest > np.finfo(dtype).max:
            raise CommandError(
                f"{path}: {key}: found a magnitude of {largest:.3g}, too large for the model's "
                f"{dtype}; give {key} in the units of the training data"
            )
