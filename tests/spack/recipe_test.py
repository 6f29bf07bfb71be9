"""Spack's recipe without Spack: what CMake looks for stands in it, with the same versions. python3 recipe_test.py ROOT"""
import contextlib
import glob
import os
import re
import shlex
import sys
import types
import unittest

ROOT = sys.argv.pop(1)

# What CMake calls otherwise than Spack; None: no package of its own.
SPACK_NAMES = {
    "CUDAToolkit": "cuda",
    "DNNL_INCLUDE_DIR": "onednn",
    "LIBCURL": "curl",
    "LIBZSTD": "zstd",
    "MPI": "mpi",
    "OpenMP": None,  # the compiler's
    "Parquet": "arrow",
    "PkgConfig": "pkgconfig",
    "ZLIB": "zlib-api",
    "httplib": "cpp-httplib",
    "kokkos_include": "kokkos",
    "Threads": None,  # the C library's
    "openmpi": "mpi",
    "llvm-openmp": None,
    "pkgconf": "pkgconfig",
}
# In the recipe only for tests and benchmarks, which it builds or leaves out as a whole.
LEFT_OUT = {"benchmark", "cudnn", "cudnnfrontend"}
# Of libraries whose versions Spack counts as ROCm's: the release that has the version which CMake demands.
ROCM_RELEASES = {("rccl", "2.18"): "6"}


