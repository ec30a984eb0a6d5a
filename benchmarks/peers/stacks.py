"""What is compared: how each stack is found, built and started."""

import os
import shutil
import subprocess

import ratios

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TRANSPORTS = ("shm", "tcp")

# Settings of the caller's shell would make runs that nobody can repeat.
_DROPPED = ("UCX_", "OMPI_", "MPICH_", "MPIR_", "PMI_", "MUONSHARD_", "GLOO_")
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_OPTIMIZED = ("-O3", "-march=native", "-I", ROOT)


class Missing(Exception):
    """A stack cannot run here; the text says what to install."""


def clean_environment(**variables):
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_DROPPED)
    }
    return {**kept, **variables}


def need_programs(packages, *programs):
    absent = [name for name in programs if shutil.which(name) is None]
    if absent:
        raise Missing(f"no {', '.join(absent)}: apt-get install {packages}")


def compile_program(compiler, source, output, *flags):
    done = subprocess.run(
        [*compiler, *_OPTIMIZED, *source, "-o", output, *flags],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode != 0:
        raise Missing(f"{' '.join(compiler)} failed:\n{done.stdout.strip()}")


def source(name):
    return os.path.join(HERE, name)


class Stack:
    """One of the programs. A command is its arguments and its environment."""

    name = ""
    role = ratios.PEER
    transports = TRANSPORTS

    def prepare(self, cache):
        """Finds and builds what is needed, or raises Missing."""
        raise NotImplementedError

    def commands(self, ranks, transport, folder, flags):
        """What to start; the first prints the figures. `folder` is empty."""
        raise NotImplementedError


def for_each_rank(program, ranks, folder, flags, environment):
    """Commands of a program that is started once for each rank."""
    return [
        (
            [program, f"--rank={rank}", f"--size={ranks}", f"--store={folder}"]
            + flags,
            environment,
        )
        for rank in range(ranks)
    ]


class Muonshard(Stack):
    role = ratios.OURS

    def __init__(self, program, memory="plain", variables=None):
        self.program = program
        self.memory = memory
        self.variables = variables or {}
        self.name = "muonshard" + ("" if memory == "plain" else f", {memory}")

    def prepare(self, cache):
        if not os.path.exists(self.program):
            raise Missing(f"no {self.program}: it needs UCX, see tools/setup")

    def commands(self, ranks, transport, folder, flags):
        environment = clean_environment()
        if transport == "tcp":
            environment.update(UCX_TLS="tcp,self", UCX_NET_DEVICES="lo")
        environment.update(self.variables)
        flags = [*flags, f"--memory={self.memory}"]
        return for_each_rank(self.program, ranks, folder, flags, environment)


class Probe(Stack):
    name = "probe"
    role = ratios.CEILING
    transports = ("shm",)

    def __init__(self, program):
        self.program = program

    def prepare(self, cache):
        if not os.path.exists(self.program):
            raise Missing(f"no {self.program}")

    def commands(self, ranks, transport, folder, flags):
        command = [self.program, f"--size={ranks}", *flags]
        return [(command, clean_environment())]


class OpenMpi(Stack):
    name = "Open MPI"

    def prepare(self, cache):
        need_programs(
            "openmpi-bin libopenmpi-dev", "mpicc.openmpi", "mpirun.openmpi"
        )
        self.program = os.path.join(cache, "openmpi_collectives")
        sources = [source("mpi_collectives.c"), source("timing.c")]
        compile_program(["mpicc.openmpi"], sources, self.program)

    def commands(self, ranks, transport, folder, flags):
        layers = ["--mca", "pml", "ob1", "--mca", "btl"]
        if transport == "shm":
            layers += ["self,vader"]
        else:
            layers += ["self,tcp", "--mca", "btl_tcp_if_include", "lo"]
        # There are fewer cores than ranks; a job of root's is asked for twice.
        command = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"]
        environment = clean_environment(
            OMPI_ALLOW_RUN_AS_ROOT="1",
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            TMPDIR=folder,
        )
        command += ["-np", str(ranks), *layers, self.program, *flags]
        return [(command, environment)]


class Mpich(Stack):
    """Unpacked beside Open MPI, since the two packages replace each other's
    mpicc."""

    name = "MPICH"
    packages = ("mpich", "libmpich-dev", "libmpich12", "libslurm38")

    def __init__(self, root=None):
        self.root = root

    def prepare(self, cache):
        if self.root is None:
            self.root = os.path.join(cache, "mpich")
        self.libraries = os.path.join(self.root, _LIBRARIES)
        self.launcher = os.path.join(self.root, "usr/bin/mpiexec.hydra")
        if not os.path.exists(self.launcher):
            self._unpack(cache)
        self.program = os.path.join(cache, "mpich_collectives")
        headers = os.path.join(self.root, "usr/include/x86_64-linux-gnu/mpich")
        compile_program(
            ["gcc"],
            [source("mpi_collectives.c"), source("timing.c")],
            self.program,
            *("-I", headers, "-L", self.libraries, "-lmpich"),
        )

    def _unpack(self, cache):
        names = " ".join(self.packages)
        need_programs("apt dpkg", "apt-get", "dpkg")
        folder = os.path.join(cache, "packages")
        os.makedirs(folder, exist_ok=True)
        got = subprocess.run(
            ["apt-get", "download", "-q", *self.packages],
            cwd=folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if got.returncode != 0:
            raise Missing(
                f"no {self.launcher}, and apt-get download failed: in a folder"
                f" for --mpich-root, apt-get download {names} and dpkg -x each"
                f"\n{got.stdout.strip()}"
            )
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            subprocess.run(["dpkg", "-x", path, self.root], check=True)

    def commands(self, ranks, transport, folder, flags):
        tls = "posix,cma,self" if transport == "shm" else "tcp,self"
        environment = clean_environment(
            LD_LIBRARY_PATH=self.libraries, UCX_TLS=tls
        )
        if transport == "tcp":
            environment["UCX_NET_DEVICES"] = "lo"
        command = [self.launcher, "-launcher", "fork", "-n", str(ranks)]
        return [([*command, self.program, *flags], environment)]


class Gloo(Stack):
    """TCP whatever the transport: gloo has nothing else."""

    name = "gloo"

    def prepare(self, cache):
        need_programs("g++", "g++", "gcc")
        if not os.path.exists("/usr/include/gloo/allreduce.h"):
            raise Missing("no gloo/allreduce.h: apt-get install libgloo-dev")
        timing = os.path.join(cache, "timing.o")
        compile_program(["gcc", "-c"], [source("timing.c")], timing)
        self.program = os.path.join(cache, "gloo_collectives")
        sources = [source("gloo_collectives.cc"), timing]
        compile_program(
            ["g++", "-std=c++20"], sources, self.program, "-lgloo", "-lpthread"
        )

    def commands(self, ranks, transport, folder, flags):
        return for_each_rank(
            self.program, ranks, folder, flags, clean_environment()
        )
