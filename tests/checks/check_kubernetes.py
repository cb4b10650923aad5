#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Renders the kustomizations and holds what they say against the programs.

usage: check_kubernetes.py ROOT BIN_FOLDER
Every flag that a container passes must be in its program's --help, every port that is dialled or
probed must be one that something listens on, and as many pods must run as the job has workers.
Exits 77 (skipped) where kubectl is absent, or older than 1.22, whose kustomize has no "labels".
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

SKIPPED = 77
PROGRAM = re.compile(r"^\s*- (weir[\w-]*)$", re.M)
FLAG = re.compile(r"^\s*- (--[a-z-]+)", re.M)
LISTEN = re.compile(r"--listen=[^\s:]+:(\d+)")
PORT = re.compile(r"(?:containerPort|port): (\d+)|--(?:coordinator|advertise)=\S+:(\d+)")
PODS = re.compile(r"^  (completions|parallelism): (\d+)", re.M)
WORKERS = re.compile(r"^    workers: (\d+)", re.M)  # in the job file of the config map


def render(folder):
    return subprocess.run(["kubectl", "kustomize", str(folder)], check=True, capture_output=True,
                          text=True, timeout=60).stdout


def kubectl_minor():
    said = subprocess.run(["kubectl", "version", "--client", "-o", "json"], check=True,
                          capture_output=True, text=True, timeout=60).stdout
    return int(re.match(r"\d+", json.loads(said)["clientVersion"]["minor"])[0])


def help_of(program):
    return subprocess.run([str(program), "--help"], check=True, capture_output=True, text=True,
                          timeout=60).stdout


def flag_problems(manifest, bin_folder):
    program = PROGRAM.search(manifest)
    if not program:
        return
    path = bin_folder / program[1]
    if not path.exists():
        print(f"{program[1]} is not built here: its flags are not checked")
        return
    text = help_of(path)
    for flag in FLAG.findall(manifest):
        if not re.search(rf"(?<![\w-]){flag}(?![\w-])", text):
            yield f"{program[1]} has no flag {flag}"


def worker_problems(manifests):
    text = "\n".join(manifests)
    pods, workers = dict(PODS.findall(text)), WORKERS.findall(text)
    if set(pods) != {"completions", "parallelism"} or len(workers) != 1:
        yield f"expected one Job with completions and parallelism, and one job file: {pods}, {workers}"
        return
    for key, number in pods.items():
        if number != workers[0]:
            yield f"job.yaml has {key}: {number}, training.yaml workers: {workers[0]}"


def main():
    root, bin_folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    if not shutil.which("kubectl"):
        print("skipped: kubectl is not installed")
        return SKIPPED
    if kubectl_minor() < 22:
        print("skipped: kubectl is older than 1.22")
        return SKIPPED
    manifests = []
    for folder in ("base", "worker"):
        manifests += render(root / "deploy/kubernetes" / folder).split("\n---\n")
    problems = [p for manifest in manifests for p in flag_problems(manifest, bin_folder)]
    problems += worker_problems(manifests)
    listened = {port for manifest in manifests for port in LISTEN.findall(manifest)}
    for manifest in manifests:
        for ports in PORT.findall(manifest):
            port = "".join(ports)
            if port not in listened:
                problems.append(f"nothing listens on port {port}")
    print("\n".join(problems) or f"{len(manifests)} manifests are in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
