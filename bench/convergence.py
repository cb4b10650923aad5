#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains one job in every regime, and with 1, 2 and 4 workers, and tells what came of it.

  bench/convergence.py accuracy   the table and the plot of docs/results.md
  bench/convergence.py scaling    the table of docs/performance.md

Needs build/release/bin, gnuplot and an idle machine. The runs' folders are in build/convergence; a
run that is there already is not made again, so an interrupted command goes on where it was.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build/release/bin"
RUNS = ROOT / "build/convergence"
JOB = ROOT / "bench/convergence.yaml"

# Per push of `async`, bounded staleness and sync groups a quarter of the examples, or half of them:
# the rate is that of the share, so that all regimes move by the same rate an example.
REGIMES = {
    "one process": None,
    "sync": ["regime=sync"],
    "async": ["regime=async", "learning_rate_scale=1/workers"],
    "bounded staleness, 3": ["regime={bounded_staleness: 3}",
                             "optimizers.sgd.learning_rate.linear.from=0.02"],
    "sync groups of 2": ["regime={sync_group_size: 2}",
                         "optimizers.sgd.learning_rate.linear.from=0.04"],
}


def train(name, settings, workers=4, servers=2):
    """The summary of one run; `settings` None: in one process, without a cluster."""
    folder = RUNS / name
    summary = folder / "summary.json"
    if summary.exists():
        return json.loads(summary.read_text()), folder
    sets = [word for one in [f"name={name}"] + (settings or []) for word in ("--set", one)]
    if workers == 0:
        command = [BIN / "weir-worker", "--local", "--job", JOB, "--run-dir", folder,
                   "--set", "workers=1", *sets]
    else:
        command = [BIN / "weir", "run", JOB, "--own-cluster", "--replace", "--runs", RUNS,
                   "--workers", str(workers), "--servers", str(servers), *sets]
    print("+", *command, file=sys.stderr, flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads(summary.read_text()), folder


def curve(folder):
    """Epoch and test accuracy, wherever it was evaluated."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [(line["epoch"], line["test_accuracy"]) for line in lines if "test_accuracy" in line]


def plot(curves, picture):
    """`curves`: regime -> the curves of its seeds. One line each: the mean at an epoch."""
    blocks = []
    for regime, of_seeds in curves.items():
        rows = [f'"{regime}"']
        for points in zip(*of_seeds):
            epoch = statistics.mean(point[0] for point in points)
            values = [100 * point[1] for point in points]
            rows.append(f"{epoch:.3f} {statistics.mean(values):.3f} {min(values):.3f} {max(values):.3f}")
        blocks.append("\n".join(rows))
    data = RUNS / "accuracy.dat"
    data.write_text("\n\n\n".join(blocks) + "\n")
    script = f"""
set terminal pngcairo size 960,540 font 'DejaVu Sans,11'
set output '{picture}'
set title 'ResNet-8 on Fashion-MNIST: mean of three seeds, bars from the worst to the best'
set xlabel 'epoch'
set ylabel 'test accuracy, %'
set key bottom right
set grid
plot for [i=0:{len(blocks) - 1}] '{data}' index i using ($1+0.03*(i-2)):2:3:4 \\
  with yerrorlines lw 1.5 pt 7 ps 0.8 title columnheader(1)
"""
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def accuracy(seeds, picture):
    curves, means = {}, {}
    print("| regime | workers | examples of a push | test accuracy, each seed | mean | against one process |")
    print("| --- | ---: | ---: | --- | ---: | ---: |")
    for regime, settings in REGIMES.items():
        workers = 0 if settings is None else 4
        slug = regime.replace(",", "").replace(" ", "-")
        runs = [train(f"{slug}-{seed}", (settings or []) + [f"seed={seed}"], workers)
                for seed in seeds]
        values = [100 * summary["test_accuracy"] for summary, _ in runs]
        curves[regime] = [curve(folder) for _, folder in runs]
        means[regime] = statistics.mean(values)
        print(f"| {regime} | {max(workers, 1)} | {32 if workers else 128} | "
              f"{', '.join(f'{value:.2f}' for value in values)} | {means[regime]:.2f} | "
              f"{means[regime] - means['one process']:+.2f} |", flush=True)
    plot(curves, picture)


def scaling():
    """Weak: 64 examples of each worker a step. Strong: 128 of all. One computing thread a worker."""
    print("| regime | workers | weak samples/s | of one | strong samples/s | of one |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for regime in ("sync", "async"):
        first = {}
        for workers in (1, 2, 4):
            row = f"| {regime} | {workers} |"
            for way, batch in (("weak", "data.batch={per_replica: 64}"),
                               ("strong", "data.batch={global: 128}")):
                summary, _ = train(f"{way}-{regime}-{workers}",
                                   [f"regime={regime}", batch, "epochs=1",
                                    "optimizers.sgd.learning_rate.linear.from=0.02"], workers, 1)
                speed = summary["samples_per_second"]
                first.setdefault(way, speed)
                row += f" {speed:,.0f} | {speed / first[way]:.2f} |"
            print(row, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("accuracy", "scaling"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--picture", default=ROOT / "docs/results.png")
    arguments = parser.parse_args()
    RUNS.mkdir(parents=True, exist_ok=True)
    if arguments.what == "accuracy":
        accuracy(arguments.seeds, arguments.picture)
    else:
        scaling()


if __name__ == "__main__":
    main()
