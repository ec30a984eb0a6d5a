"""Which folder may see which: the one table behind both layer checks.

`tidy.py` reads the includes of each file; `tools/check_layers` asks Bazel what
each folder's targets really depend on.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Layer:
    folder: str
    # Folders and files of ours that its code may include.
    allowed: tuple
    # What its tests and testonly code may include besides.
    allowed_in_tests: tuple = ()


# Every folder of ours that holds targets.
FOLDERS = (
    "benchmarks",
    "bindings",
    "collectives",
    "optimizer",
    "plugins",
    "testing",
    "tools",
    "topology",
)
CORE = ("topology", "collectives", "optimizer", "plugins/loopback")

LAYERS = (
    Layer("topology", ("topology",)),
    Layer(
        "collectives",
        ("topology", "collectives"),
        ("testing", "plugins"),
    ),
    Layer(
        "plugins",
        # A plugin shares the C interface with the rest and nothing else.
        (
            "collectives/plugin_abi.h",
            "collectives/plugin_exports.lds",
            "plugins/support",
        ),
        ("topology", "collectives", "testing"),
    ),
    Layer(
        "optimizer/compute",
        (
            "optimizer/compute",
            "optimizer/muon_options.h",
            "optimizer/newton_schulz_set.h",
            "optimizer/options.h",
            "collectives/data_type.h",
            "collectives/runtime",
            "topology/rank.h",
        ),
        ("testing", "topology", "collectives"),
    ),
    Layer(
        "optimizer",
        ("topology", "collectives", "optimizer"),
        ("testing", "plugins"),
    ),
    Layer(
        "testing",
        ("topology", "collectives", "optimizer", "plugins", "testing"),
    ),
)

# Folders and files which are in no layer: shared by all, or build rules only.
NEUTRAL = ("tools/build_defs", "tools/third_party", "tools/run_once.sh")


def is_under(path, prefixes):
    return any(path == p or path.startswith(p + "/") for p in prefixes)


def layer_of(path):
    """The innermost layer that holds `path`, or None."""
    layers = [layer for layer in LAYERS if is_under(path, (layer.folder,))]
    return max(layers, key=lambda layer: len(layer.folder), default=None)


def own_folders(layer, path):
    """What is the file's own: its layer, and for a plugin its own folder."""
    if layer.folder != "plugins":
        return (layer.folder,)
    return ("/".join(path.split("/")[:2]),)


def may_see(layer, path, seen, is_test):
    """Whether the file `path` of `layer` may depend on the file `seen`."""
    allowed = layer.allowed + own_folders(layer, path) + NEUTRAL
    if is_test:
        allowed += layer.allowed_in_tests
    return is_under(seen, allowed)
