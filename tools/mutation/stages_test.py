import unittest

import mutant
import scratch
import stages

TEXT = "int x = 1;\n"
MUTANT = mutant.Mutant(
    name="two",
    stands_for="",
    path="a/x.cc",
    begin=8,
    end=9,
    replacement="2",
    tests=("//a:x_test",),
    digest="d",
)


class ScriptedTree:
    """Answers as told, and notes what it is asked and what the file held."""

    def __init__(self, answers):
        self.folder = self.tree = "/tmp"
        self.text = TEXT
        self.asked = []
        self.seen = []
        self._answers = dict(answers)

    def read(self, path):
        assert path == MUTANT.path
        return self.text

    def write(self, path, text):
        assert path == MUTANT.path
        self.text = text

    def bazel(self, name, command, arguments, seconds):
        asked = f"{command} {arguments[-1]}"
        self.asked.append(asked)
        self.seen.append(self.text)
        status, output = self._answers.get(asked, (0, ""))
        return scratch.Outcome(status, output)

    def built(self, name, path):
        return f"/tmp/{name}-bin/{path}"


def judge(answers, explored=(0, ""), stage_max=3, stage_done=0):
    tree = ScriptedTree(answers)
    run = scratch.run
    scratch.run = lambda *_: scratch.Outcome(*explored)
    try:
        made = stages.Judge(tree, lambda _: ("//a/...",), stage_max=stage_max)
        return made.judge(MUTANT, stage_done), tree
    finally:
        scratch.run = run


class StagesTest(unittest.TestCase):
    def test_what_nothing_finds_has_gone_through_every_stage(self):
        verdict, tree = judge({})
        self.assertEqual(verdict, stages.Verdict(stages.SURVIVED, stage=3))
        self.assertEqual(
            tree.asked,
            ["build //tools:explore", "test //a:x_test", "test //a/..."],
        )

    def test_the_mutant_is_there_while_it_is_judged_and_then_gone(self):
        _, tree = judge({})
        for seen in tree.seen:
            self.assertTrue(seen.endswith("int x = 2;\n"))
        self.assertEqual(tree.text, TEXT)

    def test_the_cheapest_killer_ends_it(self):
        said = "x\nseed 7 (random) failed: y\n"
        verdict, tree = judge({}, explored=(1, said))
        self.assertEqual(
            verdict, stages.Verdict(stages.KILLED, "explore: seed 7", 1)
        )
        self.assertEqual(tree.asked, ["build //tools:explore"])

    def test_a_hang_is_a_kill_and_is_said(self):
        verdict, _ = judge({}, explored=(None, ""))
        self.assertEqual(verdict.by, "explore: a hang")
        output = "TIMEOUT: //a:x_test (see x.log)\n"
        verdict, _ = judge({"test //a:x_test": (3, output)})
        self.assertEqual(verdict.by, "//a:x_test: a hang")

    def test_a_killer_is_a_target_and_its_first_case_that_failed(self):
        output = (
            "FAIL: //a:x_test (shard 1 of 2) (see x.log)\n"
            "[  FAILED  ] XTest.Counts (0 ms)\n//a:x_test    NO STATUS\n"
        )
        verdict, _ = judge({"test //a:x_test": (3, output)})
        self.assertEqual(
            verdict, stages.Verdict(stages.KILLED, "//a:x_test XTest.Counts", 2)
        )

    def test_what_does_not_compile_is_neither_killed_nor_alive(self):
        for asked in ("build //tools:explore", "test //a:x_test"):
            verdict, _ = judge({asked: (1, "error")})
            self.assertEqual(verdict.result, stages.DOES_NOT_COMPILE)

    def test_a_run_goes_on_behind_the_stages_that_it_passed(self):
        _, tree = judge({}, stage_done=2)
        self.assertEqual(tree.asked, ["test //a/..."])

    def test_no_later_stage_is_run_than_asked_for(self):
        verdict, tree = judge({}, stage_max=1)
        self.assertEqual(verdict.stage, 1)
        self.assertEqual(tree.asked, ["build //tools:explore"])

    def test_trouble_with_bazel_is_no_verdict(self):
        for asked in ("build //tools:explore", "test //a:x_test"):
            with self.assertRaises(stages.JudgeError):
                judge({asked: (37, "no memory")})

    def test_the_tree_as_it_is_must_pass(self):
        tree = ScriptedTree({"build //tools:explore": (1, "error")})
        with self.assertRaises(stages.JudgeError):
            stages.Judge(tree, None).check_whole(["//a:x_test"])


if __name__ == "__main__":
    unittest.main()
