"""The texts that ``--help`` prints for the subcommands."""

ROOT_EXAMPLES = """\
examples:
  tfpn train digits              a bundled data set
  tfpn train stations.toml       a table of your own: tfpn train --help shows a recipe
  tfpn predict runs/stations places.csv --output found.csv
  tfpn COMMAND --help            the options of a command
"""

TRAIN = """\
Train the model of a recipe and write a run folder: the resolved recipe, the
log of every epoch, the model, a backup of the last epoch, the result, and
pictures. The last line on standard output is the result as one line of JSON. For
several values it has the figures of each (by_target), because their units differ. The
file result.json also has those of all together.
"""

TRAIN_EXAMPLES = """\
examples:
  tfpn train digits
  tfpn train superpixel-mnist --data-dir data --output runs/first
  tfpn train digits --epochs 3 --set model.num_blocks=2 --set training.schedule=constant
  tfpn train --resume --output runs/first
  tfpn train stations.toml

A recipe for your own CSV or Parquet table, stations.toml, beside the table:

  name = "stations"

  [data]
  name = "table"
  file = "stations.csv"
  points = ["longitude", "latitude"]    # and, or instead, time = "hour"
  degrees = true
  example = "month"                     # leave it out if all rows are one map
  values = ["temperature", "rain"]      # an empty cell was not read
  # season = [24]                       # periods of the time, such as the hours of a day
  # targets = ["age"]                   # to predict a number of each example instead
  # labels = "species"                  # or to predict its class

  [model]
  name = "PNCNN"                        # or PNTimeSeries, for targets or labels of series

The guides "Map a field from stations", "Predict a number" and "Classify irregular
series" explain the keys.

exit status: 0 trained; 1 the loss became NaN; 2 the request cannot be carried out or a
file cannot be written; 130 interrupted; 143 terminated. Unless it is 1, continue with
--resume.
"""


TUNE = """\
Search for the hyperparameters of a recipe with Keras Tuner: channels, blocks, basis
operators, initial length scale and noise, weight of the marginal likelihood,
uncertainty mode and learning rate. Values that you give by --set or its short forms
stay fixed. --space replaces or extends the ranges of the others.

Trials train on the training part, and the validation part gives their scores. The
best recipe then trains on both, and the test part measures it. If a trial fails, the
search records the reason and goes on. The folder receives results.csv, results.png,
best.toml (a recipe) and final/ (a run folder). The last line on standard output is
the result as one line of JSON.
"""

TUNE_EXAMPLES = """\
examples:
  tfpn tune digits
  tfpn tune digits --algorithm bayesian --max-trials 30 --set model.uncertainty=diagonal
  tfpn tune digits --space model.channels=[16,32]
        --space 'training.learning_rate={min_value = 1e-3, max_value = 1e-2, sampling = "log"}'
  tfpn tune digits --resume     with the options of the interrupted search

parallel workers: start the same command in several processes that share the folder.
Set the environment variables KERASTUNER_ORACLE_IP and KERASTUNER_ORACLE_PORT (of the
chief). Set KERASTUNER_TUNER_ID to chief in one process, to other names in the workers.

exit status: 0 done; 1 the final training diverged; 2 the request cannot be carried out or
a file cannot be written; 130 interrupted; 143 terminated. Continue with --resume.
"""


EVALUATE = """\
Measure a trained model on its recipe's data and print one line of JSON. It holds for a
classifier:

  accuracy, error   fractions
  nll               mean negative log likelihood, nats
  brier             sum of squared errors of the class probabilities, 0 to 2
  ece               expected calibration error, bins of equal width
  adaptive_ece      the same, bins of about equally many examples
  auroc             for two classes: area under the ROC curve of class 1
  average_precision for two classes: mean precision over the steps of recall
  examples          number of examples

The probabilities come from the model's predict_proba.

It holds for regression and fields:

  rmse, mae         root mean square and mean absolute error
  nll               mean negative log density, nats
  crps              continuous ranked probability score
  coverage_95       fraction of targets in the central 95 % interval
  targets           number of targets
  by_target         the same for each target, if there are several

nll, crps and coverage_95 need predicted deviations. A regression predicts them if its
pooling is a box, disc or ball, and the run calibrates them on the validation data, if any. For
several runs, such as those of several seeds, it prints the figures of each, their mean and
their standard deviation (with n - 1).

With --residuals, measure Gaussian predictions instead: rmse, nll, spread (root mean
square residual in units of its predicted standard deviation, 1 if calibrated),
coverage_50 and coverage_95 (fractions in the central intervals), and residuals (their
number).
"""

PREDICT = """\
Predict with a trained model.

A classifier of a table takes a table of examples, with the columns of the recipe but
without the labels. It predicts the name of each example's class, and the probability
of every class.

Any other classifier takes an .npz file. It holds the arrays points [examples, points,
dimensions] and values [examples, points, channels], NaN where nothing was measured,
and optionally variance (the measurements' noise, in the shape of values). A model with
statics also takes statics [examples, statics], NaN where unknown. Pickled arrays are
refused.

A field takes a table of places, with the columns of coordinates that the recipe
names. It predicts the mean and standard deviation of a reading there, as a table. If
the places form a grid at one moment, it also writes a map. Without a table
it takes a grid over all readings, and writes a map as .png or .nc, or a series with its
band. It predicts from all readings of the recipe's table, or of --readings.

A regression takes a table of examples, with the columns of the recipe but without the
targets, and predicts the targets.
"""

FIGURES = """\
Draw three pictures and print their names:

  feature_maps.png  mean and standard deviation of each block's feature maps, for a
                    few test examples
  reliability.png   accuracy against confidence on the test data, with the number of
                    examples in each bin
  curves.png        the learning curves, if the run has a log

For regression draw qq.png. For a field draw qq.png, and the map or the series with its
standard deviation as map.png and map.nc (or series).

--output names the first picture: the feature maps, the map or series with its .nc, or
the Q-Q plot of a regression. The others go next to it.

With --residuals, draw the Q-Q plot of Gaussian predictions instead (qq.png).
"""
