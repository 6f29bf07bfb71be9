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
    "MPI": "mpi",
    "OpenMP": None,  # the compiler's
    "PkgConfig": "pkgconfig",
    "kokkos_include": "kokkos",
    "Threads": None,  # the C library's
    "openmpi": "mpi",
    "llvm-openmp": None,
    "pkgconf": "pkgconfig",
}
# In the recipe only for tests and benchmarks, which it builds or leaves out as a whole.
LEFT_OUT = {"benchmark", "cudnn", "cudnnfrontend"}


def text(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


CMAKE = "".join(text("cmake", name) for name in ("TriviumDependencies.cmake", "TriviumCuda.cmake"))
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
            specs = SAID.needs(package)
            self.assertTrue(any(f"@{version[1]}:" in spec for spec in specs), f"CMake needs {what}; the recipe says {specs}")
        self.assertGreater(checked, 7)

    def test_back_ends_that_cmake_refuses_are_not_asked_for(self):
        spack_names = {"HIP": "rocm"}
        refused = re.search(r"foreach\(device IN ITEMS ([A-Z ]+)\)", CMAKE)[1].split()
        always = [arguments[0] for arguments, options in SAID.calls["depends_on"] if not options]
        off = set(re.findall(r"~(\w+)", " ".join(spec for spec in always if spec.startswith("kokkos"))))
        self.assertEqual(off, {"rocm", "sycl"})  # the others' variants are not in every Kokkos
        self.assertLessEqual(off, {spack_names.get(device, device.lower()) for device in refused})

    def test_the_version_of_cmake(self):
        version = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", text("CMakeLists.txt"))[1]
        self.assertIn(f"cmake@{version}:", SAID.needs("cmake"))


class Recipe(unittest.TestCase):
    def test_its_options_are_cmake_s(self):
        options = re.findall(r'self\.define\w*\("(TRIVIUM_\w+)"', RECIPE)
        self.assertIn("TRIVIUM_CUDA", options)
        for option in options:
            self.assertRegex(text("CMakeLists.txt") + CMAKE, rf"(option\({option} |set\({option} AUTO CACHE)")

    def test_sources_are_those_around_it(self):
        self.assertEqual(SAID.recipe.git, "file://" + ROOT)

    def test_one_architecture_goes_to_kokkos_and_nccl(self):
        for package in ("kokkos", "nccl"):
            passed = [(a[0], o["when"]) for a, o in SAID.calls["depends_on"] if a[0].startswith(f"{package} cuda_arch=")]
            self.assertIn((f"{package} cuda_arch=90", "cuda_arch=90"), passed)
        refused = [arguments[0] for arguments, _ in SAID.calls["conflicts"]]
        self.assertIn("cuda_arch=70", refused)
        self.assertNotIn("cuda_arch=80", refused)

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
        variants = {arguments[0] for arguments, _ in SAID.calls["variant"]} | {"cuda"}
        files = glob.glob(os.path.join(ROOT, "spack", "environments", "*", "spack.yaml"))
        self.assertEqual(len(files), 2)
        for file in files:
            specs = re.findall(r"^  - (trivium.*)$", text(file), re.MULTILINE)
            self.assertEqual(len(specs), 1, file)
            asked = re.findall(r"[+~](\w+)", specs[0]) + re.findall(r" (\w+)=", specs[0])
            self.assertLessEqual(set(asked), variants, file)


if __name__ == "__main__":
    unittest.main()
