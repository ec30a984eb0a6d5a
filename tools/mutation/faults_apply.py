"""Whether all faults still fit the tree, so that they cannot rot.

usage: faults_apply.py ROOT

Prints what is wrong: a pattern that is not once in its file, a planted bug that
does not apply, a list that names a file, test or mutant that there is not.
"""

import os
import re
import sys

import lists
import mutant
import mutate
import planted
import stages


def missing_targets(root, targets):
    """Those of the labels that name no target and no folder."""
    for target in sorted(targets):
        package, _, name = target.removeprefix("//").partition(":")
        package = package.removesuffix("/...")
        build = os.path.join(root, package, "BUILD")
        if not os.path.exists(build):
            yield target
        elif name:
            with open(build, encoding="utf-8") as file:
                if not re.search(rf'name = "{re.escape(name)}"', file.read()):
                    yield target


def check_chosen(root):
    path = os.path.join(root, mutate.LIST_FOLDER, "chosen.txt")
    chosen = mutant.chosen(root, path)
    for target in missing_targets(root, {t for m in chosen for t in m.tests}):
        yield f"chosen.txt: there is no {target}"


def check_files(root):
    targets = set()
    for path, block in mutate.read_files(root).items():
        targets.update(block["tests"].split())
        if not os.path.exists(os.path.join(root, path)):
            yield f"files.txt: there is no {path}"
    for folder, block in mutate.read_folders(root).items():
        targets.update(block["tests"].split())
        if not os.path.isdir(os.path.join(root, folder)):
            yield f"folders.txt: there is no {folder}"
    for target in missing_targets(root, targets):
        yield f"files.txt or folders.txt: there is no {target}"


def check_reasons(root):
    """A reason must not outlive its mutant, of whatever seed it is."""
    path = os.path.join(root, mutate.LIST_FOLDER, "chosen.txt")
    known = {each.name for each in mutant.chosen(root, path)}
    known |= {each.name for each in mutate.draw_mechanical(root, 0)}
    for name in mutate.read_reasons(root):
        if name not in known:
            yield f"survivors.txt: there is no mutant {name}"


def check_planted(root):
    bugs = planted.patches(root)
    if not bugs:
        yield "there are no planted bugs"
    for bug in bugs:
        wrong = planted.apply(root, bug.path, check=True)
        if wrong:
            yield f"{bug.name}: {wrong}"


def main():
    root = sys.argv[1]
    wrong = []
    for check in (check_chosen, check_files, check_reasons, check_planted):
        try:
            wrong += check(root)
        except (lists.ListError, stages.JudgeError) as error:
            wrong.append(str(error))
    # Two checks may stumble over one entry.
    wrong = list(dict.fromkeys(wrong))
    for line in wrong:
        print(line)
    print(f"{len(wrong)} faults do not fit the tree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
