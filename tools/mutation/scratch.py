"""A scratch copy of the tree, with output folders of its own."""

import os
import shutil
import signal
import subprocess
import tempfile

# What a mutant may use before it counts as gone wrong.
_ADDRESS_SPACE_KIB = 16 << 20


class Outcome:
    """How a program ended: its exit status, or None past its time limit."""

    def __init__(self, status, output):
        self.status = status
        self.output = output


def run(command, folder, seconds, environment=None):
    """Runs a program and all it starts for `seconds` at most."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        return Outcome(process.returncode, output)
    except subprocess.TimeoutExpired:
        # On this signal a client of Bazel stops its server's work first.
        os.killpg(process.pid, signal.SIGTERM)
        try:
            output, _ = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        return Outcome(None, output)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def limited(command):
    """`command` with a bound on its memory: a changed constant may ask for all
    that there is."""
    script = f'ulimit -v {_ADDRESS_SPACE_KIB}; exec "$@"'
    return ["sh", "-c", script, "sh", *command]


class Scratch:
    """Files of a tree under `folder`/tree. The folder is removed in the end
    unless the caller named one, which then keeps what was built."""

    def __init__(self, root, folder, bazel_flags):
        self._temporary = None
        if folder is None:
            self._temporary = tempfile.mkdtemp(prefix="muonshard-mutate-")
            folder = self._temporary
        self.folder = os.path.abspath(folder)
        self.tree = os.path.join(self.folder, "tree")
        self._bazel_flags = bazel_flags
        self._configurations = set()
        self._copy(root)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in self._configurations:
            run([*self._start(name), "shutdown"], self.tree, 60)
        if self._temporary:
            # Bazel leaves folders that may not be written to.
            run(["chmod", "-R", "u+w", self.folder], "/", 600)
            shutil.rmtree(self.folder, ignore_errors=True)

    def _copy(self, root):
        """Copies what git knows or would add; only what differs, so that a
        folder that is used again builds little."""
        known = ["--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(
            ["git", "ls-files", "-z", *known],
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        paths = {p for p in listed.split("\0") if p}
        paths = {p for p in paths if os.path.isfile(os.path.join(root, p))}
        for folder, _, names in os.walk(self.tree):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.tree) not in paths:
                    os.remove(path)
        for path in paths:
            source = os.path.join(root, path)
            copy = os.path.join(self.tree, path)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            with open(source, "rb") as file:
                content = file.read()
            if os.path.exists(copy):
                with open(copy, "rb") as file:
                    if file.read() == content:
                        continue
            shutil.copy(source, copy)

    def read(self, path):
        with open(os.path.join(self.tree, path), encoding="utf-8") as file:
            return file.read()

    def write(self, path, text):
        with open(os.path.join(self.tree, path), "w", encoding="utf-8") as file:
            file.write(text)

    def _start(self, name):
        base = os.path.join(self.folder, name)
        return ["bazel", f"--output_base={base}", "--host_jvm_args=-Xmx800m"]

    def bazel(self, name, command, arguments, seconds):
        """Runs Bazel; builds of one `name` never disturb those of another."""
        self._configurations.add(name)
        links = os.path.join(self.folder, f"{name}-")
        flags = [
            f"--symlink_prefix={links}",
            "--noshow_progress",
            "--color=no",
            "--curses=no",
            *self._bazel_flags,
        ]
        start = [*self._start(name), command, *flags, *arguments]
        return run(start, self.tree, seconds)

    def built(self, name, path):
        """The path of what was built under `name`."""
        return os.path.join(self.folder, f"{name}-bin", path)
