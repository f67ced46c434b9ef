"""Trains the table classifier: a person's row of the 1994 census in, whether they earn more than 50,000 dollars a year out.

An FT-Transformer. The last 6,512 of the 32,561 rows are held out; the schema, the means and the deviations come from the rest.
"?" is a value like others; a value that is missing altogether is learnt from values that are hidden by chance.
Stop it at any moment and start it again: it goes on from its last checkpoint.
"""
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import pathlib
import sys

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from layers import Network, attend_all, fresh_layer, fresh_linear, fresh_norm
from recipe import dropper
from training import Plan, area, export, in_batches, logistic_regression, share, train

HELD_OUT = 6512  # the last ones of the file
NAMES = ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race", "sex",
         "capital-gain", "capital-loss", "hours-per-week", "native-country"]
NUMERICAL = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
CATEGORICAL = [name for name in NAMES if name not in NUMERICAL]
LABELS = ["<=50K", ">50K"]
HIDDEN = 0.03  # of a row's values: by chance
WIDTH, LAYERS, DROPOUT = 48, 3, 0.15

CONFIG = {
    "model_type": "heed",
    "architecture": "ft-transformer",
    "num_numerical": len(NUMERICAL),
    "hidden_size": WIDTH,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "hidden_act": "reglu",
    "norm": "pre",
    "norm_type": "layer",
    "layer_norm_eps": 1e-5,
    "layers": [{"attention": {"type": "full"}, "ffn": {"type": "dense"}}] * LAYERS,
    "head": "classification",
    "num_labels": 2,
    "id2label": {str(i): label for i, label in enumerate(LABELS)},
}


# ------------------------------------------------------------------------------------------------------------- table

def read_rows(data):
    """-> rows as columns' values by name, labels"""
    with open(data / "adult-train.csv", newline="") as file:
        lines = [line for line in csv.reader(file, skipinitialspace=True) if line]
    return [dict(zip(NAMES, line)) for line in lines], torch.tensor([LABELS.index(line[-1]) for line in lines])


def schema_of(rows):
    """What config.json says of the columns: a value's id is its place among the values, from 1 on."""
    def numerical(name):
        x = torch.tensor([float(row[name]) for row in rows], dtype=torch.float64)
        return {"name": name, "mean": float(f"{x.mean():.6g}"), "deviation": float(f"{x.std():.6g}")}
    return {"categorical": [{"name": name, "values": sorted({row[name] for row in rows})} for name in CATEGORICAL],
            "numerical": [numerical(name) for name in NUMERICAL]}


def encoded(rows, schema):
    """-> ids [rows, categorical], 0 for a value that the schema does not have; numbers [rows, numerical], standardised"""
    places = [{value: i + 1 for i, value in enumerate(column["values"])} for column in schema["categorical"]]
    ids = [[place.get(row[name], 0) for place, name in zip(places, CATEGORICAL)] for row in rows]
    numbers = [[(float(row[c["name"]]) - c["mean"]) / c["deviation"] for c in schema["numerical"]] for row in rows]
    return torch.tensor(ids), torch.tensor(numbers)


# ----------------------------------------------------------------------------------------------------------- network

def fresh_weights(categories):
    w = {"embed.cls": torch.randn(WIDTH) * 0.3}
    for name in ("weight", "bias"):
        w[f"embed.numerical.{name}"] = torch.randn(len(NUMERICAL), WIDTH) * 0.3
    w["embed.categorical.bias"] = torch.randn(len(categories), WIDTH) * 0.3
    for j, count in enumerate(categories):
        w[f"embed.categorical.{j}.weight"] = torch.randn(count + 1, WIDTH) * 0.3
    for i in range(LAYERS):
        w |= fresh_layer(f"layers.{i}", WIDTH, CONFIG["intermediate_size"], CONFIG["hidden_act"], first_norm=i > 0)
    return w | fresh_norm("norm", WIDTH) | fresh_linear("classifier", len(LABELS), WIDTH)


class Classifier(Network):
    def scores(self, ids, numbers):
        w = self.w
        numerical = numbers[..., None] * w["embed.numerical.weight"] + w["embed.numerical.bias"]
        categorical = torch.stack([w[f"embed.categorical.{j}.weight"][ids[:, j]] for j in range(ids.shape[1])], 1)
        x = torch.cat([w["embed.cls"].expand(len(ids), 1, -1), numerical, categorical + w["embed.categorical.bias"]], 1)
        for i in range(LAYERS):
            x = self.layer(x, f"layers.{i}", CONFIG["num_attention_heads"], attend_all)
        return self.linear(F.relu(self.norm(x[:, 0], "norm")), "classifier")


def hidden(t):
    """With some zeros: a categorical value that is missing, a number that is the mean."""
    return t * (torch.rand(t.shape) >= HIDDEN)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--data", type=pathlib.Path, default=HERE.parents[1] / "../shared/data")
    args.add_argument("--out", type=pathlib.Path, default=HERE)
    args.add_argument("--checkpoint", type=pathlib.Path, default=HERE.parents[1] / "build/train/adult.pt")
    args.add_argument("--passes", type=float, default=12, help="over the rows")
    args = args.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)

    rows, labels = read_rows(args.data)
    schema = schema_of(rows[:-HELD_OUT])
    ids, numbers = encoded(rows, schema)
    learnt, held_out = [(ids[part], numbers[part], labels[part]) for part in (slice(-HELD_OUT), slice(-HELD_OUT, None))]
    categories = [len(column["values"]) for column in schema["categorical"]]
    w = fresh_weights(categories)
    network = Classifier(w, CONFIG["hidden_act"], drop=dropper(DROPOUT))

    def loss(chosen):
        ids, numbers, labels = (t[chosen] for t in learnt)
        return F.cross_entropy(network.scores(hidden(ids), hidden(numbers)), labels)
    exact = train(w, loss, Plan(len(rows) - HELD_OUT, 256, args.passes, args.checkpoint, matrix_rate=0.01, vector_rate=2e-3))
    export(args.out, exact, {**CONFIG, "categories": categories, "columns": schema})

    def show(who, odds):
        right = (odds > 0).long() == held_out[2]
        print(f"held out: {who} {share(right)}, area under the curve {area(odds, held_out[2]):.4f}, "
              f"{F.binary_cross_entropy_with_logits(odds, held_out[2].float()):.4f} nats", flush=True)

    def odds(scores):
        return scores[:, 1] - scores[:, 0]
    own = Classifier(exact, CONFIG["hidden_act"])
    show("this model", odds(in_batches(lambda rows: own.scores(*(t[rows] for t in held_out[:2])), HELD_OUT)))

    def features(ids, numbers):
        return torch.cat([F.one_hot(ids[:, j], count + 1) for j, count in enumerate(categories)] + [numbers], 1).float()
    regression = logistic_regression(features(*learnt[:2]), learnt[2], 2)
    show("logistic regression", odds(regression(features(*held_out[:2]))))
    print(f"held out: always {LABELS[0]} {share(held_out[2] == 0)}")


if __name__ == "__main__":
    main()
