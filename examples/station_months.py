"""Months of weather stations, and the tasks of `station_temperatures.py` about them."""

import dataclasses

import numpy as np

TRAIN, VALIDATION, TEST = (1940, 1980), (1980, 1986), (1986, 1998)  # first year, year after last
HIDDEN = 0.3  # share of the stations
RADIUS = 1.5  # radius of the regional slope, in units of 100 km
FEWEST = 6  # least number of stations for a slope


@dataclasses.dataclass
class Months:
    """Anomalies of months, in units of the calendar month's spread.

    points [S, 2] (east, north) in units of 100 km, values [T, S] with NaN for missing, scale [T] in
    degrees Celsius, year [T] and month [T].
    """

    points: np.ndarray
    values: np.ndarray
    scale: np.ndarray
    year: np.ndarray
    month: np.ndarray

    def between(self, years):
        """The months from the first year on, up to but without the second."""
        chosen = (years[0] <= self.year) & (self.year < years[1])
        parts = {k: getattr(self, k)[chosen] for k in ("values", "scale", "year", "month")}
        return dataclasses.replace(self, **parts)


@dataclasses.dataclass
class Task:
    """One month as a task: the seen stations, the stations to predict, and the truth there.

    seen and asked hold the numbers of stations. level is the mean anomaly of the seen ones, which
    is subtracted from inputs and truth. truth [asked, 3] holds anomaly and slope, NaN where
    unknown.
    """

    month: int
    seen: np.ndarray
    asked: np.ndarray
    level: float
    truth: np.ndarray


def read_months(path):
    """Reads the file as `Months`."""
    with np.load(path, allow_pickle=False) as file:
        missing = {"lonlat", "years", "tmax", "tmin"} - set(file)
        if missing:
            raise ValueError(
                f"{path} lacks the arrays {', '.join(sorted(missing))}; see the top of "
                "station_temperatures.py for what it must hold."
            )
        temperature = 0.5 * (file["tmax"].astype(float) + file["tmin"])
        return to_months(file["lonlat"].astype(float), file["years"], temperature)


def to_months(lonlat, years, temperature, fewest_years=10):
    """Turns temperatures [Y, 12, S] into `Months`, with mean and spread of the training years.

    Stations without ``fewest_years`` of every calendar month in these years are left out.
    """
    training = (TRAIN[0] <= years) & (years < TRAIN[1])
    kept = np.isfinite(temperature[training]).sum(axis=0).min(axis=0) >= fewest_years
    if kept.sum() < 20:
        raise ValueError(
            f"temperature: {kept.sum()} stations have {fewest_years} years of every calendar month "
            f"from {TRAIN[0]} to {TRAIN[1] - 1}, but 20 are needed; give more stations."
        )
    temperature = temperature[..., kept]
    anomaly = temperature - np.nanmean(temperature[training], axis=0)
    spread = np.nanstd(anomaly[training], axis=(0, 2))
    return Months(
        points=project(lonlat[kept]),
        values=(anomaly / spread[:, None]).reshape(-1, kept.sum()),
        scale=np.tile(spread, len(years)),
        year=np.repeat(years, 12),
        month=np.tile(np.arange(1, 13), len(years)),
    )


def project(lonlat):
    """Projects degrees [S, 2] to units of 100 km about the stations' centre, equirectangularly."""
    centre = lonlat.mean(axis=0)
    kilometres = 111.19 * np.array([np.cos(np.radians(centre[1])), 1.0])
    return (lonlat - centre) * kilometres / 100.0


def split_stations(count, seed=0):
    """The numbers of the known and of the hidden stations."""
    order = np.random.default_rng(seed).permutation(count)
    hidden = round(HIDDEN * count)
    return np.sort(order[hidden:]), np.sort(order[:hidden])


def slope_weights(points, at):
    """Weights [Q, 2, S] of the stations' values in the slope of the plane about each place.

    They are NaN if fewer than FEWEST stations are within RADIUS.
    """
    weights = np.full((len(at), 2, len(points)), np.nan)
    for index, place in enumerate(at):
        near = np.linalg.norm(points - place, axis=1) < RADIUS
        if near.sum() >= FEWEST:
            plane = np.column_stack([np.ones(near.sum()), points[near] - place])
            weights[index] = 0.0
            weights[index][:, near] = np.linalg.pinv(plane)[1:]
    return weights


def make_task(months, month, seen, asked):
    """Makes the `Task` of the stations that reported."""
    values = months.values[month]
    seen, asked = (stations[np.isfinite(values[stations])] for stations in (seen, asked))
    points, level = months.points[asked], values[seen].mean()
    slopes = slope_weights(points, points) @ values[asked]
    truth = np.column_stack([values[asked] - level, slopes])
    return Task(month, seen, asked, level, truth)


def hidden_tasks(months, known, hidden):
    """A task for each month: predict the hidden stations from the reports of the known ones."""
    return [make_task(months, month, known, hidden) for month in range(len(months.values))]


def training_tasks(months, known, views, rng):
    """``views`` tasks for each month, with random splits of the known stations.

    The hidden stations stay unseen.
    """
    tasks = []
    for month in list(range(len(months.values))) * views:
        order, asked = rng.permutation(known), round(HIDDEN * len(known))
        tasks.append(make_task(months, month, order[asked:], order[:asked]))
    return tasks
