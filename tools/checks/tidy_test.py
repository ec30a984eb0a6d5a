"""Plants one breach of each rule and sees that it, and only it, is found."""

import os
import tempfile
import unittest

import cc_source
import tidy

HEADER = """// Contract.

#ifndef COLLECTIVES_A_H_
#define COLLECTIVES_A_H_

#include <vector>

#include "absl/strings/str_cat.h"
#include "topology/rank.h"

namespace muonshard {
class A {
 public:
  int Value() const { return 1'000; }
};
}  // namespace muonshard

#endif  // COLLECTIVES_A_H_
"""
SOURCE = """#include "collectives/a.h"

#include <string>

namespace muonshard {
// A std::mutex in a comment, and below in text, is no use of one.
const char* Name() { return "std::mutex"; }
}  // namespace muonshard
"""
RANK = """// Contract.

#ifndef TOPOLOGY_RANK_H_
#define TOPOLOGY_RANK_H_
#endif  // TOPOLOGY_RANK_H_
"""
CLEAN = {
    "BUILD": "",
    "collectives/BUILD": '["a.h", "a.cc", "runtime/clock.cc"]',
    "collectives/a.h": HEADER,
    "collectives/a.cc": SOURCE,
    "collectives/runtime/clock.cc": "#include <chrono>\nstd::mutex m;\n",
    "topology/BUILD": '["rank.h"]',
    "topology/rank.h": RANK,
}


