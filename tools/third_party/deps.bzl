"""Third-party repositories, each one bound to an installed Debian package."""

load("//tools/third_party:local_config.bzl", "local_config")

_SYSTEM = {
    "benchmark": "//tools/third_party:benchmark.BUILD",
    "boost_context": "//tools/third_party:boost_context.BUILD",
    "com_google_absl": "//tools/third_party:absl.BUILD",
    "googletest": "//tools/third_party:googletest.BUILD",
    "nlohmann_json": "//tools/third_party:nlohmann_json.BUILD",
    "openblas": "//tools/third_party:openblas.BUILD",
    "openssl": "//tools/third_party:openssl.BUILD",
    "torch": "//tools/third_party:torch.BUILD",
}

# What Bazel itself wants to see; Debian ships it beside Bazel.
_SHIMS = {
    "bazel_skylib": "/usr/share/bazel/tools/skylib",
    "platforms": "/usr/share/bazel/platforms",
    "remote_coverage_tools": "tools/third_party/remote_coverage_tools",
    "rules_cc": "tools/third_party/rules_cc",
    "rules_java": "/usr/share/bazel/rules/java",
    "rules_proto": "/usr/share/bazel/rules/proto",
}

def muonshard_dependencies():
    for name, build_file in _SYSTEM.items():
        native.new_local_repository(
            name = name,
            path = "/usr",
            build_file = build_file,
        )
    for name, path in _SHIMS.items():
        native.local_repository(name = name, path = path)
    local_config(name = "local_config")
