"""The command line's grammar. Nothing here imports TensorFlow."""

import argparse

from tfpn import recipes
from tfpn._version import __version__

# Short flags of `train` and `tune` and the recipe's values that they set.
SHORT_FLAGS = {
    "epochs": ("training.epochs", "N", "epochs to train"),
    "batch_size": ("training.batch_size", "N", "examples a batch"),
    "learning_rate": ("training.learning_rate", "RATE", "Adam's (initial) learning rate"),
    "channels": ("model.channels", "N", "channels of each block"),
    "seed": ("training.seed", "N", "seed of initial weights, shuffling and augmentation"),
}

_TRAIN = """\
Train the model of a recipe and write a run folder: the resolved recipe, the
log of every epoch, the model, a backup of the last epoch, and two pictures.
The last line on standard output is the result as one line of JSON.
"""

_TRAIN_EXAMPLES = """\
examples:
  tfpn train digits
  tfpn train superpixel-mnist --data-dir data --output runs/first
  tfpn train digits --epochs 3 --set model.num_blocks=2 --set training.schedule=constant
  tfpn train --resume --output runs/first

exit status: 0 trained, 1 the loss became NaN, 2 the request cannot be carried out or a
file not be written, 130 interrupted, 143 terminated; --resume goes on after each of them but 1
"""


_TUNE = """\
Search for the hyperparameters of a recipe with Keras Tuner: channels, blocks, basis
operators, initial length scale and noise, weight of the marginal likelihood,
uncertainty mode and learning rate. Values given by --set or its short forms stay
fixed; --space replaces or extends what the others vary over.

Trials train on the training part and are judged on the validation part. The best
is then trained on both and measured on the test part. A trial that fails is
recorded with its reason, and the search goes on. The folder receives results.csv,
results.png, best.toml (a recipe) and final/ (a run folder). The last line on
standard output is the result as one line of JSON.
"""

_TUNE_EXAMPLES = """\
examples:
  tfpn tune digits
  tfpn tune digits --algorithm bayesian --max-trials 30 --set model.uncertainty=diagonal
  tfpn tune digits --space model.channels=[16,32]
        --space 'training.learning_rate={min_value = 1e-3, max_value = 1e-2, sampling = "log"}'
  tfpn tune digits --resume     with the options of the search that was interrupted

parallel workers: give the same command to several processes that share the folder,
with the environment variables KERASTUNER_ORACLE_IP and KERASTUNER_ORACLE_PORT (of the
chief) and KERASTUNER_TUNER_ID: chief for one process, other names for the workers.

exit status: 0 done, 1 the final training diverged, 2 the request cannot be carried out or
a file not be written, 130 interrupted, 143 terminated; --resume goes on
"""


_EVALUATE = """\
Measure a trained classifier on its recipe's data and print, as one line of JSON:

  accuracy, error   fractions
  nll               mean negative log likelihood, nats
  brier             sum of squared errors of the class probabilities, 0 to 2
  ece               expected calibration error, bins of equal width
  adaptive_ece      the same, bins of about equally many examples
  auroc             of two classes: area under the ROC curve of class 1
  average_precision of two classes: mean precision over the steps of recall
  examples          how many

The probabilities are those of the model's predict_proba. Of several runs, such as those of
several seeds, it prints the figures of each, their mean and their standard deviation (with
n - 1). With --residuals, measure
Gaussian predictions instead: rmse, nll, spread (root mean square residual in units of
its predicted standard deviation, 1 if calibrated), coverage_50 and coverage_95 (of the
central intervals), residuals (how many).
"""

_FIGURES = """\
Draw three pictures and print their names:

  feature_maps.png  mean and standard deviation of each block's feature maps, for a
                    few test examples
  reliability.png   accuracy against confidence on the test data, with the number of
                    examples in each bin
  curves.png        the learning curves, if the run has a log

With --residuals, draw the Q-Q plot of Gaussian predictions instead (qq.png).
"""


