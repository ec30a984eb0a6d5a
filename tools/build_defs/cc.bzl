"""C++ rules of this repository: one set of flags, one shape of target."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

_C_COPTS = [
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
    "-Werror",
]

_COPTS = _C_COPTS + [
    "-Wnon-virtual-dtor",
    "-Wold-style-cast",
    # A designated initializer names what differs from the defaults.
    "-Wno-missing-field-initializers",
]

def _warnings(srcs):
    """Flags for sources that are all C++, or all C11."""
    is_c = [s for s in srcs if s.endswith(".c")]
    return _C_COPTS + ["-std=c11", "-Wpedantic"] if is_c else _COPTS

def muonshard_cc_library(name, srcs = [], hdrs = [], deps = [], copts = [], **kwargs):
    """A library, each header of which is known to compile alone.

    A header's own source includes it first, which proves it. A header without
    one gets a source made for it, in the target NAME_headers_alone.
    """
    cc_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        deps = deps,
        copts = _warnings(srcs) + copts,
        **kwargs
    )
    alone = [h for h in hdrs if h.endswith(".h") and h[:-2] + ".cc" not in srcs]
    if not alone:
        return
    for header in alone:
        native.genrule(
            name = "%s_alone" % header,
            outs = ["%s_alone.cc" % header[:-2]],
            cmd = "echo '#include \"%s/%s\"' >$@" % (native.package_name(), header),
        )
    cc_library(
        name = name + "_headers_alone",
        testonly = kwargs.get("testonly"),
        srcs = ["%s_alone.cc" % header[:-2] for header in alone],
        copts = _COPTS + copts,
        linkstatic = True,
        target_compatible_with = kwargs.get("target_compatible_with", []),
        deps = deps + [":" + name],
    )

def muonshard_cc_binary(name, srcs = [], copts = [], **kwargs):
    cc_binary(name = name, srcs = srcs, copts = _warnings(srcs) + copts, **kwargs)

def muonshard_cc_test(name, size = "small", copts = [], deps = [], **kwargs):
    cc_test(
        name = name,
        size = size,
        copts = _COPTS + copts,
        deps = deps + ["@googletest//:gtest_main"],
        **kwargs
    )

def muonshard_cc_benchmark(name, copts = [], deps = [], tags = [], smoke_args = [], **kwargs):
    """A benchmark binary plus a one-iteration test of it, so that it cannot rot."""
    cc_binary(
        name = name,
        testonly = True,
        copts = _COPTS + copts,
        tags = tags + ["benchmark"],
        deps = deps + ["@benchmark//:benchmark_main"],
        **kwargs
    )
    native.sh_test(
        name = name + "_smoke_test",
        size = "small",
        srcs = ["//tools:run_once.sh"],
        args = ["$(location :%s)" % name, "--benchmark_min_time=0"] + smoke_args,
        data = [":" + name],
    )

def muonshard_plugin(name, srcs, copts = [], linkopts = [], deps = [], exports = ["muonshard_plugin_entry_v1"], **kwargs):
    """The shared object libmuonshard_NAME.so, which exports one symbol.

    The version script hides all else. Two copies loaded into one process
    would otherwise share inline statics through unique symbols. The test
    NAME_exports_test reads what it really exports.
    """
    script = "//collectives:plugin_exports.lds"
    library = "libmuonshard_%s.so" % name
    cc_binary(
        name = library,
        srcs = srcs,
        copts = _warnings(srcs) + ["-fvisibility=hidden", "-fPIC"] + copts,
        linkshared = True,
        linkstatic = True,
        linkopts = ["-Wl,--version-script,$(location %s)" % script, "-Wl,-z,defs"] + linkopts,
        deps = deps + [script],
        **kwargs
    )
    native.sh_test(
        name = name + "_exports_test",
        size = "small",
        srcs = ["//collectives:exported_symbols_test.sh"],
        args = ["$(location :%s)" % library] + exports,
        data = [":" + library],
        tags = kwargs.get("tags", []),
        target_compatible_with = kwargs.get("target_compatible_with", []),
    )

def muonshard_python_test(name, main, srcs, size = "small"):
    """A test that runs `main` with the system's Python."""
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//tools:run_once.sh"],
        args = ["python3", "-B", "$(location %s)" % main],
        data = [main] + srcs,
    )

def _optimized_impl(_settings, _attr):
    return {"//command_line_option:compilation_mode": "opt"}

_optimized = transition(
    implementation = _optimized_impl,
    inputs = [],
    outputs = ["//command_line_option:compilation_mode"],
)

def _optimized_test_impl(ctx):
    binary = ctx.attr.binary[0][DefaultInfo]
    test = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(
        output = test,
        target_file = binary.files_to_run.executable,
        is_executable = True,
    )
    return [DefaultInfo(
        executable = test,
        runfiles = ctx.runfiles([test]).merge(binary.default_runfiles),
    )]

_optimized_test = rule(
    implementation = _optimized_test_impl,
    test = True,
    attrs = {
        "binary": attr.label(cfg = _optimized, mandatory = True),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)

def muonshard_optimized_cc_test(name, size = "large", copts = [], deps = [], shard_count = 1, **kwargs):
    """A test that is too slow without the optimizer: it and all below it are built with it.

    It is skipped where that is not enough, under sanitizers and coverage; there
    must be a shorter one beside it.
    """
    cc_binary(
        name = name + "_binary",
        testonly = True,
        copts = _COPTS + copts,
        linkstatic = True,
        tags = ["manual"],
        deps = deps + ["@googletest//:gtest_main"],
        **kwargs
    )
    _optimized_test(
        name = name,
        testonly = True,
        size = size,
        binary = ":%s_binary" % name,
        shard_count = shard_count,
        target_compatible_with = select({
            "//tools/build_defs:asan": ["//tools/build_defs:nowhere"],
            "//tools/build_defs:coverage": ["//tools/build_defs:nowhere"],
            "//tools/build_defs:tsan": ["//tools/build_defs:nowhere"],
            "//conditions:default": [],
        }),
    )
