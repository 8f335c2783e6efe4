"""The arguments of the command line. Nothing here imports TensorFlow."""

import argparse

from tfpn import recipes
from tfpn._version import __version__
from tfpn.cli import descriptions

# Short flags of `train` and `tune`, and the recipe's values that they set.
SHORT_FLAGS = {
    "epochs": ("training.epochs", "N", "epochs to train"),
    "batch_size": ("training.batch_size", "N", "examples in a batch"),
    "learning_rate": ("training.learning_rate", "RATE", "Adam's (initial) learning rate"),
    "channels": ("model.channels", "N", "channels of each block"),
    "seed": ("training.seed", "N", "seed of initial weights, shuffling and augmentation"),
}


def parser():
    """Builds the argument parser of the command ``tfpn``."""
    root = argparse.ArgumentParser(
        prog="tfpn",
        description="Train and use networks whose feature maps are Gaussian processes.",
        epilog=descriptions.ROOT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"tfpn {__version__}")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_train(commands)
    _add_tune(commands)
    _add_evaluate(commands)
    _add_predict(commands)
    _add_figures(commands)
    return root


def _add_train(commands):
    train = commands.add_parser(
        "train",
        help="train the model of a recipe",
        description=descriptions.TRAIN,
        epilog=descriptions.TRAIN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    train.add_argument(
        "recipe",
        nargs="?",
        metavar="RECIPE",
        help=f"a recipe's name ({_recipes()}) or the path of a recipe.toml "
        "(default: digits, or with --resume the run's own recipe)",
    )
    _add_values(train)
    train.add_argument(
        "--output", metavar="FOLDER", help="the run folder (default: runs/ and the recipe's name)"
    )
    existing = train.add_mutually_exclusive_group()
    existing.add_argument(
        "--resume",
        action="store_true",
        help="go on after the last finished epoch of the run in the folder",
    )
    existing.add_argument("--overwrite", action="store_true", help="replace the run in the folder")
    train.add_argument(
        "--strategy",
        choices=("mirrored", "multi-worker"),
        help="train on all GPUs of this machine, or on the workers of the cluster that the "
        "environment variable TF_CONFIG describes; the batch size counts all of them together",
    )


def _recipes():
    return ", ".join(recipes.names())


def _add_tune(commands):
    tune = commands.add_parser(
        "tune",
        help="search for the hyperparameters of a recipe",
        description=descriptions.TUNE,
        epilog=descriptions.TUNE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tune.add_argument(
        "recipe",
        metavar="RECIPE",
        help=f"a recipe's name ({_recipes()}) or the path of a recipe.toml",
    )
    _add_values(tune)
    tune.add_argument(
        "--space",
        action="append",
        default=[],
        dest="space",
        metavar="SECTION.KEY=VALUES",
        help="the range of a value: a TOML list of choices, or a table with min_value and "
        "max_value, and optionally step and sampling ('linear' or 'log'); may be repeated",
    )
    tune.add_argument(
        "--algorithm",
        choices=("hyperband", "random", "bayesian"),
        default="hyperband",
        help="default: %(default)s",
    )
    tune.add_argument(
        "--objective",
        choices=("val_nll", "val_accuracy", "val_auroc", "val_average_precision"),
        default="val_nll",
        help="the score of a trial, after its last epoch (default: %(default)s)",
    )
    tune.add_argument(
        "--max-trials",
        type=int,
        default=20,
        metavar="N",
        help="number of trials of random and bayesian (default: %(default)s)",
    )
    tune.add_argument(
        "--iterations",
        type=int,
        default=1,
        metavar="N",
        help="how often hyperband runs all its brackets (default: %(default)s)",
    )
    tune.add_argument(
        "--no-final",
        action="store_false",
        dest="final",
        help="leave out the final training on training and validation data",
    )
    tune.add_argument(
        "--output",
        metavar="FOLDER",
        help="the search's folder (default: runs/ and the recipe's name with -tune)",
    )
    existing = tune.add_mutually_exclusive_group()
    existing.add_argument(
        "--resume", action="store_true", help="go on with the search in the folder"
    )
    existing.add_argument(
        "--overwrite", action="store_true", help="replace the search in the folder"
    )


def _add_evaluate(commands):
    evaluate = commands.add_parser(
        "evaluate",
        help="measure a trained model on its recipe's data",
        description=descriptions.EVALUATE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    evaluate.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="run folders, .keras files with their recipe.toml next to them, or names of "
        "reference models",
    )
    evaluate.add_argument(
        "--split",
        choices=("test", "validation"),
        default="test",
        help="the part of the data to measure on (default: %(default)s)",
    )
    _add_bins(evaluate)
    evaluate.add_argument(
        "--output", metavar="FILE.json", help="also write the line of JSON to this file"
    )
    evaluate.add_argument(
        "--table",
        metavar="FILE.csv",
        help="write the bins of the calibration: borders, examples, mean confidence, accuracy",
    )
    _add_residuals(evaluate, "measure")
    _add_data_dir(evaluate)


def _add_predict(commands):
    predict = commands.add_parser(
        "predict",
        help="predict from your own observations: classes, numbers or fields",
        description=descriptions.PREDICT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_run(predict)
    predict.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="observations (.npz), or a table of places or examples (.csv or .parquet)",
    )
    predict.add_argument(
        "--output",
        metavar="OUT",
        help="the file to write: .npz or .csv for classes, .csv or .parquet for numbers, and also "
        ".png or .nc for a grid (default: CSV on standard output)",
    )
    predict.add_argument(
        "--readings",
        metavar="TABLE",
        help="for a field: readings to predict from, instead of the recipe's",
    )
    predict.add_argument(
        "--resolution",
        type=int,
        metavar="N",
        help="for a field without FILE: grid points along each axis",
    )


def _add_figures(commands):
    figures = commands.add_parser(
        "figures",
        help="draw the feature maps, calibration and learning curves of a run",
        description=descriptions.FIGURES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_run(figures, optional=True)
    figures.add_argument(
        "--examples", type=int, metavar="N", help="rows of feature maps to draw (default: 4)"
    )
    shown = figures.add_mutually_exclusive_group()
    shown.add_argument(
        "--channels",
        type=int,
        choices=(1, 3),
        metavar="N",
        help="draw the first three channels as red, green and blue (3), or only the first (1) "
        "(default: 3 if the blocks have three channels)",
    )
    shown.add_argument("--channel", type=int, metavar="INDEX", help="draw only this channel")
    figures.add_argument(
        "--resolution",
        type=int,
        metavar="N",
        help="grid points of feature maps along each axis (default: 64)",
    )
    figures.add_argument(
        "--output",
        metavar="FILE.png",
        help="the picture of the feature maps, of a field's map or series, or of a regression's "
        "quantiles (default: feature_maps.png, map.png, series.png or qq.png in the run folder); "
        "the others go next to it",
    )
    _add_bins(figures)
    _add_residuals(figures, "draw the Q-Q plot of")
    _add_data_dir(figures)


def _add_run(command, optional=False):
    command.add_argument(
        "run",
        nargs="?" if optional else None,
        metavar="RUN",
        help="a run folder, a .keras file with its recipe.toml next to it, or the name of a "
        "reference model",
    )


def _add_values(command):
    """The options that change a recipe's values."""
    command.add_argument(
        "--set",
        action="append",
        default=[],
        dest="assignments",
        metavar="SECTION.KEY=VALUE",
        help="set any value of the recipe; may be repeated",
    )
    for flag, (target, metavar, text) in SHORT_FLAGS.items():
        command.add_argument(
            f"--{flag.replace('_', '-')}", metavar=metavar, help=f"{text} (sets {target})"
        )
    _add_data_dir(command)


def _add_data_dir(command):
    command.add_argument(
        "--data-dir",
        metavar="FOLDER",
        help="the folder of the data files, for data sets that read files (sets data.data_dir)",
    )


def _add_bins(command):
    command.add_argument(
        "--bins",
        type=int,
        default=15,
        metavar="N",
        help="number of bins of the confidence, for the calibration (default: %(default)s)",
    )


def _add_residuals(command, what):
    command.add_argument(
        "--residuals",
        metavar="FILE.npz",
        help=f"{what} the Gaussian predictions in this file instead of a run: its arrays "
        "residuals (truth minus predicted mean) and standard_deviations",
    )
