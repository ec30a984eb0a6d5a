"""What became of each mutant: a file that grows by a line for each, and the
table of all."""

import json
import os

import stages


class StateError(ValueError):
    """A state file that is of another run."""


class State:
    """The verdicts so far. With a path they are also on disk, one line of JSON
    each, so that an interrupted run goes on where it was. A verdict is of a
    mutant by its digest: where its file has changed it does not count."""

    def __init__(self, path, run):
        self._path = path
        self._verdicts = {}
        if path is None:
            return
        lines = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                lines = file.read().split("\n")
        # An interrupted run may have left half of its last line.
        whole = lines[:-1]
        if whole:
            first = json.loads(whole[0])
            if first != run:
                raise StateError(
                    f"{path}: want {run}, got the state of {first}"
                )
            for line in whole[1:]:
                self._remember(json.loads(line))
        with open(path, "w", encoding="utf-8") as file:
            for line in whole or [json.dumps(run)]:
                file.write(line + "\n")

    def _remember(self, entry):
        self._verdicts[entry["name"]] = entry

    def forget_survivors(self):
        """Lets all that survived be judged once more."""
        self._verdicts = {
            name: entry
            for name, entry in self._verdicts.items()
            if entry["result"] != stages.SURVIVED
        }

    def verdict_of(self, mutant):
        entry = self._verdicts.get(mutant.name)
        if entry is None or entry["digest"] != mutant.digest:
            return None
        return stages.Verdict(entry["result"], entry["by"], entry["stage"])

    def add(self, mutant, verdict):
        entry = {
            "name": mutant.name,
            "digest": mutant.digest,
            "result": verdict.result,
            "by": verdict.by,
            "stage": verdict.stage,
        }
        self._remember(entry)
        if self._path:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")


def _cell(text):
    return text.replace("|", "\\|")


def table(judged, reasons):
    """A Markdown table of (mutant, verdict); `reasons` says by name why one
    that survives is no fault."""
    lines = ["| mutant | what it stands for | end |", "|---|---|---|"]
    for mutant, verdict in judged:
        end = verdict.result
        if verdict.result == stages.KILLED:
            end = f"killed by {verdict.by}"
        elif verdict.result == stages.SURVIVED:
            reason = reasons.get(mutant.name)
            end = f"survived: {reason}" if reason else "**survived**"
        name = f"`{mutant.name}` ({mutant.path})"
        cells = [_cell(text) for text in (name, mutant.stands_for, end)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def summary(judged, reasons):
    """One line, and whether every survivor has its reason."""
    count = {
        result: sum(verdict.result == result for _, verdict in judged)
        for result in (stages.KILLED, stages.SURVIVED, stages.DOES_NOT_COMPILE)
    }
    explained = sum(
        verdict.result == stages.SURVIVED and mutant.name in reasons
        for mutant, verdict in judged
    )
    killed, survived = count[stages.KILLED], count[stages.SURVIVED]
    share = 100.0 * killed / max(killed + survived, 1)
    line = (
        f"{killed + survived} mutants: {killed} killed ({share:.1f} %), "
        f"{survived} survived ({explained} with a reason); "
        f"{count[stages.DOES_NOT_COMPILE]} more do not compile"
    )
    return line, survived == explained
