"""perf/gpu-check prepare DIR --kokkos SOURCE: builds the programs here and packs them with what they need.

The archive, programs.tar.xz, contains
  programs/  what run.py starts, stripped
  lib/       the shared libraries that they need, down to but without libc, libstdc++ and the like
  usr/       Open MPI's launcher with its components
  golden/    losses of the CPU, for the grid test
NVIDIA's libraries are those of the other machine, but for the small libcudart. No file knows where it was built.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGETS = {  # CMake's target: the program, relative to the build
    "trivium_program": "trivium",
    "perf_step": "perf/step_bench/perf_step",
    "perf_device": "perf/device_bench/perf_device",
    "test_device": "tests/device/test_device",
    "test_kernels_on_device": "tests/device/test_kernels_on_device",
    "nccl_ranks": "tests/device/nccl_ranks",
    "grid_ranks_on_device": "tests/device/grid_ranks_on_device",
}
# The other machine's own: they must fit its kernel, its compiler, or its driver.
NOT_CARRIED = re.compile(
    r"^(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|stdc\+\+|gcc_s|cuda|nccl|cublas|cublasLt|nvrtc.*|cudnn.*)\.so.*)$"
)
NOT_NEEDED = re.compile(r"pcompress")  # of PMIx; it does not fit every libpmix
OF_NETWORKS = re.compile(r"^lib(ibverbs|rdmacm|fabric|efa|psm|infinipath|uc[mpst]\.|nl-|mca_common_(verbs|ofi|ucx)|oshmem)")
MPI_COMPONENTS = "openmpi/lib/openmpi3/*.so", "pmix2/lib/pmix/*.so"


def call(command, **options):
    print("$ " + " ".join(command), flush=True)
    subprocess.run(command, check=True, **options)


def kokkos_commands(source, made, to, arch, jobs):
    """Configure, then build: Kokkos for GPUs of `arch` (its name in Kokkos), installed in `to`."""
    configure = ["cmake", "-S", source, "-B", made, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    configure += ["-DKokkos_ENABLE_SERIAL=ON", "-DKokkos_ENABLE_CUDA=ON", f"-DKokkos_ARCH_{arch}=ON"]
    configure += ["-DCMAKE_CXX_STANDARD=20", f"-DCMAKE_CXX_COMPILER={source}/bin/nvcc_wrapper", f"-DCMAKE_INSTALL_PREFIX={to}"]
    return configure, ["cmake", "--build", made, "--target", "install", "--parallel", jobs]


def build(folder, kokkos, frontend, jobs, preset):
    """Builds Kokkos and the programs. Returns the folder of the programs' build."""
    env = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/local/cuda/bin")
    made = os.path.join(folder, "trivium")
    options = ["-DCMAKE_SKIP_BUILD_RPATH=ON", "-DTRIVIUM_WERROR=OFF"]
    if preset == "cuda":
        installed = os.path.join(folder, "kokkos")
        if not os.path.exists(os.path.join(installed, "include", "Kokkos_Core.hpp")):
            for command in kokkos_commands(kokkos, os.path.join(folder, "kokkos-build"), installed, "HOPPER90", jobs):
                call(command, env=env)
        options += [f"-DCMAKE_PREFIX_PATH={installed};{frontend}", f"-DTRIVIUM_CUDNN={'ON' if frontend else 'OFF'}"]
    call(["cmake", "--preset", preset, "-B", made, *options], cwd=ROOT, env=env)
    wanted = [target for target, path in TARGETS.items() if preset == "cuda" or not path.startswith("tests/device")]
    call(["cmake", "--build", made, "--parallel", jobs, "--target", *wanted], cwd=ROOT, env=env)
    return made


def needed(file):
    """The libraries that the loader finds for a file: {name: path}; a name without a path was not found."""
    text = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^\s*(\S+) => (\S+|not found)(?: |$)", text, re.MULTILINE)
    return {name: path if path.startswith("/") else "" for name, path in found}


