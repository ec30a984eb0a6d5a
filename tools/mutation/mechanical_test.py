import unittest

import mechanical

SOURCE = """\
#include <vector>
#define kWidth 8

namespace n {

// The last of 7 numbers; never of none.
int64_t Last(const std::vector<int64_t>& numbers, int64_t first,
             int64_t second) {
  if (numbers.empty()) return first;
  std::vector<int64_t> copy;
  copy.reserve(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    copy.push_back(numbers[i]);
  }
  if (const int64_t sum = Sum(first, second); sum > 10) Warn(sum);
  return std::min(first, second);
}

std::string Name(int64_t rank) {
  if (rank > 3) return "many";
  return absl::StrCat("rank ", rank + 1);
}

absl::Status Refuse(int64_t got) {
  return absl::InternalError(absl::StrCat("want 5, got ", got - 6));
}

}  // namespace n
"""


def found(kind, text=SOURCE, header=""):
    return [
        text[m.begin : m.end] + " -> " + m.replacement
        for m in mechanical.candidates("a/x.cc", text, header, ())[kind]
    ]


class MechanicalTest(unittest.TestCase):
    def test_statements_that_can_have_an_effect_are_deleted(self):
        self.assertEqual(
            found(mechanical.DELETE),
            [
                "if (numbers.empty()) return first; -> ;",
                "copy.push_back(numbers[i]); -> ;",
                "if (const int64_t sum = Sum(first, second); sum > 10) "
                "Warn(sum); -> ;",
                "Warn(sum); -> ;",
            ],
        )

    def test_conditions_are_negated_without_the_declaration_before_them(self):
        self.assertEqual(
            found(mechanical.NEGATE),
            [
                "numbers.empty() -> !(numbers.empty())",
                "sum > 10 -> !(sum > 10)",
            ],
        )

    def test_numbers_of_code_are_shifted_and_no_others(self):
        # Not those of comments, macros, messages, and functions that make text.
        self.assertEqual(
            found(mechanical.SHIFT), ["0 -> 1", "10 -> 11", "10 -> 9"]
        )

    def test_numbers_keep_their_endings(self):
        text = "void F() { G(0x1Fu, 1'000, 0.5, 2); }"
        self.assertEqual(
            found(mechanical.SHIFT, text),
            [
                "0x1Fu -> 32u",
                "0x1Fu -> 30u",
                "1'000 -> 1001",
                "1'000 -> 999",
                "0.5 -> (0.5 + 1)",
                "2 -> 3",
                "2 -> 1",
            ],
        )

    def test_arguments_of_one_type_are_swapped(self):
        # Those of std::min are the same either way.
        self.assertEqual(
            found(mechanical.SWAP), ["first, second -> second, first"]
        )

    def test_types_come_from_the_header_too(self):
        text = "void F(double x) { G(x, count_, size_); }"
        header = "class C {\n  int64_t count_;\n  int32_t size_ = 0;\n};\n"
        self.assertEqual(found(mechanical.SWAP, text), [])
        self.assertEqual(
            found(mechanical.SWAP, text, header),
            ["count_, size_ -> size_, count_"],
        )

    def test_parameters_are_not_arguments(self):
        text = "void F(int64_t first, int64_t second);"
        self.assertEqual(found(mechanical.SWAP, text), [])

    def test_one_seed_gives_one_draw_and_another_gives_another(self):
        def names(seed):
            made = mechanical.candidates("a/x.cc", SOURCE, "", ())
            return [m.name for m in mechanical.draw([made], seed)]

        self.assertEqual(names(1), names(1))
        self.assertEqual(sorted(names(1)), sorted(names(2)))
        self.assertNotEqual(names(1), names(2))

    def test_kinds_take_turns(self):
        made = mechanical.candidates("a/x.cc", SOURCE, "", ())
        kinds = [m.name.split("-")[1] for m in mechanical.draw([made], 1)[:4]]
        self.assertEqual(kinds, ["delete", "negate", "shift", "swap"])

    def test_a_change_elsewhere_leaves_a_draw_as_it_is(self):
        def digests(text):
            made = mechanical.candidates("a/x.cc", text, "", ())
            return [m.digest for m in mechanical.draw([made], 1)]

        moved = SOURCE.replace("namespace n {", "namespace n {\n\nint kept;")
        self.assertEqual(digests(SOURCE), digests(moved))


if __name__ == "__main__":
    unittest.main()
