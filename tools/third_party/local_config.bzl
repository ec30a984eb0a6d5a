"""What this machine has of the optional stacks: CUDA, NCCL and UCX.

A target that needs one says so, and where it is missing the target is
incompatible: `bazel test //...` passes it over, and asking for it by name is an
error that says why.

    load("@local_config//:defs.bzl", "REQUIRES_UCX")

    muonshard_cc_library(
        name = "x",
        target_compatible_with = REQUIRES_UCX,
        deps = ["@local_config//:ucx_headers"],
    )

Only headers are looked for, nothing is run. $CUDA_HOME, $NCCL_HOME and
$UCX_HOME come before the usual places.
"""

_STACKS = {
    "cuda": struct(
        variable = "CUDA_HOME",
        places = ["/usr/local/cuda", "/usr"],
        header = "include/cuda_runtime_api.h",
    ),
    "nccl": struct(
        variable = "NCCL_HOME",
        places = ["/usr/local/cuda", "/usr/local", "/usr"],
        header = "include/nccl.h",
    ),
    "ucx": struct(
        variable = "UCX_HOME",
        places = ["/usr/local", "/usr"],
        header = "include/ucp/api/ucp.h",
    ),
}

# In the compiler's own search path; naming them again would reorder it.
_BUILT_IN_ROOTS = ["/usr", "/usr/local"]

def _find_root(repository_ctx, stack):
    named = repository_ctx.os.environ.get(stack.variable, "")
    for root in ([named] if named else []) + stack.places:
        if repository_ctx.path(root + "/" + stack.header).exists:
            return root
    return None

# A value for each stack, because a label may not stand twice in the list of a
# target that requires two.
def _requires(name, root):
    return [] if root else ["@local_config//:missing_" + name]

def _headers(repository_ctx, name, root):
    hdrs = "[]"
    includes = []
    if root and root not in _BUILT_IN_ROOTS:
        repository_ctx.symlink(root + "/include", name + "/include")
        hdrs = "glob([\"%s/include/**\"])" % name
        includes = [name + "/include"]
    return """
# No platform has this value.
constraint_setting(name = "{name}")

constraint_value(
    name = "missing_{name}",
    constraint_setting = ":{name}",
)

cc_library(
    name = "{name}_headers",
    hdrs = {hdrs},
    includes = {includes},
    target_compatible_with = {compatible},
)
""".format(
        name = name,
        hdrs = hdrs,
        includes = includes,
        compatible = _requires(name, root),
    )

def _local_config_impl(repository_ctx):
    definitions = "\"\"\"Made from this machine; see local_config.bzl.\"\"\"\n\n"
    build = "package(default_visibility = [\"//visibility:public\"])\n"
    for name, stack in _STACKS.items():
        root = _find_root(repository_ctx, stack)
        build += _headers(repository_ctx, name, root)
        definitions += "REQUIRES_%s = %s\n" % (
            name.upper(),
            _requires(name, root),
        )
    repository_ctx.file("BUILD", build)
    repository_ctx.file("defs.bzl", definitions)

local_config = repository_rule(
    implementation = _local_config_impl,
    configure = True,
    environ = [stack.variable for stack in _STACKS.values()],
    local = True,
)