class Folder:
    """What will be packed."""

    def __init__(self, folder):
        self.at = folder
        self.libraries = {}

    def path(self, *parts):
        made = os.path.join(self.at, *parts)
        os.makedirs(os.path.dirname(made), exist_ok=True)
        return made

    def program(self, source, *to):
        shutil.copy2(source, self.path(*to))
        kept = ["--strip-debug"] if "test_" in source else []  # the names of functions, for cuda-gdb
        subprocess.run(["strip", *kept, self.path(*to)], check=True)
        for name, path in needed(source).items():
            if not NOT_CARRIED.match(name):
                if not path:
                    sys.exit(f"gpu-check prepare: {source} needs {name}, which is not here")
                self.libraries[name] = path

    def component(self, source):
        """One of Open MPI's, unless it is for a network."""
        found = {name: path for name, path in needed(source).items() if not NOT_CARRIED.match(name)}
        if not any(map(OF_NETWORKS.match, found)) and not NOT_NEEDED.search(source):
            shutil.copy2(source, self.path(source.lstrip("/")))
            self.libraries.update(found)

    def finish(self):
        for name, path in self.libraries.items():
            shutil.copy2(os.path.realpath(path), self.path("lib", name))
        for library in glob.glob(f"{self.at}/lib/*") + glob.glob(f"{self.at}/usr/lib/**/*.so", recursive=True):
            subprocess.run(["strip", "--strip-unneeded", library], check=True)


def launcher():
    """mpirun as a file, not one of the links to it."""
    found = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if not found:
        sys.exit("gpu-check prepare: there is no mpirun: jobs/install-packages build")
    return os.path.realpath(found)


def pack(made, to, limit, level):
    with tempfile.TemporaryDirectory() as work:
        folder = Folder(os.path.join(work, "packed"))
        programs = [path for path in TARGETS.values() if os.path.exists(os.path.join(made, path))]
        for path in programs:
            folder.program(os.path.join(made, path), "programs", os.path.basename(path))
        folder.program(launcher(), "usr", "bin", "mpirun")
        for pattern in MPI_COMPONENTS:
            for component in glob.glob(f"/usr/lib/*-linux-gnu/{pattern}"):
                folder.component(component)
        for share in ("openmpi", "pmix2", "pmix"):
            if os.path.isdir(f"/usr/share/{share}"):
                shutil.copytree(f"/usr/share/{share}", folder.path("usr", "share", share))
        shutil.copy2(os.path.join(ROOT, "tests", "golden", "losses.txt"), folder.path("golden", "losses.txt"))
        folder.finish()
        archive = os.path.join(work, "programs.tar.xz")
        with open(archive, "wb") as file:
            tar = ["tar", "-C", folder.at, "--owner=0", "--group=0", "--sort=name", "-cf", "-", "."]
            with subprocess.Popen(tar, stdout=subprocess.PIPE) as packing:
                # One block with a large dictionary: the programs share most of their code.
                form = f"--lzma2=preset={level},dict=256MiB"
                subprocess.run(["xz", "-T1", form], stdin=packing.stdout, stdout=file, check=True)
        size = os.path.getsize(archive)
        print("\n".join(f"{os.path.getsize(folder.path('programs', os.path.basename(p))) / 2**20:6.1f} MiB  {os.path.basename(p)}" for p in programs))
        print(f"{to}/programs.tar.xz: {size / 2**20:.1f} MiB, of at most {limit}")
        if size > limit << 20:
            sys.exit(f"gpu-check prepare: larger than --limit {limit}")
        os.makedirs(to, exist_ok=True)
        shutil.move(archive, os.path.join(to, "programs.tar.xz"))


def main():
    parser = argparse.ArgumentParser(prog="perf/gpu-check prepare")
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("--kokkos", metavar="SOURCE", help="sources of Kokkos")
    parser.add_argument("--cudnn-frontend", metavar="DIR2", default="", help="folder whose include/ has cudnn_frontend.h")
    parser.add_argument("--build", metavar="DIR3", default="build-gpu-check", help="folder to build in")
    parser.add_argument("--preset", choices=["cuda", "default"], default="cuda", help="default: CPU programs, to rehearse")
    parser.add_argument("--limit", type=int, default=45, metavar="MIB", help="maximum size of the archive")
    parser.add_argument("--jobs", default=str(len(os.sched_getaffinity(0))))
    parser.add_argument("--level", type=int, default=6, choices=range(10), metavar="0…9", help="of compression (6)")
    parser.add_argument("--built", metavar="DIR4", help="pack this build instead of building")
    options = parser.parse_args()
    if not options.built and options.preset == "cuda":
        if not options.kokkos or not os.path.exists(os.path.join(options.kokkos, "core/src/Kokkos_Core.hpp")):
            parser.error(f"--kokkos: '{options.kokkos or ''}' does not contain the sources of Kokkos")
    made = options.built or build(
        os.path.abspath(options.build),
        options.kokkos and os.path.abspath(options.kokkos),
        options.cudnn_frontend and os.path.abspath(options.cudnn_frontend),
        options.jobs,
        options.preset,
    )
    pack(made, os.path.abspath(options.folder), options.limit, options.level)


if __name__ == "__main__":
    main()
