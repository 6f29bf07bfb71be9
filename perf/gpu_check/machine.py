"""The machine under test: its GPU, its CUDA, and the carried libraries."""
import ctypes
import glob
import os
import shutil
import subprocess
import sys
import tarfile


def device():
    """(name, bytes of memory) of the first GPU, or (None, reason). Queries the driver and starts nothing."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "no device (no driver)"
    count, first, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(100)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return None, "no device"
    driver.cuDeviceGet(ctypes.byref(first), 0)
    driver.cuDeviceGetName(name, 100, first)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), first)
    return name.value.decode(), memory.value


def unpack(archive, prefix):
    """Unpacks the carried archive into `prefix`. With Python's own reader, because the machine may have no xz."""
    if os.path.exists(os.path.join(prefix, "complete")):
        return
    shutil.rmtree(prefix, ignore_errors=True)
    with tarfile.open(archive, "r:xz") as tar:
        tar.extraction_filter = lambda member, path: member  # ours: links and all
        tar.extractall(prefix)
    with open(os.path.join(prefix, "complete"), "w", encoding="utf-8"):
        pass


def toolkit():
    """The folder of the CUDA toolkit."""
    nvcc = shutil.which("nvcc")
    for found in [nvcc] if nvcc else sorted(glob.glob("/usr/local/cuda*/bin/nvcc")):
        return os.path.dirname(os.path.dirname(os.path.realpath(found)))
    sys.exit("gpu-check: needs the CUDA toolkit: there is no nvcc on the PATH or in /usr/local/cuda")


def python_packages():
    """Folders of NVIDIA's Python packages, with include/ and lib/ in them."""
    found = []
    for folder in sys.path:
        found += glob.glob(os.path.join(folder, "nvidia", "*", "lib"))
    return [os.path.dirname(folder) for folder in found]


def link_library(stem, cuda, to):
    """Where the toolkit and the system have no lib<stem>.so with <stem>.h: links to a Python package's, in to/lib and
    to/include. Says whether it made them; ends the program where the machine has none at all."""
    own = [cuda, cuda + "/targets/x86_64-linux", "/usr"]
    headers = any(os.path.exists(f"{place}/include/{stem}.h") for place in own)
    folders = ("lib64", "lib", "lib/x86_64-linux-gnu")
    if headers and any(os.path.exists(f"{place}/{lib}/lib{stem}.so") for place in own for lib in folders):
        return False
    for package in python_packages() + own:
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


def environment(prefix, cuda):
    """The environment in which programs find the carried libraries, above all OpenMPI, which contains its own path."""
    usr = os.path.join(prefix, "usr")
    libraries = os.path.join(usr, "lib", "x86_64-linux-gnu")
    env = dict(os.environ)
    env["PATH"] = f"{cuda}/bin:{env['PATH']}"
    env.update(
        OPAL_PREFIX=usr,
        PMIX_MCA_pcompress_base_silence_warning="1",  # it has no compression without its plugins, and needs none
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_plm="isolated",  # this machine only: do not search for ssh
        OMPI_MCA_pml="ob1",
        OMPI_MCA_btl="self,vader",
        OMPI_MCA_btl_vader_single_copy_mechanism="none",  # containers may forbid reading the memory of other processes
        OMPI_MCA_rmaps_base_oversubscribe="1",
        OMPI_MCA_hwloc_base_binding_policy="none",
        OMPI_MCA_mpi_yield_when_idle="1",
        OMP_WAIT_POLICY="passive",
        PKG_CONFIG_PATH=f"{libraries}/pkgconfig",
        CMAKE_INCLUDE_PATH=f"{usr}/include/hdf5/openmpi",
        CMAKE_LIBRARY_PATH=f"{libraries}/hdf5/openmpi",
    )
    return env


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


def version_of(command):
    try:
        text = subprocess.run([command, "--version"], capture_output=True, text=True, check=False, timeout=20).stdout
    except OSError:
        return f"{command}: none"
    lines = [line for line in text.splitlines() if any(c.isdigit() for c in line)]
    return (lines[-1] if command.endswith("nvcc") else lines[0]) if lines else command
