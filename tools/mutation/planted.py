"""Planted bugs: whether the explorer finds each, and finds it again."""

import dataclasses
import glob
import os
import re
import time

import scratch
import stages

_SEARCH_SECONDS = 600
_REPLAYS = 3
_SAME_RUN = "the same run as recorded, choice for choice"


@dataclasses.dataclass(frozen=True)
class Planted:
    name: str
    path: str
    # The sentence at its head.
    what: str


@dataclasses.dataclass(frozen=True)
class Found:
    seed: str
    # Runs of the search until the end of the one that failed.
    seconds: float
    same_replays: int
    # What went wrong with the search itself, or empty.
    error: str = ""

    def is_whole(self):
        return not self.error and self.same_replays == _REPLAYS


def patches(root):
    """The planted bugs of a tree."""
    found = []
    pattern = os.path.join(root, "testing/planted/*.patch")
    for path in sorted(glob.glob(pattern)):
        with open(path, encoding="utf-8") as file:
            head = file.read().partition("\n\n")[0]
        name = os.path.basename(path).removesuffix(".patch")
        found.append(Planted(name, path, " ".join(head.split())))
    return found


def apply(folder, patch_path, check=False, reverse=False):
    """Applies a patch to the files below `folder`; an empty text, or what git
    said."""
    flags = ["--check"] if check else []
    flags += ["--reverse"] if reverse else []
    # The folder is no repository, whatever holds it.
    environment = {"GIT_CEILING_DIRECTORIES": os.path.dirname(folder)}
    ended = scratch.run(
        ["git", "apply", *flags, patch_path], folder, 60, environment
    )
    return "" if ended.status == 0 else ended.output.strip()


def find(tree, bug, seeds):
    """Applies one bug to the scratch tree, searches, replays what is found."""
    wrong = apply(tree.tree, bug.path)
    if wrong:
        return Found("", 0, 0, f"does not apply: {wrong}")
    try:
        return _find_applied(tree, bug, seeds)
    finally:
        apply(tree.tree, bug.path, reverse=True)


def _find_applied(tree, bug, seeds):
    explorer = stages.build_explorer(tree)
    if explorer is None:
        return Found("", 0, 0, stages.DOES_NOT_COMPILE)
    traces = os.path.join(tree.folder, "traces", bug.name)
    os.makedirs(traces, exist_ok=True)
    begin = time.monotonic()
    search = ["--vary", f"--seeds={seeds}", f"--traces={traces}"]
    ended = stages.explore(tree, explorer, search, _SEARCH_SECONDS)
    seconds = time.monotonic() - begin
    if ended.status == 0:
        return Found("", seconds, 0, f"not found in {seeds} seeds")
    if ended.status is None:
        return Found("", seconds, 0, "a hang")
    seed = re.search(r"^seed (\d+)", ended.output, re.MULTILINE)
    trace = re.search(r"--replay (\S+)", ended.output)
    if not seed or not trace:
        return Found("", seconds, 0, f"exit status {ended.status} and no trace")
    same = 0
    for _ in range(_REPLAYS):
        replayed = stages.explore(tree, explorer, ["--replay", trace.group(1)])
        same += replayed.status == 1 and _SAME_RUN in replayed.output
    return Found(seed.group(1), seconds, same)


def table(found):
    """A Markdown table of (bug, what was found)."""
    lines = [
        "| planted bug | what it is | found by | replays that are the same |",
        "|---|---|---|---|",
    ]
    for bug, result in found:
        by = result.error or f"seed {result.seed}"
        lines.append(
            f"| `{bug.name}` | {bug.what} | {by} | "
            f"{result.same_replays} of {_REPLAYS} |"
        )
    return lines
