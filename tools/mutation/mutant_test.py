import os
import tempfile
import unittest

import lists
import mutant

SOURCE = "int One() { return 1; }\nint Two() { return 2; }\n"
ENTRY = """name: one-is-two
stands for: A wrong number.
file: a/x.cc
pattern: {pattern}
replacement: {replacement}
tests: //a:x_test //b:y_test
"""


class MutantTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        os.mkdir(os.path.join(self.root, "a"))
        self.write("a/x.cc", SOURCE)

    def write(self, path, text):
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as file:
            file.write(text)

    def chosen(self, pattern, replacement):
        self.write(
            "list.txt", ENTRY.format(pattern=pattern, replacement=replacement)
        )
        return mutant.chosen(self.root, os.path.join(self.root, "list.txt"))

    def test_an_edit_changes_what_its_pattern_names_and_nothing_else(self):
        (one,) = self.chosen("return 1;", "return 2;")
        self.assertEqual(
            one.applied_to(SOURCE).removeprefix(mutant.WARNINGS_OFF),
            SOURCE.replace("1", "2"),
        )
        self.assertEqual(one.tests, ("//a:x_test", "//b:y_test"))

    def test_a_pattern_must_stand_once_in_its_file(self):
        for pattern, count in (("return", 2), ("return 3;", 0)):
            with self.assertRaises(lists.ListError) as raised:
                self.chosen(pattern, "")
            self.assertIn(
                f"in a/x.cc, found {count} times", str(raised.exception)
            )

    def test_an_edit_that_changes_nothing_is_an_error(self):
        with self.assertRaises(lists.ListError):
            self.chosen("return 1;", "return 1;")

    def test_a_file_that_is_not_there_is_an_error(self):
        os.remove(os.path.join(self.root, "a/x.cc"))
        with self.assertRaises(lists.ListError) as raised:
            self.chosen("return 1;", "return 2;")
        self.assertIn("there is no file a/x.cc", str(raised.exception))

    def test_another_edit_has_another_digest(self):
        digests = {
            self.chosen("return 1;", text)[0].digest
            for text in ("", "return 2;")
        }
        self.assertEqual(len(digests), 2)


if __name__ == "__main__":
    unittest.main()
