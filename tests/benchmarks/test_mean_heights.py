"""The recipe of mean heights: its table is what its page says, and so is the baseline's error."""

import re

import numpy as np
import pandas as pd
from matplotlib import cbook

from benchmarks.mean_heights import run
from tfpn import evaluation, recipes

FOLDER = recipes.models_folder() / "mean-heights"


def test_rows_are_cells_of_the_grid_of_heights_and_targets_their_means():
    table = pd.read_csv(FOLDER / "squares.csv")
    ground = cbook.get_sample_data("jacksboro_fault_dem.npz")["elevation"][:336, :400]
    squares = ground.reshape(21, 16, 25, 16).swapaxes(1, 2).reshape(525, 16, 16).astype(float)
    column = np.floor(table["east"] / run.SIZE[0] * 16).astype(int)
    row = 15 - np.floor(table["north"] / run.SIZE[1] * 16).astype(int)  # from north to south
    assert not table.duplicated(["square", "east", "north"]).any()
    np.testing.assert_array_equal(table["height"], squares[table["square"], row, column])
    means = squares.mean(axis=(1, 2))[table["square"]]
    np.testing.assert_allclose(table["mean_height"], means, atol=0.0501)  # one decimal
    assert set(table.groupby("square").size()) == set(range(4, 13))


def test_the_recipe_fits_its_data_and_the_page_has_the_error_of_the_mean():
    recipe = recipes.resolve(recipes.load("mean-heights"))
    data = run.load()
    recipes.check_data(recipe, recipes.build_model(recipe), data)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [368, 52, 105]
    mean = run.mean_of_heights(data)
    error = evaluation.regression_metrics(data.test.y, mean)["rmse"]
    shown = re.search(
        r"\| mean of the known heights \| (\S+) m", (FOLDER / "README.md").read_text()
    )
    assert shown and shown[1] == f"{error:.1f}"
