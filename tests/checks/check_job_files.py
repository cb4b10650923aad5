#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the job files that we ship and those that the documents show against the programs.

usage: check_job_files.py ROOT BIN_FOLDER
Images of noise stand in place of the data. With the built-in models one batch is trained; the jobs
of the examples are resolved by their programs.
"""
import gzip
import pathlib
import random
import re
import subprocess
import sys
import tempfile

JOBS = (
    ("deploy/quickstart.yaml", "weir-worker", "--check"),
    ("deploy/kubernetes/worker/training.yaml", "weir-worker", "--check"),
    ("README.md", "weir-worker", "--check"),
    ("docs/job-file.md", "weir-worker", "--check"),
    ("examples/gan/gan.yaml", "gan", "--print-job"),
    ("examples/own_replica/own_replica.yaml", "own_replica", "--print-job"),
    ("examples/pendulum/pendulum.yaml", "pendulum", "--print-job"),
)
DATASETS = pathlib.Path("/usr/share/datasets/fashion-mnist")
BLOCK = re.compile(r"^```yaml\n(name: .*?)^```$", re.M | re.S)
DATA = re.compile(r"^\s+(train|test): (\S+)", re.M)
SET = re.compile(r"^weir run job\.yaml .*?((?: --set \S+)+)", re.M)
EXAMPLES = 512


def write_data(folder):
    noise = random.Random(1)
    for name in ("train", "t10k"):
        with gzip.open(folder / f"{name}-images-idx3-ubyte.gz", "wb", compresslevel=1) as file:
            file.write(b"".join(n.to_bytes(4, "big") for n in (0x803, EXAMPLES, 28, 28)))
            file.write(noise.randbytes(EXAMPLES * 28 * 28))
        with gzip.open(folder / f"{name}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(b"".join(n.to_bytes(4, "big") for n in (0x801, EXAMPLES)))
            file.write(bytes(i % 10 for i in range(EXAMPLES)))


def job_of(path):
    """The text of the job, and flags that the document shows with it."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".md":
        return text, []
    blocks = BLOCK.findall(text)
    if len(blocks) != 1:
        raise SystemExit(f"{path}: expected one job in a block of YAML, found {len(blocks)}")
    return blocks[0], [flag for line in SET.findall(text) for flag in line.split()]


def problems_of(root, file, program, how, folder):
    if not program.exists():
        yield f"{file}: {program} is not built"
        return
    job, flags = job_of(root / file)
    overrides = []
    for key, path in DATA.findall(job):
        if not path.startswith("/"):
            continue  # beside the job file, where the images are
        overrides += ["--set", f"data.{key}={folder / pathlib.Path(path).name}"]
        if DATASETS.exists() and not pathlib.Path(path).exists():
            yield f"{file}: the package dataset-fashion-mnist has no {path}"
    (folder / "job.yaml").write_text(job, encoding="utf-8")
    for more in ([], flags) if flags else ([],):
        command = [program, "--job", folder / "job.yaml", how, *overrides, *more]
        answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                timeout=300)
        if answer.returncode != 0:
            yield f"{file} {' '.join(more)}: {answer.stdout.strip()}"


def main():
    root, bin_folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    problems = []
    with tempfile.TemporaryDirectory(prefix="weir-jobs-") as name:
        folder = pathlib.Path(name)
        write_data(folder)
        for file, program, how in JOBS:
            problems += problems_of(root, file, bin_folder / program, how, folder)
    print("\n".join(problems) or f"{len(JOBS)} job files are in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
