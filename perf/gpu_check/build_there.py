"""Builds on the machine with the GPU what `prepare --sources` carried there: Kokkos, the programs, the tests."""
import glob
import hashlib
import os
import shutil
import sys
import time

import machine
import pack

ROOT = pack.ROOT


def sources():
    """A hash of the sources of a build. Not of file times, because a copy of the repository may have new ones."""
    digest = hashlib.sha256()
    for top in ("CMakeLists.txt", "CMakePresets.json", "cmake", "src", "mpi", "io", "tests", "perf"):
        path = os.path.join(ROOT, top)
        walk = os.walk(path) if os.path.isdir(path) else [(ROOT, [], [top])]
        for folder, _, files in sorted(walk):
            for name in sorted(files):
                if not name.endswith((".py", ".pyc")):
                    with open(os.path.join(folder, name), "rb") as file:
                        digest.update(os.path.join(folder, name).encode() + b"\0" + file.read())
    return digest.hexdigest()


def toolkit():
    """The folder of the CUDA toolkit."""
    nvcc = shutil.which("nvcc")
    for found in [nvcc] if nvcc else sorted(glob.glob("/usr/local/cuda*/bin/nvcc")):
        return os.path.dirname(os.path.dirname(os.path.realpath(found)))
    sys.exit("gpu-check: needs the CUDA toolkit: there is no nvcc on the PATH or in /usr/local/cuda")


def link_library(stem, cuda, to):
    """Where the toolkit and the system have no lib<stem>.so with <stem>.h: links to a Python package's, in to/lib and
    to/include. Says whether it made them; ends the program where the machine has none at all."""
    own = [cuda, cuda + "/targets/x86_64-linux", "/usr"]
    headers = any(os.path.exists(f"{place}/include/{stem}.h") for place in own)
    folders = ("lib64", "lib", "lib/x86_64-linux-gnu")
    if headers and any(os.path.exists(f"{place}/{lib}/lib{stem}.so") for place in own for lib in folders):
        return False
    for package in machine.python_packages() + own:
        shared = [found for lib in folders for found in sorted(glob.glob(f"{package}/{lib}/lib{stem}.so.[0-9]*"))]
        header = f"{package}/include/{stem}.h"
        if shared and os.path.exists(header):
            for folder in ("lib", "include"):
                os.makedirs(f"{to}/{folder}", exist_ok=True)
            pairs = [(shared[0], f"{to}/lib/lib{stem}.so"), (shared[0], f"{to}/lib/{os.path.basename(shared[0])}")]
            pairs += [(part, f"{to}/include/{os.path.basename(part)}") for part in glob.glob(header[:-3] + "*")]
            for source, link in pairs:
                if not os.path.lexists(link):
                    os.symlink(source, link)
            return True
    sys.exit(f"gpu-check: found neither in {cuda} nor in a Python package: lib{stem}.so with {stem}.h")


def cmake_options(prefix, cuda, links):
    """Options of CMake for the libraries that were carried or found."""
    usr = os.path.join(prefix, "usr")
    libraries = os.path.join(usr, "lib", "x86_64-linux-gnu")
    options = [
        f"-DCMAKE_PREFIX_PATH={prefix}/kokkos-cuda;{usr}",
        f"-DCMAKE_EXE_LINKER_FLAGS=-Wl,-rpath-link,{libraries}",
        f"-DCMAKE_BUILD_RPATH={libraries};{links}/lib",
        "-DMPI_SKIP_COMPILER_WRAPPER=ON",  # not every CMake reads this variable
        f"-DMPI_C_HEADER_DIR={libraries}/openmpi/include",
        "-DMPI_C_LIB_NAMES=mpi",
        f"-DMPI_mpi_LIBRARY={libraries}/openmpi/lib/libmpi.so",
        f"-DMPIEXEC_EXECUTABLE={usr}/bin/mpirun.openmpi",
        f"-DPKG_CONFIG_EXECUTABLE={usr}/bin/pkgconf",
        "-DTRIVIUM_WERROR=OFF",
    ]
    if link_library("nccl", cuda, links):
        options += [f"-DNCCL_INCLUDE_DIR={links}/include", f"-DNCCL_LIBRARY={links}/lib/libnccl.so"]
    if link_library("cublasLt", cuda, links):
        options += [f"-DCUDA_cublasLt_LIBRARY={links}/lib/libcublasLt.so", f"-DCMAKE_CXX_FLAGS=-I{links}/include"]
    return options


def environment(run, cuda):
    """How the build finds the carried packages."""
    usr = os.path.join(run.prefix, "usr")
    libraries = os.path.join(usr, "lib", "x86_64-linux-gnu")
    return {
        "PATH": f"{cuda}/bin:{os.environ['PATH']}",
        "PKG_CONFIG_PATH": f"{libraries}/pkgconfig",
        "CMAKE_INCLUDE_PATH": f"{usr}/include/hdf5/openmpi",
        "CMAKE_LIBRARY_PATH": f"{libraries}/hdf5/openmpi",
    }


def build(run, seconds):
    """Rows for Kokkos and for what pack.TARGETS names, unless they are up to date; links the programs to where
    run.py looks for them."""
    end = time.monotonic() + seconds
    made = os.path.join(os.path.dirname(run.prefix), "trivium")
    built, now = os.path.join(made, "gpu-check-built"), sources()
    if os.path.exists(built):
        with open(built, encoding="utf-8") as file:
            if file.read() == now:
                return [{"stage": "build", "name": "nothing has changed", "verdict": "passed", "note": made}]
    rows, cuda, jobs = [], toolkit(), str(run.options.jobs)
    kokkos = os.path.join(run.prefix, "kokkos")
    installed = os.path.join(run.prefix, "kokkos-cuda")
    of_kokkos = pack.kokkos_commands(kokkos, os.path.join(run.prefix, "kokkos-build"), installed, run.options.arch, jobs)
    steps = [
        *zip(("Kokkos: configure", "Kokkos: build"), of_kokkos),
        (
            "configure",
            ["cmake", "--preset", "cuda", "-B", made]
            + cmake_options(run.prefix, cuda, os.path.join(run.prefix, "links")),
        ),
        ("build", ["cmake", "--build", made, "--parallel", jobs, "--target", *pack.TARGETS, "--", "-k", "0"]),
    ]
    if os.path.exists(os.path.join(installed, "lib")):
        steps = steps[2:]
    for name, command in steps:
        rows += run.row("build", name, command, end - time.monotonic(), **environment(run, cuda))
        if rows[-1]["verdict"] == "failed":
            return rows
    for folder in (run.programs, os.path.join(run.prefix, "golden")):
        shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(run.programs)
    for path in pack.TARGETS.values():
        os.symlink(os.path.join(made, path), os.path.join(run.programs, os.path.basename(path)))
    os.symlink(os.path.join(ROOT, "tests", "golden"), os.path.join(run.prefix, "golden"))
    mpirun = os.path.join(run.prefix, "usr", "bin", "mpirun")
    if not os.path.exists(mpirun):
        os.symlink("mpirun.openmpi", mpirun)
    with open(built, "w", encoding="utf-8") as file:
        file.write(now)
    return rows
