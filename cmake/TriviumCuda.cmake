# What the GPU back-ends need: a Kokkos with CUDA, the CUDA toolkit, NCCL. docs/cuda.md says how to get them.
#
# A Kokkos with CUDA brings its own compiler driver and, through find_package, sends every source of a target that
# links Kokkos::kokkos through it. So these sources stay C++ for CMake, which may know less of nvcc than nvcc does.
if(NOT TRIVIUM_RUNTIME)
  message(FATAL_ERROR "TRIVIUM_CUDA needs the rooms that run a model: it does not go with TRIVIUM_RUNTIME=OFF.")
endif()
if(NOT "CUDA" IN_LIST Kokkos_DEVICES)
  message(FATAL_ERROR "The preset 'cuda' needs a Kokkos with CUDA; ${Kokkos_DIR} has only ${Kokkos_DEVICES}.\n"
    "  Spack:      spack install kokkos +cuda +wrapper cuda_arch=90\n"
    "  elsewhere:  build Kokkos with -DKokkos_ENABLE_CUDA=ON and pass -DCMAKE_PREFIX_PATH=<where it is installed>\n"
    "  docs/cuda.md says more. Without a GPU use the preset 'default'.")
endif()
find_package(CUDAToolkit 12.0 QUIET)
trivium_need(CUDAToolkit_FOUND "the CUDA toolkit >= 12" "nvidia-cuda-toolkit (or NVIDIA's own packages)" cuda)

# NCCL has no CMake package; newer toolkits carry it.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ENV NCCL_HOME ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY nccl HINTS ENV NCCL_HOME ${CUDAToolkit_LIBRARY_DIR} "${CUDAToolkit_LIBRARY_ROOT}"
  PATH_SUFFIXES lib lib64)
if(NOT NCCL_INCLUDE_DIR)
  set(NCCL_LIBRARY NCCL_LIBRARY-NOTFOUND)
endif()
trivium_need(NCCL_LIBRARY "NCCL >= 2.18 (collectives between GPUs)" "libnccl-dev (from NVIDIA's repository)" nccl)
set(NCCL_VERSION "")
foreach(part IN ITEMS MAJOR MINOR PATCH)
  file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" line REGEX "^#define NCCL_${part} +[0-9]+")
  string(REGEX MATCH "[0-9]+" number "${line}")
  list(APPEND NCCL_VERSION ${number})
endforeach()
list(JOIN NCCL_VERSION "." NCCL_VERSION)
if(NCCL_VERSION VERSION_LESS 2.18)
  message(FATAL_ERROR "Trivium needs NCCL >= 2.18; ${NCCL_INCLUDE_DIR}/nccl.h is of ${NCCL_VERSION}.")
endif()

# Kokkos's driver is put in front of the compiler, and does not look behind a cache's name.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  message(STATUS "CUDA: without ${CMAKE_CXX_COMPILER_LAUNCHER}, as Kokkos launches the compiler")
  set(CMAKE_CXX_COMPILER_LAUNCHER "")
endif()

string(APPEND TRIVIUM_DEPENDENCY_LINES
  "\\nCUDA ${CUDAToolkit_VERSION} (cuBLAS), NCCL ${NCCL_VERSION}")
