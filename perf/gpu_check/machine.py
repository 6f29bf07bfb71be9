"""The machine under test: its GPU, NVIDIA's libraries on it, and what was carried there."""
import ctypes
import fcntl
import glob
import os
import shutil
import socket
import struct
import sys
import tarfile

ARCHIVES = ("programs.tar.xz", "carried.tar.xz")  # of prepare, and of prepare --sources


def archive_in(folder):
    found = [os.path.join(folder, name) for name in ARCHIVES if os.path.exists(os.path.join(folder, name))]
    return found[0] if found else None


def is_unpacked(build):
    return os.path.exists(os.path.join(build, "carried", "complete"))


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
    """Unpacks the archive into `prefix`. With Python's own reader, because the machine may have no xz."""
    if os.path.exists(os.path.join(prefix, "complete")):
        return
    shutil.rmtree(prefix, ignore_errors=True)
    with tarfile.open(archive, "r:xz") as tar:
        tar.extraction_filter = lambda member, path: member  # ours: links and all
        tar.extractall(prefix)
    with open(os.path.join(prefix, "complete"), "w", encoding="utf-8"):
        pass


def bring_up_loopback():
    """Open MPI's processes meet there. Without the privilege, or where it is up, nothing changes."""
    get_flags, set_flags, up = 0x8913, 0x8914, 1
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
            flags = struct.unpack("16sh", fcntl.ioctl(some, get_flags, struct.pack("16sh14x", b"lo", 0))[:18])[1]
            if not flags & up:
                fcntl.ioctl(some, set_flags, struct.pack("16sh14x", b"lo", flags | up))
    except OSError:
        pass


def python_packages():
    """Folders of NVIDIA's Python packages, with include/ and lib/ in them."""
    found = []
    for folder in sys.path:
        found += glob.glob(os.path.join(folder, "nvidia", "*", "lib"))
    return [os.path.dirname(folder) for folder in found]


def nvidia_folders():
    """Folders with NVIDIA's libraries: of Python's packages, which fit each other and have cuDNN, then the toolkit's."""
    found = [os.path.join(package, "lib") for package in python_packages()]
    for nvcc in [shutil.which("nvcc")] + sorted(glob.glob("/usr/local/cuda*/bin/nvcc"))[-1:]:
        if nvcc:
            found.append(os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "lib64"))
    return list(dict.fromkeys(found))


def environment(prefix):
    """The environment in which programs find the carried libraries, above all Open MPI, which contains its own path."""
    usr = os.path.join(prefix, "usr")
    env = dict(os.environ)
    folders = [os.path.join(prefix, "lib"), *nvidia_folders(), *env.get("LD_LIBRARY_PATH", "").split(":")]
    env.update(
        LD_LIBRARY_PATH=":".join(filter(None, folders)),
        TRIVIUM_TEST_DATA=prefix,
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
    )
    if os.path.exists(os.path.join(usr, "bin")):
        env["OPAL_PREFIX"] = usr
        for pmix in glob.glob(os.path.join(usr, "lib", "*", "pmix2")):
            env["PMIX_PREFIX"] = pmix
    return env
