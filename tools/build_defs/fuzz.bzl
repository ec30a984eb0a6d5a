"""Fuzz targets: one source, a test of it with any compiler, a fuzzer with Clang."""

load("@rules_cc//cc:defs.bzl", "cc_binary")
load("//tools/build_defs:cc.bzl", "muonshard_cc_test")

def muonshard_fuzz_test(name, srcs, deps, mutation_count = 5000, **kwargs):
    """A test, and beside it a fuzzer that `tools/fuzz` builds and runs.

    Args:
      name: X_fuzz_test. The fuzzer is X_fuzz, and its seeds are the files of
        testing/fuzz/corpus/X_fuzz.
      srcs: what defines LLVMFuzzerTestOneInput.
      deps: of `srcs`.
      mutation_count: how many changed seeds the test runs.
      **kwargs: of both.
    """
    if not name.endswith("_fuzz_test"):
        fail("want a name that ends with _fuzz_test, got " + name)
    fuzzer = name[:-len("_test")]
    muonshard_cc_test(
        name = name,
        srcs = srcs + ["//testing/fuzz:seeds_test.cc"],
        data = ["//testing/fuzz:seeds_of_" + fuzzer],
        local_defines = [
            "MUONSHARD_FUZZ_SEEDS=\\\"testing/fuzz/corpus/%s\\\"" % fuzzer,
            "MUONSHARD_FUZZ_MUTATION_COUNT=%d" % mutation_count,
        ],
        deps = deps + [
            "//testing:seeded_random",
            "//testing/fuzz:seed_mutation",
            "@googletest//:gtest",
        ],
        **kwargs
    )
    cc_binary(
        name = fuzzer,
        testonly = True,
        srcs = srcs,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["fuzzer"],
        target_compatible_with = select({
            "//tools/build_defs:fuzz": [],
            "//conditions:default": ["//tools/build_defs:nowhere"],
        }),
        deps = deps,
        **kwargs
    )