class TidyTest(unittest.TestCase):
    def breaches(self, **changes):
        """Of the clean tree with `changes`, path to text, laid over it."""
        return self.breaches_of({**CLEAN, **changes})

    def breaches_of(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                full_path = os.path.join(root, path)
                os.makedirs(os.path.dirname(full_path), exist_ok=True)
                with open(full_path, "w", encoding="utf-8") as file:
                    file.write(text)
            return tidy.check_tree(root)

    def expect_one(self, path, text, want):
        breaches = self.breaches_of({**CLEAN, path: text})
        self.assertEqual(len(breaches), 1, breaches)
        self.assertIn(want, breaches[0])
        self.assertTrue(breaches[0].startswith(path), breaches)

    def expect_in_source(self, added, want):
        self.expect_one("collectives/a.cc", SOURCE + added, want)

    def test_a_clean_tree_has_none(self):
        self.assertEqual(self.breaches(), [])

    def test_long_line(self):
        self.expect_in_source("int " + "x" * 77 + ";\n", "82 columns")

    def test_leftover(self):
        self.expect_in_source("// TO" + "DO: x\n", "finish it")

    def test_leftover_in_a_script(self):
        self.expect_one("tools/x.py", "# FIX" + "ME\n", "finish it")

    def test_long_source(self):
        self.expect_in_source("int x;\n" * 400, "at most 400")

    def test_long_header(self):
        text = HEADER.replace("class A", "int x;\n" * 150 + "class A")
        self.expect_one("collectives/a.h", text, "at most 150")

    def test_long_function(self):
        body = "int F(int x) {\n" + "  ++x;\n" * 70 + "}\n"
        self.expect_in_source(body, "a function of 72 lines")

    def test_long_method_in_a_class(self):
        body = "struct S {\n  void F() {\n" + "    G();\n" * 70 + "  }\n};\n"
        self.expect_in_source(body, "a function of 72 lines")

    def test_wrong_guard(self):
        for line in ("#ifndef COL", "#define COL", "#endif  // COL"):
            text = HEADER.replace(line, line.replace("COL", "XCOL"))
            self.expect_one("collectives/a.h", text, "want the line")

    def test_header_without_contract(self):
        text = HEADER.replace("// Contract.\n\n", "")
        self.expect_one("collectives/a.h", text, "states the contract")

    def test_own_header_not_first(self):
        text = SOURCE.replace('#include "collectives/a.h"\n\n', "")
        text = text.replace(
            "#include <string>", '#include <string>\n#include "collectives/a.h"'
        )
        self.expect_one("collectives/a.cc", text, '"collectives/a.h" first')

    def test_own_header_missing(self):
        self.expect_one("collectives/a.cc", "int x;\n", '"collectives/a.h" first')

    def test_relative_include(self):
        self.expect_in_source('#include "../topology/rank.h"\n', "from the root")
        self.expect_in_source('#include "rank.h"\n', "from the root")

    def test_include_of_ours_in_angle_brackets(self):
        self.expect_in_source("#include <topology/rank.h>\n", "want quotes")

    def test_include_of_a_file_that_is_gone(self):
        self.expect_in_source('#include "topology/gone.h"\n', "no such file")

    def test_include_from_a_higher_layer(self):
        text = RANK + '#include "collectives/a.h"\n'
        self.expect_one("topology/rank.h", text, "topology may not see")

    def test_plugin_that_includes_more_than_the_interface(self):
        files = {
            **CLEAN,
            "plugins/x/BUILD": '["x.cc", "x_test.cc"]',
            "plugins/x/x.cc": '#include "topology/rank.h"\n',
            "plugins/x/x_test.cc": '#include "topology/rank.h"\n',
        }
        breaches = self.breaches_of(files)
        self.assertEqual(len(breaches), 1, breaches)
        self.assertIn("plugins/x/x.cc:1: plugins may not see", breaches[0])

    def test_plugin_that_includes_another(self):
        files = {
            **CLEAN,
            "plugins/x/BUILD": '["x_test.cc"]',
            "plugins/x/x_test.cc": '#include "plugins/y/y.h"\n',
            "plugins/y/BUILD": '["y.h"]',
            "plugins/y/y.h": RANK.replace("TOPOLOGY_RANK", "PLUGINS_Y_Y"),
        }
        breaches = self.breaches_of(files)
        self.assertEqual(len(breaches), 1, breaches)
        self.assertIn("may not see plugins/y/y.h", breaches[0])

    def test_each_name_that_belongs_to_the_runtime(self):
        for line in (
            "std::thread t;",
            "std::jthread t;",
            "std::mutex m;",
            "std::shared_mutex m;",
            "std::condition_variable_any c;",
            "std::this_thread::yield();",
            "auto t = std::chrono::steady_clock::now();",
            "thread_local int x;",
            "auto t = absl::Now();",
            "absl::SleepFor(d);",
            "absl::Mutex m;",
            "pthread_create(a);",
            "usleep(1);",
            "nanosleep(a, b);",
            "sleep(1);",
            "clock_gettime(a, b);",
            "#include <thread>",
            "#include <mutex>",
        ):
            self.expect_in_source(line + "\n", "ask collectives/runtime")

    def test_a_name_after_a_digit_separator_is_still_seen(self):
        # 1'000 must not open a character literal that hides the line's rest.
        self.expect_in_source(
            "int x = 1'000; std::mutex m; int y = 2'000;\n", "std::mutex"
        )

    def test_a_file_that_no_build_file_names(self):
        self.expect_one("topology/lost.cc", "int x;\n", "does not name it")

    def test_a_name_made_of_two_parts_is_a_name(self):
        files = {
            **CLEAN,
            "testing/BUILD": '["a", "b"] ["%s_x.cc" % area for area in X]',
            "testing/a_x.cc": "",
            "testing/b_x.cc": "",
            "testing/c_x.cc": "",
        }
        self.assertEqual(
            self.breaches_of(files),
            ["testing/c_x.cc:1: testing/BUILD does not name it"],
        )


class FunctionLengthsTest(unittest.TestCase):
    def test_namespaces_classes_and_initializers_are_no_functions(self):
        text = "namespace a {\nstruct S {\n  int x;\n};\nint y[] = {\n1};\n}\n"
        self.assertEqual(cc_source.function_lengths(text), [])

    def test_braces_in_text_and_comments_do_not_count(self):
        text = 'void F() {\n  G("}{");  // }\n  H(\'{\');\n}\n'
        self.assertEqual(cc_source.function_lengths(text), [(1, 4)])

    def test_a_constructor_with_initializers_is_one_function(self):
        text = "A::A(int x)\n    : x_(x) {\n  F();\n}\nvoid G() {}\n"
        self.assertEqual(cc_source.function_lengths(text), [(2, 3), (5, 1)])

    def test_lambdas_are_part_of_their_function(self):
        text = "void F() {\n  auto f = [](int x) {\n    G();\n  };\n}\n"
        self.assertEqual(cc_source.function_lengths(text), [(1, 5)])


if __name__ == "__main__":
    unittest.main()
