"""Applies small faults to a scratch copy of the tree, one at a time, and tells
which of them the tests find.

usage: tools/mutate chosen [--only NAME...]
       tools/mutate mechanical --seed N [--count N]
       tools/mutate planted [--only NAME...]

Arguments after `--` go to Bazel. The tree that it is called in is only read.
"""

import argparse
import os
import sys

import lists
import mechanical
import mutant
import planted
import results
import scratch
import stages

LIST_FOLDER = "testing/mutations"
SEEDS_OF_PLANTED = 1000


def read_files(root):
    """The files that mechanical mutants are drawn over, by path."""
    path = os.path.join(root, LIST_FOLDER, "files.txt")
    keys = ("area", "file", "tests")
    blocks = lists.read(path, keys, keys)
    return lists.unique(blocks, "file", path)


def read_folders(root):
    """The tests above each folder, by folder."""
    path = os.path.join(root, LIST_FOLDER, "folders.txt")
    blocks = lists.read(path, ("folder", "tests"), ("folder", "tests"))
    return lists.unique(blocks, "folder", path)


def read_reasons(root):
    """Why a mutant that survives is no fault of the tests, by name."""
    path = os.path.join(root, LIST_FOLDER, "survivors.txt")
    blocks = lists.read(path, ("name", "why"), ("name", "why"))
    by_name = lists.unique(blocks, "name", path)
    return {name: " ".join(b["why"].split()) for name, b in by_name.items()}


def tests_above(folders):
    """A function from a path to the tests of the innermost folder above it."""

    def of(path):
        above = [f for f in folders if path.startswith(f + "/")]
        if not above:
            return ()
        return tuple(folders[max(above, key=len)]["tests"].split())

    return of


def draw_mechanical(root, seed):
    found = []
    for path, block in sorted(read_files(root).items()):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        header = os.path.join(root, path.removesuffix(".cc") + ".h")
        header_text = ""
        if os.path.exists(header):
            with open(header, encoding="utf-8") as file:
                header_text = file.read()
        tests = tuple(block["tests"].split())
        found.append(mechanical.candidates(path, text, header_text, tests))
    return mechanical.draw(found, seed)


def judge_all(judge, mutants, state, count):
    """Judges until `count` mutants have compiled; prints each."""
    judged = []
    counted = 0
    is_checked = False
    for each in mutants:
        if counted == count:
            break
        verdict = state.verdict_of(each)
        stage_done = verdict.stage if verdict else 0
        survived = verdict and verdict.result == stages.SURVIVED
        if verdict is None or (survived and stage_done < judge.stage_max):
            if not is_checked:
                judge.check_whole(sorted({t for m in mutants for t in m.tests}))
                is_checked = True
            verdict = judge.judge(each, stage_done)
            state.add(each, verdict)
            by = f" by {verdict.by}" if verdict.by else ""
            print(f"{each.name}: {verdict.result}{by}", flush=True)
        judged.append((each, verdict))
        counted += verdict.result != stages.DOES_NOT_COMPILE
    return judged


def select(all_of_them, only):
    if not only:
        return all_of_them
    names = {each.name for each in all_of_them}
    for name in only:
        if name not in names:
            raise lists.ListError(f"--only: there is no {name!r}")
    return [each for each in all_of_them if each.name in only]


def run_mutants(arguments, root):
    if arguments.command == "chosen":
        path = os.path.join(root, LIST_FOLDER, "chosen.txt")
        mutants = select(mutant.chosen(root, path), arguments.only)
        count = len(mutants)
        run = {"command": "chosen", "seeds": arguments.seeds}
    else:
        mutants = draw_mechanical(root, arguments.seed)
        count = arguments.count
        run = {
            "command": "mechanical",
            "seed": arguments.seed,
            "seeds": arguments.seeds,
        }
        print(f"seed {arguments.seed}: {count} of {len(mutants)} small edits")
    reasons = read_reasons(root)
    above = tests_above(read_folders(root))
    state = results.State(arguments.resume, run)
    if arguments.again:
        state.forget_survivors()
    with scratch.Scratch(root, arguments.folder, arguments.bazel_flags) as tree:
        judge = stages.Judge(tree, above, arguments.seeds, arguments.stages)
        judged = judge_all(judge, mutants, state, count)
    print("\n".join(results.table(judged, reasons)))
    line, all_explained = results.summary(judged, reasons)
    print(line)
    return 0 if all_explained else 1


def run_planted(arguments, root):
    bugs = select(planted.patches(root), arguments.only)
    found = []
    with scratch.Scratch(root, arguments.folder, arguments.bazel_flags) as tree:
        judge = stages.Judge(tree, None, SEEDS_OF_PLANTED, stage_max=1)
        judge.check_whole(())
        for bug in bugs:
            result = planted.find(tree, bug, SEEDS_OF_PLANTED)
            found.append((bug, result))
            print(
                f"{bug.name}: {result.error or 'seed ' + result.seed}, "
                f"{result.seconds:.1f} s, {result.same_replays} same replays",
                flush=True,
            )
    print("\n".join(planted.table(found)))
    whole = sum(result.is_whole() for _, result in found)
    print(f"{len(found)} planted bugs: {whole} found and replayed")
    return 0 if whole == len(found) else 1


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"want at least 1, got {value}")
    return value


def parse(arguments):
    bazel_flags = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, bazel_flags = arguments[:at], arguments[at + 1 :]
    parser = argparse.ArgumentParser(
        prog="tools/mutate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    chosen = commands.add_parser("chosen", help=f"{LIST_FOLDER}/chosen.txt")
    drawn = commands.add_parser("mechanical", help="edits drawn by a seed")
    bugs = commands.add_parser("planted", help="testing/planted/*.patch")
    drawn.add_argument("--seed", type=int, required=True)
    drawn.add_argument(
        "--count", type=positive, default=200, help="that compile [200]"
    )
    for command in (chosen, bugs):
        command.add_argument("--only", nargs="+", metavar="NAME", default=[])
    for command in (chosen, drawn):
        command.add_argument(
            "--resume", metavar="FILE", help="go on with a run, or begin it"
        )
        command.add_argument(
            "--again",
            action="store_true",
            help="judge once more what survived: tests have changed",
        )
        command.add_argument(
            "--stages",
            type=int,
            choices=range(1, stages.STAGE_MAX + 1),
            default=stages.STAGE_MAX,
            help="1: explorer; 2: the file's own tests; 3: all above [3]",
        )
        command.add_argument(
            "--seeds", type=positive, default=150, help="of the explorer [150]"
        )
    for command in (chosen, drawn, bugs):
        command.add_argument(
            "--folder", help="keep the copy and what is built in it here"
        )
    parsed = parser.parse_args(arguments)
    parsed.bazel_flags = bazel_flags
    return parsed


def main(arguments, root):
    parsed = parse(arguments)
    run = run_planted if parsed.command == "planted" else run_mutants
    try:
        return run(parsed, root)
    except (lists.ListError, results.StateError, stages.JudgeError) as error:
        print(f"tools/mutate: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.getcwd()))
