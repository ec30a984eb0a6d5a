"""How a mutant is judged: the cheapest killer first.

  1  the explorer runs many schedules of a training step
  2  the tests that belong to what is changed
  3  all tests of the folders that rest on it

The tree as it is must pass whatever a mutant is judged by: see `check_whole`.
"""

import dataclasses
import os
import re

import scratch

KILLED = "killed"
SURVIVED = "survived"
DOES_NOT_COMPILE = "does not compile"

STAGE_MAX = 3
_BUILD_SECONDS = 900
_EXPLORE_SECONDS = 60
_TEST_SECONDS = 60
_TESTS_SECONDS = 1800

# Exit statuses of Bazel.
_PASSED, _BUILD_FAILED, _NO_TESTS = 0, 1, 4
# As it happens: the summary in the end lacks a target of which a shard failed
# while another still ran.
_FAILED_TARGET = re.compile(r"^(FAIL|TIMEOUT): (//\S+)", re.MULTILINE)
_FAILED_CASE = re.compile(r"^\[  FAILED  \] ([\w./]+)", re.MULTILINE)


class JudgeError(RuntimeError):
    """What keeps mutants from being judged at all."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    result: str
    # What killed it.
    by: str = ""
    # The last stage that it went through.
    stage: int = 0


def _last_lines(text, count=15):
    return "\n".join(text.strip().split("\n")[-count:])


def build_explorer(tree):
    """Builds the explorer; returns its path, or None if it does not compile."""
    built = tree.bazel(
        "explorer", "build", ["--config=opt", "//tools:explore"], _BUILD_SECONDS
    )
    if built.status == _BUILD_FAILED:
        return None
    if built.status != _PASSED:
        raise JudgeError(f"bazel build failed:\n{_last_lines(built.output)}")
    return tree.built("explorer", "tools/explore")


def explore(tree, explorer, flags, seconds=_EXPLORE_SECONDS):
    command = scratch.limited([explorer, *flags])
    return scratch.run(command, tree.folder, seconds)


def _first_line(pattern, text):
    match = re.search(pattern, text, re.MULTILINE)
    return match.group(0) if match else ""


def _explorer_stage(tree, seeds):
    explorer = build_explorer(tree)
    if explorer is None:
        return Verdict(DOES_NOT_COMPILE, stage=1)
    traces = os.path.join(tree.folder, "traces")
    os.makedirs(traces, exist_ok=True)
    ended = explore(
        tree,
        explorer,
        ["--vary", f"--seeds={seeds}", "--shrink-runs=0", f"--traces={traces}"],
    )
    if ended.status == 0:
        return None
    if ended.status is None:
        return Verdict(KILLED, "explore: a hang", 1)
    seed = _first_line(r"^seed \d+", ended.output)
    return Verdict(KILLED, f"explore: {seed or 'refused'}", 1)


def _tests_stage(tree, targets, stage):
    ended = tree.bazel(
        "tests",
        "test",
        [
            "--notest_keep_going",
            "--test_env=GTEST_FAIL_FAST=1",
            f"--test_timeout={_TEST_SECONDS}",
            "--test_output=errors",
            "--test_tag_filters=-external",
            "--",
            *targets,
        ],
        _TESTS_SECONDS,
    )
    if ended.status in (_PASSED, _NO_TESTS):
        return None
    if ended.status is None:
        return Verdict(KILLED, "tests: a hang", stage)
    failed = _FAILED_TARGET.search(ended.output)
    if not failed and ended.status == _BUILD_FAILED:
        return Verdict(DOES_NOT_COMPILE, stage=stage)
    if not failed:
        raise JudgeError(f"bazel test failed:\n{_last_lines(ended.output)}")
    how, target = failed.groups()
    case = _FAILED_CASE.search(ended.output)
    if how == "TIMEOUT":
        return Verdict(KILLED, f"{target}: a hang", stage)
    by = f"{target} {case.group(1)}" if case else target
    return Verdict(KILLED, by, stage)


@dataclasses.dataclass(frozen=True)
class Judge:
    """Judges mutants in `tree` up to a stage. `tests_above` gives the targets
    of the third stage for a path."""

    tree: scratch.Scratch
    tests_above: object
    seeds: int = 150
    stage_max: int = STAGE_MAX

    def check_whole(self, targets):
        """Fails unless the tree as it is passes explorer and `targets`."""
        verdict = _explorer_stage(self.tree, self.seeds)
        if verdict is None and targets and self.stage_max > 1:
            verdict = _tests_stage(self.tree, targets, 2)
        if verdict is not None:
            raise JudgeError(
                "the tree as it is must pass, or nothing is told by a mutant "
                f"that fails: {verdict.result} {verdict.by}"
            )

    def judge(self, mutant, stage_done=0):
        """The verdict on one mutant, which passed `stage_done` before."""
        text = self.tree.read(mutant.path)
        self.tree.write(mutant.path, mutant.applied_to(text))
        try:
            return self._judge_written(mutant, stage_done)
        finally:
            self.tree.write(mutant.path, text)

    def _judge_written(self, mutant, stage_done):
        targets = {2: mutant.tests, 3: self.tests_above(mutant.path)}
        for stage in range(stage_done + 1, self.stage_max + 1):
            verdict = None
            if stage == 1:
                verdict = _explorer_stage(self.tree, self.seeds)
            elif targets[stage]:
                verdict = _tests_stage(self.tree, targets[stage], stage)
            if verdict is not None:
                return verdict
        return Verdict(SURVIVED, stage=self.stage_max)
