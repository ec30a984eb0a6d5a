"""Checks the real dependencies of Bazel's targets against the layers.

Each edge between two targets is checked, so what holds for edges holds for
paths. Fails if an edge is not allowed or if no test reaches a library.
"""

import dataclasses
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import layers

EDGES = ("srcs", "hdrs", "deps", "data", "implementation_deps")
# What the core must never link.
FOREIGN_TO_CORE = (
    "@local_config//:nccl_headers",
    "@local_config//:ucx_headers",
    "@torch//",
)


@dataclasses.dataclass
class Rule:
    label: str
    kind: str
    is_testonly: bool = False
    # Labels by attribute, of those in EDGES.
    inputs: dict = dataclasses.field(default_factory=dict)

    def is_test(self):
        return self.kind.endswith("_test")

    def all_inputs(self):
        return [label for labels in self.inputs.values() for label in labels]


def parse(query_xml):
    """Rules by label, of the answer to a query with --output=xml."""
    rules = {}
    for node in ElementTree.fromstring(query_xml).iter("rule"):
        rule = Rule(node.get("name"), node.get("class"))
        for child in node:
            if child.get("name") == "testonly":
                rule.is_testonly = child.get("value") == "true"
            if child.tag == "list" and child.get("name") in EDGES:
                rule.inputs[child.get("name")] = [
                    label.get("value") for label in child.iter("label")
                ]
        rules[rule.label] = rule
    return rules


def path_of(label):
    """The path that a label of ours would have as a file."""
    package, _, name = label[2:].partition(":")
    return f"{package}/{name}" if package else name


def files_seen(rules, label):
    """What a target that depends on `label` may include."""
    rule = rules.get(label)
    if rule is None:
        return [path_of(label)]
    own = rule.inputs.get("hdrs") or rule.inputs.get("srcs") or []
    return [path_of(file) for file in own if file.startswith("//")]


def edge_breaches(rules):
    for rule in rules.values():
        path = path_of(rule.label)
        layer = layers.layer_of(path)
        if layer is None:
            continue
        is_free = rule.is_test() or rule.is_testonly
        for label in rule.all_inputs():
            if label.startswith("//"):
                for seen in files_seen(rules, label):
                    if not layers.may_see(layer, path, seen, is_free):
                        yield f"{rule.label} depends on {label}: " + (
                            f"{layer.folder} may not see {seen}"
                        )
            elif layers.is_under(path, layers.CORE) and label.startswith(
                FOREIGN_TO_CORE
            ):
                yield f"{rule.label} depends on {label}: the core may not"


def unreached_libraries(rules):
    reached = set()
    todo = [rule.label for rule in rules.values() if rule.is_test()]
    while todo:
        label = todo.pop()
        if label not in reached and label in rules:
            reached.add(label)
            todo += rules[label].all_inputs()
    for rule in rules.values():
        is_ours = layers.layer_of(path_of(rule.label)) is not None
        is_made = rule.label.endswith("_headers_alone")
        if rule.kind == "cc_library" and is_ours and not is_made:
            if rule.label not in reached:
                yield f"{rule.label}: no test reaches it"


def main():
    # By name, because //... would also walk into links that another output
    # base of Bazel has left here.
    folders = [f"//{name}/..." for name in layers.FOLDERS if os.path.isdir(name)]
    query = ["bazel", "query", "--noimplicit_deps", "--output=xml"]
    answer = subprocess.run(
        [*query, " + ".join(folders)], stdout=subprocess.PIPE, check=False
    )
    if answer.returncode != 0:
        print("bazel query failed")
        return answer.returncode
    rules = parse(answer.stdout)
    breaches = sorted([*edge_breaches(rules), *unreached_libraries(rules)])
    for breach in breaches:
        print(breach)
    print(f"layers of {len(rules)} targets: {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
