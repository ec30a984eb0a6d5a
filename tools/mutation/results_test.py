import os
import tempfile
import unittest

import mutant
import results
import stages

RUN = {"command": "chosen", "seeds": 150}


def make(name, digest="d"):
    return mutant.Mutant(name, "A | B.", "a/x.cc", 0, 1, "", (), digest)


KILLED = stages.Verdict(stages.KILLED, "//a:x_test X.Y", 2)
SURVIVED = stages.Verdict(stages.SURVIVED, stage=3)
NOT_COMPILED = stages.Verdict(stages.DOES_NOT_COMPILE, stage=1)


class StateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "state.txt")

    def test_a_run_that_goes_on_knows_its_verdicts(self):
        results.State(self.path, RUN).add(make("one"), KILLED)
        state = results.State(self.path, RUN)
        self.assertEqual(state.verdict_of(make("one")), KILLED)
        self.assertIsNone(state.verdict_of(make("two")))
        state.add(make("two"), SURVIVED)
        self.assertEqual(
            results.State(self.path, RUN).verdict_of(make("two")), SURVIVED
        )

    def test_the_later_verdict_on_a_mutant_counts(self):
        state = results.State(self.path, RUN)
        state.add(make("one"), stages.Verdict(stages.SURVIVED, stage=1))
        state.add(make("one"), KILLED)
        self.assertEqual(
            results.State(self.path, RUN).verdict_of(make("one")), KILLED
        )

    def test_survivors_can_be_judged_once_more(self):
        state = results.State(self.path, RUN)
        state.add(make("one"), KILLED)
        state.add(make("two"), SURVIVED)
        state.forget_survivors()
        self.assertEqual(state.verdict_of(make("one")), KILLED)
        self.assertIsNone(state.verdict_of(make("two")))

    def test_a_verdict_on_another_edit_does_not_count(self):
        results.State(self.path, RUN).add(make("one"), KILLED)
        state = results.State(self.path, RUN)
        self.assertIsNone(state.verdict_of(make("one", digest="other")))

    def test_half_a_line_is_forgotten(self):
        results.State(self.path, RUN).add(make("one"), KILLED)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write('{"name": "tw')
        results.State(self.path, RUN).add(make("two"), SURVIVED)
        state = results.State(self.path, RUN)
        self.assertEqual(state.verdict_of(make("one")), KILLED)
        self.assertEqual(state.verdict_of(make("two")), SURVIVED)

    def test_the_state_of_another_run_is_an_error(self):
        results.State(self.path, RUN)
        with self.assertRaises(results.StateError) as raised:
            results.State(self.path, {**RUN, "seeds": 10})
        self.assertIn("got the state of", str(raised.exception))

    def test_without_a_file_nothing_is_kept(self):
        state = results.State(None, RUN)
        state.add(make("one"), KILLED)
        self.assertEqual(state.verdict_of(make("one")), KILLED)
        self.assertFalse(os.path.exists(self.path))


class TableTest(unittest.TestCase):
    def test_each_mutant_has_its_end(self):
        rows = results.table(
            [
                (make("one"), KILLED),
                (make("two"), SURVIVED),
                (make("three"), SURVIVED),
                (make("four"), NOT_COMPILED),
            ],
            {"three": "it is the same"},
        )[2:]
        ends = [row.split(" | ")[-1] for row in rows]
        self.assertEqual(
            ends,
            [
                "killed by //a:x_test X.Y |",
                "**survived** |",
                "survived: it is the same |",
                "does not compile |",
            ],
        )
        self.assertIn("A \\| B.", rows[0])

    def test_only_what_compiles_is_counted(self):
        judged = [
            (make("a"), KILLED),
            (make("b"), SURVIVED),
            (make("c"), NOT_COMPILED),
        ]
        line, all_explained = results.summary(judged, {})
        self.assertEqual(
            line,
            "2 mutants: 1 killed (50.0 %), 1 survived (0 with a reason); "
            "1 more do not compile",
        )
        self.assertFalse(all_explained)

    def test_a_run_is_good_if_every_survivor_has_its_reason(self):
        judged = [(make("a"), KILLED), (make("b"), SURVIVED)]
        self.assertTrue(results.summary(judged, {"b": "why"})[1])


if __name__ == "__main__":
    unittest.main()