def text(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


CMAKE = "".join(text(path) for path in sorted(glob.glob(os.path.join(ROOT, "cmake", "Trivium*.cmake"))))
CMAKE = re.sub("^ *#.*\n", "", CMAKE, flags=re.MULTILINE)
RECIPE = text("spack", "packages", "trivium", "package.py")


def plain(name):
    return re.sub("[^a-z0-9]", "", name.lower())


class Said:
    """What the recipe says to Spack: the arguments of each directive, by its name."""

    def __init__(self):
        self.calls = {}
        module = types.ModuleType("spack.package")
        for name in "conflicts depends_on generator license requires variant version".split():
            setattr(module, name, self.recorder(name))
        module.when = lambda condition: contextlib.nullcontext()
        module.join_path = os.path.join
        module.ancestor = self.ancestor
        module.CMakePackage = type("CMakePackage", (), {})
        module.CudaPackage = type("CudaPackage", (), {"cuda_arch_values": ("70", "80", "90", "90a")})
        module.ROCmPackage = type("ROCmPackage", (), {"amdgpu_targets": ("gfx90a", "gfx90a:xnack-", "gfx942")})
        sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": module})
        scope = {"__file__": os.path.join(ROOT, "spack", "packages", "trivium", "package.py"), "__name__": "recipe"}
        exec(compile(RECIPE, scope["__file__"], "exec"), scope)
        self.recipe = scope["Trivium"]

    def recorder(self, name):
        return lambda *arguments, **options: self.calls.setdefault(name, []).append((arguments, options))

    @staticmethod
    def ancestor(path, generations):
        for _ in range(generations):
            path = os.path.dirname(path)
        return path

    def needs(self, package):
        """The specs that the recipe asks of a package."""
        specs = [arguments[0] for arguments, _ in self.calls["depends_on"]]
        return [spec for spec in specs if plain(re.match(r"[\w-]+", spec)[0]) == plain(package)]


SAID = Said()


class Given:
    """What the recipe gives to CMake where a variant is on."""

    def __init__(self, recipe, variant):
        self.recipe, self.variant, self.run_tests = recipe, variant, False
        self.spec = self

    def satisfies(self, spec):
        return spec == self.variant

    def __getitem__(self, package):
        return types.SimpleNamespace(hipcc="/rocm/bin/hipcc")

    def define(self, option, value):
        return option, value

    def define_from_variant(self, option, variant):
        return option, self.satisfies("+" + variant)

    def cmake_args(self):
        return dict(self.recipe.cmake_args(self))


class Dependencies(unittest.TestCase):
    @staticmethod
    def missing(cmake):
        """What the text looks for and the recipe does not need."""
        found = re.findall(r"(?:find_package|pkg_check_modules|find_path)\((\w+)", cmake)
        names = {name: SPACK_NAMES.get(name, re.sub("(_TRAINER)?(_INCLUDE)?_DIR$", "", name)) for name in found}
        return [name for name, package in names.items() if package and plain(package) not in LEFT_OUT and not SAID.needs(package)]

    def test_everything_that_cmake_looks_for_is_in_the_recipe(self):
        self.assertEqual(self.missing(CMAKE), [])
        self.assertEqual(self.missing(CMAKE + "find_package(GROMACS QUIET)"), ["GROMACS"])

    def test_versions_are_those_that_cmake_demands(self):
        needed = [shlex.split(call)[1::2] for call in re.findall(r"^ *trivium_need\((.*)\)$", CMAKE, re.MULTILINE)]
        self.assertEqual(len(needed), len(re.findall(r"\btrivium_need\(\w+ \"", CMAKE)))
        checked = 0
        for what, package in needed:
            package = SPACK_NAMES.get(package, package.split("+")[0])
            version = re.search(r">= ([\d.]+)", what)
            if package is None or plain(package) in LEFT_OUT or not version:
                continue
            checked += 1
            specs, least = SAID.needs(package), ROCM_RELEASES.get((package, version[1]), version[1])
            self.assertTrue(any(f"@{least}:" in spec for spec in specs), f"CMake needs {what}; the recipe says {specs}")
        self.assertGreater(checked, 7)

    def test_back_ends_that_cmake_refuses_are_not_asked_for(self):
        refused = re.search(r"foreach\(device IN ITEMS ([A-Z ]+)\)", CMAKE)[1].split()
        always = [arguments[0] for arguments, options in SAID.calls["depends_on"] if not options]
        off = set(re.findall(r"~(\w+)", " ".join(spec for spec in always if spec.startswith("kokkos"))))
        self.assertEqual(off, {"sycl"})  # the others' variants are not in every Kokkos
        self.assertLessEqual(off, {device.lower() for device in refused})
        for device in ("cuda", "rocm"):
            self.assertIn(((f"kokkos~{device}",), {"when": f"~{device}"}), SAID.calls["depends_on"])

    def test_the_version_of_cmake(self):
        version = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", text("CMakeLists.txt"))[1]
        self.assertIn(f"cmake@{version}:", SAID.needs("cmake"))


class Recipe(unittest.TestCase):
    def test_its_options_are_cmake_s(self):
        options = re.findall(r'self\.define\w*\("(TRIVIUM_\w+)"', RECIPE)
        self.assertIn("TRIVIUM_DEVICE", options)
        for option in options:
            self.assertRegex(text("CMakeLists.txt") + CMAKE, rf'(option\({option} |set\({option} (AUTO|"") CACHE)')

    def test_sources_are_those_around_it(self):
        self.assertEqual(SAID.recipe.git, "file://" + ROOT)

    def test_one_architecture_goes_to_the_libraries_with_kernels(self):
        passed = [(a[0], o.get("when")) for a, o in SAID.calls["depends_on"]]
        for architecture, packages in {
            "cuda_arch=90": ("kokkos", "nccl"),
            "amdgpu_target=gfx90a": ("kokkos", "rocblas", "rccl"),
            "amdgpu_target=gfx942": ("kokkos", "rocblas", "rccl"),
        }.items():
            for package in packages:
                self.assertIn((f"{package} {architecture}", architecture), passed)
        for variant in ("cuda_arch", "amdgpu_target"):
            [options] = [o for a, o in SAID.calls["variant"] if a[0] == variant]
            self.assertEqual((options["default"], options["values"][0], options["multi"]), ("none", "none", False))

    def test_gpus_that_are_refused(self):
        refused = {arguments[0]: options for arguments, options in SAID.calls["conflicts"]}
        self.assertIn("cuda_arch=70", refused)
        self.assertNotIn("cuda_arch=80", refused)
        self.assertEqual(refused["+cuda"]["when"], "+rocm")
        for architecture in ("cuda_arch=none", "amdgpu_target=none"):
            self.assertIn("name the GPU", refused[architecture]["msg"])

    def test_each_kind_of_gpu_has_its_libraries_and_no_onednn(self):
        for spec in ("cuda@12:", "nccl@2.18:", "hip@6:", "rocblas@6:", "rccl@6:"):
            self.assertIn(spec, SAID.needs(spec.split("@")[0]))
        for kokkos in ("kokkos@4:+cuda+wrapper cxxstd=20", "kokkos@4:+rocm cxxstd=20"):
            self.assertIn(kokkos, SAID.needs("kokkos"))
        for arguments, options in SAID.calls["depends_on"]:
            if arguments[0].startswith("onednn"):
                self.assertTrue(options["when"].startswith("~cuda~rocm"), options)

    def test_what_cmake_is_given(self):
        for variant, device in {"+cuda": "cuda", "+rocm": "hip", "": ""}.items():
            arguments = Given(SAID.recipe, variant).cmake_args()
            self.assertEqual(arguments["TRIVIUM_DEVICE"], device)
            self.assertEqual(arguments.get("CMAKE_CXX_COMPILER"), "/rocm/bin/hipcc" if device == "hip" else None)

    def test_smoke_tests_say_what_they_show(self):
        tests = [name for name in dir(SAID.recipe) if name.startswith("test_")]
        self.assertGreaterEqual(len(tests), 3)
        for name in tests:
            self.assertTrue(getattr(SAID.recipe, name).__doc__, name)


class Repository(unittest.TestCase):
    def test_the_index_names_the_repository(self):
        paths = re.findall(r"^  - (\S+)$", text("spack-repo-index.yaml"), re.MULTILINE)
        self.assertEqual(paths, ["spack"])
        self.assertRegex(text(paths[0], "repo.yaml"), r"(?m)^repo:\n  namespace: trivium$")

    def test_environments_ask_for_variants_that_there_are(self):
        variants = {arguments[0] for arguments, _ in SAID.calls["variant"]} | {"cuda", "rocm"}
        files = glob.glob(os.path.join(ROOT, "spack", "environments", "*", "spack.yaml"))
        self.assertEqual(len(files), 3)
        for file in files:
            specs = re.findall(r"^  - (trivium.*)$", text(file), re.MULTILINE)
            self.assertEqual(len(specs), 1, file)
            asked = re.findall(r"[+~](\w+)", specs[0]) + re.findall(r" (\w+)=", specs[0])
            self.assertLessEqual(set(asked), variants, file)


if __name__ == "__main__":
    unittest.main()
