import contextlib
import io
import os
import subprocess
import tempfile
import unittest

import lists
import mutant
import mutate
import planted
import results
import scratch
import stages


def make(name):
    return mutant.Mutant(name, "", "a/x.cc", 0, 1, "", (), name)


class ScriptedJudge:
    """Gives the verdicts that it is told."""

    def __init__(self, verdicts, stage_max=3):
        self.stage_max = stage_max
        self._verdicts = verdicts
        self.judged = []
        self.checked = 0

    def check_whole(self, targets):
        self.checked += 1

    def judge(self, each, stage_done):
        self.judged.append((each.name, stage_done))
        return self._verdicts[each.name]


def judge_all(judge, names, state, count):
    with contextlib.redirect_stdout(io.StringIO()):
        return mutate.judge_all(judge, [make(n) for n in names], state, count)


KILLED = stages.Verdict(stages.KILLED, "t", 1)
NOT_COMPILED = stages.Verdict(stages.DOES_NOT_COMPILE, stage=1)


class MutateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def test_mutants_that_do_not_compile_do_not_count(self):
        judge = ScriptedJudge({"a": NOT_COMPILED, "b": KILLED, "c": KILLED})
        judged = judge_all(judge, "abc", results.State(None, {}), 1)
        self.assertEqual([m.name for m, _ in judged], ["a", "b"])
        self.assertEqual(judge.checked, 1)

    def test_what_was_judged_is_not_judged_again(self):
        state = results.State(None, {})
        state.add(make("a"), KILLED)
        judge = ScriptedJudge({"b": KILLED})
        judged = judge_all(judge, "ab", state, 2)
        self.assertEqual(judge.judged, [("b", 0)])
        self.assertEqual(len(judged), 2)
        # With every verdict there, nothing needs to be built.
        judge = ScriptedJudge({})
        judge_all(judge, "ab", state, 2)
        self.assertEqual(judge.checked, 0)

    def test_what_survived_fewer_stages_goes_on_behind_them(self):
        state = results.State(None, {})
        state.add(make("a"), stages.Verdict(stages.SURVIVED, stage=2))
        judge_all(ScriptedJudge({}, stage_max=2), "a", state, 1)
        judge = ScriptedJudge({"a": KILLED})
        judge_all(judge, "a", state, 1)
        self.assertEqual(judge.judged, [("a", 2)])

    def test_the_tests_above_a_file_are_those_of_its_innermost_folder(self):
        above = mutate.tests_above(
            {"a": {"tests": "//a/..."}, "a/b": {"tests": "//a/b/... //c/..."}}
        )
        self.assertEqual(above("a/x.cc"), ("//a/...",))
        self.assertEqual(above("a/b/x.cc"), ("//a/b/...", "//c/..."))
        self.assertEqual(above("ab/x.cc"), ())

    def test_a_name_that_there_is_not_is_an_error(self):
        self.assertEqual(len(mutate.select([make("a"), make("b")], ["b"])), 1)
        with self.assertRaises(lists.ListError):
            mutate.select([make("a")], ["b"])

    def test_what_stands_behind_two_dashes_goes_to_bazel(self):
        parsed = mutate.parse(
            ["mechanical", "--seed", "7", "--count=3", "--", "--jobs=2"]
        )
        self.assertEqual((parsed.seed, parsed.count), (7, 3))
        self.assertEqual(parsed.bazel_flags, ["--jobs=2"])

    def test_bad_flags_are_refused(self):
        for arguments in (
            [],
            ["mechanical"],
            ["mechanical", "--seed", "1", "--count", "0"],
            ["chosen", "--stages", "4"],
            ["chosen", "--seeds", "0"],
        ):
            with self.assertRaises(SystemExit):
                with contextlib.redirect_stderr(io.StringIO()):
                    mutate.parse(arguments)

    def test_a_scratch_copy_has_what_git_has_and_leaves_the_rest(self):
        self.write("tree/a/x.cc", "one")
        self.write("tree/.gitignore", "built\n")
        self.write("tree/built", "no")
        self.write("scratch/tree/a/old.cc", "old")
        root = os.path.join(self.root, "tree")
        folder = os.path.join(self.root, "scratch")
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        with scratch.Scratch(root, folder, []) as copy:
            self.assertEqual(copy.read("a/x.cc"), "one")
            copy.write("a/x.cc", "two")
            self.assertEqual(
                sorted(os.listdir(copy.tree)), [".gitignore", "a"]
            )
            self.assertEqual(os.listdir(os.path.join(copy.tree, "a")), ["x.cc"])
        with open(os.path.join(root, "a/x.cc"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "one")
        # The next copy is of the tree again.
        with scratch.Scratch(root, folder, []) as copy:
            self.assertEqual(copy.read("a/x.cc"), "one")

    def test_a_program_past_its_time_has_no_status(self):
        self.assertIsNone(scratch.run(["sleep", "600"], "/", 0.01).status)
        ended = scratch.run(["sh", "-c", "echo said; exit 3"], "/", 60)
        self.assertEqual((ended.status, ended.output), (3, "said\n"))

    def test_a_planted_bug_is_applied_and_taken_back(self):
        self.write("a/x.cc", "one\ntwo\n")
        self.write(
            "testing/planted/x.patch",
            "What it\nis.\n\n--- a/a/x.cc\n+++ b/a/x.cc\n@@ -1,2 +1,2 @@\n"
            " one\n-two\n+three\n",
        )
        (bug,) = planted.patches(self.root)
        self.assertEqual((bug.name, bug.what), ("x", "What it is."))
        self.assertEqual(planted.apply(self.root, bug.path), "")
        self.assertNotEqual(planted.apply(self.root, bug.path, check=True), "")
        self.assertEqual(planted.apply(self.root, bug.path, reverse=True), "")
        self.assertEqual(planted.apply(self.root, bug.path, check=True), "")

    def test_a_bug_is_found_only_if_its_replays_are_the_same(self):
        self.assertTrue(planted.Found("3", 1.0, 3).is_whole())
        self.assertFalse(planted.Found("3", 1.0, 2).is_whole())
        self.assertFalse(planted.Found("", 1.0, 3, "a hang").is_whole())


if __name__ == "__main__":
    unittest.main()
