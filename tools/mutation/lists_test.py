import unittest

import lists

KEYS = ("name", "text")


def parse(text):
    return lists.parse(text, "list.txt", KEYS, ("name",))


class ListsTest(unittest.TestCase):
    def test_an_empty_line_ends_a_block(self):
        blocks = parse("name: a\ntext: b: c\n\nname: d\n")
        self.assertEqual(
            blocks,
            [
                {"name": "a", "text": "b: c", "line": 1},
                {"name": "d", "line": 4},
            ],
        )

    def test_a_value_of_several_lines_keeps_their_spaces(self):
        blocks = parse("name: a\ntext:\n  | one\n  |   two\n  |\n  | three\n")
        self.assertEqual(blocks[0]["text"], "one\n  two\n\nthree")

    def test_a_comment_is_no_value(self):
        self.assertEqual(parse("# about\nname: a\n# more\n")[0]["name"], "a")

    def test_what_cannot_be_read_names_its_line(self):
        for text, said in (
            ("name: a\ncolour: b\n", "list.txt:2: want one of name, text"),
            ("name: a\nname: b\n", "list.txt:2: a second 'name'"),
            ("\n  | b\n", "list.txt:2: a line of a value without a key"),
            ("\ntext: a\n", "list.txt:2: a block without 'name'"),
        ):
            with self.assertRaises(lists.ListError) as raised:
                parse(text)
            self.assertIn(said, str(raised.exception))

    def test_two_blocks_of_one_name_are_an_error(self):
        with self.assertRaises(lists.ListError) as raised:
            lists.unique(parse("name: a\n\nname: a\n"), "name", "list.txt")
        self.assertIn(
            "list.txt:3: 'a' stands twice, first in line 1",
            str(raised.exception),
        )


if __name__ == "__main__":
    unittest.main()
