"""Runs the program of one stack over cells, each with a limit of time."""

import json
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time

OVER_LIMIT = "over limit"
# For a job's own clean-up, before it is killed.
_GRACE_S = 5
# Of what a failed program said.
_SAID_LINES = 6


def cell_flags(cells):
    texts = [f"{operation}:{size}" for operation, size in cells]
    return ["--cells=" + ",".join(texts)]


class Job:
    """The processes of one run, each the head of a process group of its own.

    All stay in the session of the script, as ranks of a launcher stay in its:
    Linux shares cores out among sessions first (autogroups), and a rank that
    yields would not yield to one of another session.
    """

    def __init__(self, commands, folder):
        self.said = open(os.path.join(folder, "stderr"), "w+", encoding="utf-8")
        self.processes = []
        self.pending = b""
        for command, environment in commands:
            self.processes.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=self.said if self.processes else subprocess.PIPE,
                    stderr=self.said,
                    process_group=0,
                )
            )
        self.output = self.processes[0].stdout
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.output, selectors.EVENT_READ)

    def line(self, limit_s):
        """The next line, "" at the end, None when the limit passed."""
        deadline = time.monotonic() + limit_s
        while b"\n" not in self.pending:
            left = deadline - time.monotonic()
            if left <= 0 or not self.selector.select(left):
                return None
            some = os.read(self.output.fileno(), 1 << 16)
            if not some:
                return ""
            self.pending += some
        line, self.pending = self.pending.split(b"\n", 1)
        return line.decode("utf-8", "replace") + "\n"

    def wait(self, limit_s):
        """Whether all ended well in time."""
        deadline = time.monotonic() + limit_s
        try:
            codes = [
                process.wait(max(0, deadline - time.monotonic()))
                for process in self.processes
            ]
        except subprocess.TimeoutExpired:
            return False
        return not any(codes)

    def end(self):
        """Ends what still runs, and says what the job said last."""
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            for process in self.processes:
                # Until it is reaped its group cannot be another's.
                if process.poll() is None:
                    os.killpg(process.pid, signal_number)
            self.wait(_GRACE_S)
        self.selector.close()
        self.output.close()
        self.said.seek(0)
        lines = self.said.read().strip().splitlines()
        self.said.close()
        return "\n".join(lines[-_SAID_LINES:])


def run_cells(stack, ranks, transport, cells, flags, limit_s):
    """Yields a dict for each cell: what the program printed, or a reason.

    After a cell over its limit the larger ones of its operation are over it
    too, untried; the program starts again for the others.
    """
    left = list(cells)
    while left:
        folder = tempfile.mkdtemp(prefix="peers.")
        commands = stack.commands(
            ranks, transport, folder, [*flags, *cell_flags(left)]
        )
        job = Job(commands, folder)
        reason = ""
        try:
            while left and not reason:
                line = job.line(limit_s)
                if line:
                    operation, size = left.pop(0)
                    figure = json.loads(line)
                    if (figure["operation"], figure["bytes"]) != (operation, size):
                        raise ValueError(f"want {operation} {size}, got {line}")
                    yield figure
                else:
                    reason = OVER_LIMIT if line is None else "failed"
            if not reason and not job.wait(limit_s):
                reason = "failed"
        finally:
            said = job.end()
            shutil.rmtree(folder, ignore_errors=True)
        if not left:
            if reason:
                raise RuntimeError(f"{stack.name} ended badly:\n{said}")
            return
        operation, size = left[0]
        ended = [
            cell
            for cell in left
            if reason == "failed" or (cell[0] == operation and cell[1] >= size)
        ]
        for cell in ended:
            yield {
                "operation": cell[0],
                "bytes": cell[1],
                "reason": reason,
                "said": said,
            }
        left = [cell for cell in left if cell not in ended]