def parser():
    """Builds the argument parser of the command ``tfpn``."""
    root = argparse.ArgumentParser(
        prog="tfpn",
        description="Train and use networks whose feature maps are Gaussian processes.",
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
        description=_TRAIN,
        epilog=_TRAIN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    train.add_argument(
        "recipe",
        nargs="?",
        metavar="RECIPE",
        help=f"a recipe's name ({_recipes()}) or the path of a recipe.toml; "
        "digits by default, and with --resume the run's own recipe",
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
        help="train on all GPUs of this machine, or on the workers of the cluster described by "
        "the environment variable TF_CONFIG; the batch size is that of all together",
    )


def _recipes():
    return ", ".join(recipes.names())


def _add_tune(commands):
    tune = commands.add_parser(
        "tune",
        help="search for the hyperparameters of a recipe",
        description=_TUNE,
        epilog=_TUNE_EXAMPLES,
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
        help="what a value varies over: a TOML list of choices, or a table with min_value and "
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
        help="what trials are judged by, after their last epoch (default: %(default)s)",
    )
    tune.add_argument(
        "--max-trials",
        type=int,
        default=20,
        metavar="N",
        help="trials of random and bayesian (default: %(default)s)",
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
        help="leave out the training on training and validation data",
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
        description=_EVALUATE,
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
        "--output", metavar="FILE.json", help="write the line of JSON to this file too"
    )
    evaluate.add_argument(
        "--table",
        metavar="FILE.csv",
        help="write the calibration's bins: borders, examples, mean confidence, accuracy",
    )
    _add_residuals(evaluate, "measure")
    _add_data_dir(evaluate)


def _add_predict(commands):
    predict = commands.add_parser(
        "predict",
        help="classify your own observations",
        description="Classify the observations of an .npz file. It holds the arrays points "
        "[examples, points, dimensions] and values [examples, points, channels], NaN where "
        "nothing was measured, and optionally variance (the measurements' noise, the shape of "
        "values). A model with statics takes statics [examples, statics] besides, NaN where "
        "unknown. Pickled arrays are refused.",
    )
    _add_run(predict)
    predict.add_argument("file", metavar="FILE.npz", help="the observations")
    predict.add_argument(
        "--output",
        metavar="OUT",
        help="where to write: .npz (arrays predicted and probabilities) or .csv; "
        "CSV on standard output by default",
    )


def _add_figures(commands):
    figures = commands.add_parser(
        "figures",
        help="draw the feature maps, calibration and learning curves of a run",
        description=_FIGURES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_run(figures, optional=True)
    figures.add_argument(
        "--examples", type=int, default=4, metavar="N", help="rows to draw (default: %(default)s)"
    )
    shown = figures.add_mutually_exclusive_group()
    shown.add_argument(
        "--channels",
        type=int,
        choices=(1, 3),
        metavar="N",
        help="draw the first three channels as red, green and blue (3), or the first alone (1); "
        "3 by default where the blocks have as many",
    )
    shown.add_argument("--channel", type=int, metavar="INDEX", help="draw this channel alone")
    figures.add_argument(
        "--resolution",
        type=int,
        default=64,
        metavar="N",
        help="grid points along each axis (default: %(default)s)",
    )
    figures.add_argument(
        "--output",
        metavar="FILE.png",
        help="the picture of the feature maps (default: feature_maps.png in the run folder); the "
        "others go next to it",
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
        help="where the data files are, for data sets that read files (sets data.data_dir)",
    )


def _add_bins(command):
    command.add_argument(
        "--bins",
        type=int,
        default=15,
        metavar="N",
        help="bins of the confidence, for the calibration (default: %(default)s)",
    )


def _add_residuals(command, what):
    command.add_argument(
        "--residuals",
        metavar="FILE.npz",
        help=f"{what} the Gaussian predictions of this file instead of a run: its arrays "
        "residuals (truth minus predicted mean) and standard_deviations",
    )
