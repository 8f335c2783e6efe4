"""A C16-equivariant CNN of the package escnn on turned digits, as pixels or as superpixels.

    python benchmarks/turned_mnist/escnn_cnn.py TURNED/pixels.npz

It needs an environment of its own, because a dependency of escnn 1.0.11 was compiled for NumPy 1:
README.md has the commands. So this program imports nothing of tfpn. It reads what
`benchmarks.turned_mnist.images` has written, trains, and adds a row to results.csv. The errors are
those of the last epoch; validation did not choose it.

Six convolutions with regular fields of C16, after an example in escnn's documentation: batch
normalisation and ReLU after each, three poolings, a maximum over the group, a mean over the pixels
that are left, and two dense layers. ``--fields`` sets the number of regular fields in the first
convolution, and so the number of parameters. With ``--move`` each epoch moves, stretches and shears
each image anew, as the recipes of tfpn do.
"""

import argparse
import csv
import pathlib
import time

import numpy as np
import torch
from escnn import gspaces, nn

FIELDS = (
    *("model", "data", "moved", "seed", "parameters", "epochs", "validation_error"),
    *("test_error", "test_nll", "epoch_seconds"),
)
BATCH, RATE = 50, 3e-3
SHIFT, SCALE, SHEAR = 0.05, 0.12, 0.2  # those of steerable.toml; the shift is in image sides


class Network(torch.nn.Module):
    """Logits [B, 10] of images [B, 1, 29, 29]; the odd side lets pooling keep the symmetry."""

    def __init__(self, fields):
        super().__init__()
        space = gspaces.rot2dOnR2(16)
        self.type = nn.FieldType(space, [space.trivial_repr])
        layers, before = [nn.MaskModule(self.type, 29, margin=1)], self.type
        #         kernel, padding, fields, pooled
        for kernel, padding, share, pooled in (
            (7, 3, 1, False),
            (5, 2, 2, True),
            (5, 2, 2, False),
            (5, 2, 2, True),
            (5, 2, 2, False),
            (5, 0, 2, False),
        ):
            after = nn.FieldType(space, share * fields * [space.regular_repr])
            layers += [
                nn.R2Conv(before, after, kernel, padding=padding, bias=False),
                nn.InnerBatchNorm(after),
                nn.ReLU(after, inplace=True),
            ]
            if pooled:
                layers.append(nn.PointwiseAvgPoolAntialiased(after, sigma=0.66, stride=2))
            before = after
        layers += [
            nn.PointwiseAvgPoolAntialiased(before, sigma=0.66, stride=1),
            nn.GroupPooling(before),
        ]
        self.equivariant = nn.SequentialModule(*layers)
        width = 2 * fields
        self.dense = torch.nn.Sequential(
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(width, 64),
            torch.nn.BatchNorm1d(64),
            torch.nn.ELU(),
            torch.nn.Linear(64, 10),
        )

    def forward(self, images):
        found = self.equivariant(nn.GeometricTensor(images, self.type))
        return self.dense(found.tensor)


def moved(images):
    """Images [B, 1, n, n], each under a random affine map of its own; outside is background."""
    count = len(images)
    factors = torch.exp(SCALE * (2 * torch.rand(count, 2, 1) - 1))
    maps = torch.eye(2) * factors
    maps[:, 0, 1] = SHEAR * (2 * torch.rand(count) - 1) * factors[:, 1, 0]
    offsets = 2 * SHIFT * (2 * torch.rand(count, 2, 1) - 1)  # the side of the grid is 2
    back = torch.linalg.inv(maps)
    theta = torch.cat([back, -back @ offsets], dim=-1)
    grid = torch.nn.functional.affine_grid(theta, images.shape, align_corners=False)
    least = images.min()
    return least + torch.nn.functional.grid_sample(images - least, grid, align_corners=False)


def evaluate(network, images, labels):
    """Error and mean negative log likelihood."""
    network.eval()
    with torch.no_grad():
        logits = torch.cat([network(part) for part in images.split(250)])
    wrong = (logits.argmax(-1) != labels).float().mean()
    return float(wrong), float(torch.nn.functional.cross_entropy(logits, labels))


def parse(arguments=None):
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=pathlib.Path, help="pixels.npz or superpixels.npz")
    parser.add_argument("--move", action="store_true", help="augment the training images")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--fields", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    default = pathlib.Path(__file__).parent / "results.csv"
    parser.add_argument("--output", type=pathlib.Path, default=default)
    return parser.parse_args(arguments)


def main(arguments=None):
    """Trains, tests and adds the row."""
    options = parse(arguments)
    torch.manual_seed(options.seed)
    with np.load(options.images) as file:
        data = {key: torch.from_numpy(array) for key, array in file.items()}
    for key in ("x_train", "x_validation", "x_test"):
        # A row and a column of the background's grey make the side odd.
        data[key] = torch.nn.functional.pad(
            data[key][:, None], (0, 1, 0, 1), value=float(data[key].min())
        )
    network = Network(options.fields)
    parameters = sum(p.numel() for p in network.parameters() if p.requires_grad)
    print(f"{parameters} parameters", flush=True)
    optimizer = torch.optim.Adam(network.parameters(), RATE)
    steps = options.epochs * -(-len(data["y_train"]) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    start = time.perf_counter()
    for epoch in range(options.epochs):
        network.train()
        total = 0.0
        for chosen in torch.randperm(len(data["y_train"])).split(BATCH):
            optimizer.zero_grad()
            batch = data["x_train"][chosen]
            logits = network(moved(batch) if options.move else batch)
            loss = torch.nn.functional.cross_entropy(logits, data["y_train"][chosen])
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(chosen)
        error, nll = evaluate(network, data["x_validation"], data["y_validation"])
        seconds = (time.perf_counter() - start) / (epoch + 1)
        print(
            f"epoch {epoch + 1}: loss {total / len(data['y_train']):.4f}, validation error "
            f"{error:.4f}, nll {nll:.4f}, {seconds:.0f} s",
            flush=True,
        )
    test_error, test_nll = evaluate(network, data["x_test"], data["y_test"])
    row = {"model": "escnn C16", "data": options.images.stem, "moved": int(options.move)}
    row |= {"seed": options.seed}
    row |= {"parameters": parameters, "epochs": options.epochs}
    row |= {"validation_error": round(error, 5), "test_error": round(test_error, 5)}
    row |= {"test_nll": round(test_nll, 5), "epoch_seconds": round(seconds, 1)}
    new = not options.output.exists()
    with options.output.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)
    print(row)


if __name__ == "__main__":
    main()
