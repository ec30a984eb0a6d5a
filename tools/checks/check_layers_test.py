import unittest

import check_layers
from check_layers import Rule

ANSWER = """<?xml version="1.1" encoding="UTF-8"?>
<query version="2">
  <rule class="cc_library" location="x" name="//topology:mesh">
    <string name="name" value="mesh"/>
    <boolean name="testonly" value="true"/>
    <list name="hdrs"><label value="//topology:mesh.h"/></list>
    <list name="deps"><label value="@x//:y"/></list>
    <list name="visibility"><label value="//:internal"/></list>
  </rule>
</query>
"""


def library(label, header, **inputs):
    return Rule(label, "cc_library", inputs={"hdrs": [header], **inputs})


def test_of(*deps):
    return Rule("//testing:all_test", "cc_test", inputs={"deps": list(deps)})


RANK = library("//topology:rank", "//topology:rank.h")
WORK = library("//collectives:work", "//collectives:work.h")
PLAN = library("//optimizer:plan", "//optimizer:plan.h")
ABI = library("//collectives:plugin_abi", "//collectives:plugin_abi.h")


def edge_breaches(*rules):
    by_label = {rule.label: rule for rule in rules}
    return list(check_layers.edge_breaches(by_label))


class CheckLayersTest(unittest.TestCase):
    def test_reads_the_answer_of_a_query(self):
        rule = check_layers.parse(ANSWER)["//topology:mesh"]
        self.assertTrue(rule.is_testonly)
        self.assertEqual(rule.all_inputs(), ["//topology:mesh.h", "@x//:y"])

    def test_an_edge_downwards_is_allowed(self):
        user = library(
            "//optimizer:plan", "//optimizer:plan.h", deps=[WORK.label, RANK.label]
        )
        self.assertEqual(edge_breaches(RANK, WORK, user), [])

    def test_an_edge_upwards_is_not(self):
        user = library("//topology:mesh", "//topology:mesh.h", deps=[WORK.label])
        self.assertEqual(len(edge_breaches(WORK, user)), 1)
        user = library("//collectives:x", "//collectives:x.h", deps=[PLAN.label])
        self.assertEqual(len(edge_breaches(PLAN, user)), 1)

    def test_a_plugin_sees_the_interface_alone(self):
        user = Rule(
            "//plugins/x:libmuonshard_x.so",
            "cc_binary",
            inputs={"srcs": ["//plugins/x:x.cc"], "deps": [ABI.label]},
        )
        self.assertEqual(edge_breaches(ABI, user), [])
        user.inputs["deps"].append(RANK.label)
        self.assertEqual(len(edge_breaches(ABI, RANK, user)), 1)

    def test_a_plugin_does_not_see_another(self):
        other = library("//plugins/y:y", "//plugins/y:y.h")
        user = library("//plugins/x:x", "//plugins/x:x.h", deps=[other.label])
        self.assertEqual(len(edge_breaches(other, user)), 1)

    def test_the_core_carries_no_plugin_outside_its_tests(self):
        plugin = Rule(
            "//plugins/x:libmuonshard_x.so",
            "cc_binary",
            inputs={"srcs": ["//plugins/x:x.cc"]},
        )
        user = library(
            "//optimizer:plan", "//optimizer:plan.h", data=[plugin.label]
        )
        self.assertEqual(len(edge_breaches(plugin, user)), 1)
        user.is_testonly = True
        self.assertEqual(edge_breaches(plugin, user), [])

    def test_nothing_below_the_programs_sees_them(self):
        tool = library("//tools:report", "//tools:report.h")
        user = test_of(tool.label)
        self.assertEqual(len(edge_breaches(tool, user)), 1)

    def test_the_core_does_not_link_torch(self):
        user = library(
            "//optimizer:plan", "//optimizer:plan.h", deps=["@torch//:torch"]
        )
        self.assertEqual(len(edge_breaches(user)), 1)

    def test_a_library_that_no_test_reaches_is_found(self):
        user = library("//topology:mesh", "//topology:mesh.h", deps=[RANK.label])
        rules = {r.label: r for r in (RANK, WORK, user, test_of(user.label))}
        self.assertEqual(
            list(check_layers.unreached_libraries(rules)),
            ["//collectives:work: no test reaches it"],
        )


if __name__ == "__main__":
    unittest.main()
