#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the tree against its layers and habits: who may include whom, what may see gRPC and
LibTorch, licences, how long files are, that classes say from which threads they may be used.

usage: check_layers.py ROOT
Prints each breach as file:line: message and exits 1 if there is one.
"""
import pathlib
import re
import sys

# Folder -> folders that it may include from, besides itself.
MAY_INCLUDE = {
    "common": set(),
    "proto": set(),
    "sharding": {"common"},
    "rpc": {"common", "proto"},
    "checkpoint": {"common", "proto", "sharding"},
    "server": {"common", "proto", "rpc", "sharding", "checkpoint"},
    "coordinator": {"common", "proto", "rpc", "sharding", "checkpoint"},
    "client": {"common", "proto", "rpc", "sharding"},
    "worker": {"common", "proto", "rpc", "client", "sharding", "checkpoint"},
    "worker/embedded": {"common", "proto", "rpc", "client", "sharding", "checkpoint", "server"},
    "cli": {"common", "proto", "rpc", "client", "checkpoint"},
    "bench": {"common", "proto", "rpc", "client", "sharding", "checkpoint", "server", "coordinator",
              "worker", "cli"},
    "examples": set(),  # the public headers alone
}
# CMake libraries whose sources never reach a gRPC header, not even through another header of ours.
WITHOUT_GRPC = {"common", "sharding", "rpc_core", "server_core", "coordinator_core", "embedded"}
MAY_SEE_TORCH = {"worker", "bench", "examples", "tests"}
PUBLIC = ("client/include/weir", "worker/include/weir")
BUDGETS = {".h": 200, ".cc": 400}
OVER_BUDGET = {}  # file -> why it is one file all the same
LICENCE = "SPDX-License-Identifier: Apache-2.0"

INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]')
GRPC = re.compile(r"^grpc(pp)?/|\.grpc\.pb\.h$")
TORCH = re.compile(r"^(torch|ATen|c10)/")
PROTOBUF = re.compile(r"^google/protobuf/|\.pb\.h$")
# A class at namespace level that is defined here, and what its comment has to say.
CLASS = re.compile(r"^class (?:ABSL_\w+ )?(\w+)[^;]*$")
THREADS = re.compile(r"thread-safe|thread-compatible|used from one thread", re.I)


class Tree:
    def __init__(self, root):
        self.root = root
        self.breaches = []
        self._includes = {}

    def sources(self, folder):
        for path in sorted((self.root / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                yield path.relative_to(self.root).as_posix()

    def includes(self, file):
        """[(line number, included name)] of a file."""
        if file not in self._includes:
            lines = (self.root / file).read_text(encoding="utf-8").splitlines()
            found = ((n, INCLUDE.match(line)) for n, line in enumerate(lines, 1))
            self._includes[file] = [(n, match[1]) for n, match in found if match]
        return self._includes[file]

    def resolve(self, name):
        """The file of ours that an include means, or None."""
        if name.startswith("weir/v1/"):
            return "proto/" + name
        if name.startswith("weir/"):
            for public in PUBLIC:
                if (self.root / public / name[len("weir/"):]).exists():
                    return public + name[len("weir"):]
        return name if (self.root / name).exists() else None

    def breach(self, file, line, message):
        self.breaches.append(f"{file}:{line}: {message}")

    def reaches(self, file, pattern, chain=()):
        """The chain of includes from a file to a header that matches, or None."""
        for _, name in self.includes(file):
            if pattern.search(name):
                return chain + (file, name)
            target = self.resolve(name)
            if target and not target.startswith("proto/") and target not in chain + (file,):
                found = self.reaches(target, pattern, chain + (file,))
                if found:
                    return found
        return None


def folder_of(file):
    return "worker/embedded" if file.startswith("worker/embedded/") else file.split("/")[0]


def check_includes(tree):
    for folder in [f for f in MAY_INCLUDE if "/" not in f] + ["tests"]:
        for file in tree.sources(folder):
            for line, name in tree.includes(file):
                check_include(tree, file, line, name)


def check_include(tree, file, line, name):
    folder = folder_of(file)
    if TORCH.match(name) and (file.split("/")[0] not in MAY_SEE_TORCH or folder == "worker/embedded"):
        tree.breach(file, line, f"{folder} must not see LibTorch ({name})")
    target = tree.resolve(name)
    if target is None or folder == "tests" or target.startswith(PUBLIC) and folder == "examples":
        return
    owner = folder_of(target)
    if owner.split("/")[0] != folder.split("/")[0] and owner not in MAY_INCLUDE[folder]:
        tree.breach(file, line, f"{folder} must not include {owner} ({name})")


def check_cores(tree):
    library = re.compile(r"weir_library\(\s*(\w+)\s+SOURCES\s+([^)]*?)(?:PUBLIC|PRIVATE|\))", re.S)
    for cmake in sorted(tree.root.glob("**/CMakeLists.txt")):
        folder = cmake.parent.relative_to(tree.root).as_posix()
        if folder.startswith(("build", "tests")):
            continue
        for name, sources in library.findall(cmake.read_text(encoding="utf-8")):
            for source in sources.split() if name in WITHOUT_GRPC else []:
                file = f"{folder}/{source}"
                if not (tree.root / file).exists():
                    continue
                chain = tree.reaches(file, GRPC)
                if chain:
                    tree.breach(file, 1, f"weir::{name} must not see gRPC: " + " -> ".join(chain))


def check_public_headers(tree):
    for folder in PUBLIC:
        for file in tree.sources(folder):
            for pattern, what in ((GRPC, "gRPC"), (PROTOBUF, "protobuf")):
                chain = tree.reaches(file, pattern)
                if chain:
                    tree.breach(file, 1, f"public headers must not see {what}: " + " -> ".join(chain))


def check_licences(tree):
    suffixes = {".h", ".cc", ".proto", ".py", ".sh", ".cmake"}
    folders = [f for f in MAY_INCLUDE if "/" not in f] + ["tests", "cmake", "deploy"]
    for folder in folders:
        for path in sorted((tree.root / folder).rglob("*")):
            if path.suffix in suffixes or path.name == "CMakeLists.txt":
                head = path.read_text(encoding="utf-8").splitlines()[:2]
                if not any(LICENCE in line for line in head):
                    tree.breach(path.relative_to(tree.root).as_posix(), 1, f"no line '{LICENCE}'")


def check_length(tree):
    for folder in [f for f in MAY_INCLUDE if "/" not in f] + ["tests"]:
        for file in tree.sources(folder):
            lines = (tree.root / file).read_text(encoding="utf-8").count("\n")
            budget = BUDGETS[pathlib.PurePath(file).suffix]
            if lines > budget and file not in OVER_BUDGET:
                tree.breach(file, lines, f"{lines} lines; the budget is {budget}: cut it by "
                            "responsibility or operation, or say why not in OVER_BUDGET")
            elif lines <= budget and file in OVER_BUDGET:
                tree.breach(file, lines, "is within its budget: take it out of OVER_BUDGET")


def check_threads(tree):
    for folder in [f for f in MAY_INCLUDE if "/" not in f]:
        for file in (f for f in tree.sources(folder) if f.endswith(".h")):
            comment = ""
            text = (tree.root / file).read_text(encoding="utf-8")
            for number, line in enumerate(text.splitlines(), 1):
                defined = CLASS.match(line)
                if defined and not THREADS.search(comment + line):
                    tree.breach(file, number, f"{defined[1]}'s comment does not say whether it is "
                                "thread-safe, thread-compatible or used from one thread")
                if line.startswith("//"):
                    comment += " " + line.lstrip("/ ")
                elif not line.startswith(("template", "requires")):
                    comment = ""


def main():
    tree = Tree(pathlib.Path(sys.argv[1]).resolve())
    check_includes(tree)
    check_cores(tree)
    check_public_headers(tree)
    check_licences(tree)
    check_length(tree)
    check_threads(tree)
    for breach in tree.breaches:
        print(breach)
    print(f"{len(tree.breaches)} breaches of the layers and habits")
    return 1 if tree.breaches else 0


if __name__ == "__main__":
    sys.exit(main())
