# What the GPU back-ends need: a Kokkos with CUDA, the CUDA toolkit, NCCL; and cuDNN, which they can do without.
# docs/cuda.md says how to get them.
#
# A Kokkos with CUDA brings its own compiler driver and, through find_package, sends every source of a target that
# links Kokkos::kokkos through it. So these sources stay C++ for CMake, which may know less of nvcc than nvcc does.
if(NOT "CUDA" IN_LIST Kokkos_DEVICES)
  message(FATAL_ERROR "The preset 'cuda' needs a Kokkos with CUDA; ${Kokkos_DIR} has only ${Kokkos_DEVICES}.\n"
    "  Spack:      spack install kokkos +cuda +wrapper cuda_arch=90\n"
    "  elsewhere:  build Kokkos with -DKokkos_ENABLE_CUDA=ON and pass -DCMAKE_PREFIX_PATH=<where it is installed>\n"
    "  docs/cuda.md says more. Without a GPU use the preset 'default'.")
endif()
find_package(CUDAToolkit 12.0 QUIET)
trivium_need(CUDAToolkit_FOUND "the CUDA toolkit >= 12" "nvidia-cuda-toolkit (or NVIDIA's own packages)" cuda)

# trivium_version(OUT HEADER MACRO…): the numbers that the header defines the macros as, with dots between.
function(trivium_version out header)
  set(numbers "")
  foreach(macro IN LISTS ARGN)
    file(STRINGS "${header}" line REGEX "^#define ${macro} +[0-9]+")
    string(REGEX MATCH "[0-9]+" number "${line}")
    list(APPEND numbers ${number})
  endforeach()
  list(JOIN numbers "." version)
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

# NCCL has no CMake package; newer toolkits carry it.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ENV NCCL_HOME ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY nccl HINTS ENV NCCL_HOME ${CUDAToolkit_LIBRARY_DIR} "${CUDAToolkit_LIBRARY_ROOT}"
  PATH_SUFFIXES lib lib64)
if(NOT NCCL_INCLUDE_DIR)
  set(NCCL_LIBRARY NCCL_LIBRARY-NOTFOUND)
endif()
trivium_need(NCCL_LIBRARY "NCCL >= 2.18 (collectives between GPUs)" "libnccl-dev (from NVIDIA's repository)" nccl)
trivium_version(NCCL_VERSION "${NCCL_INCLUDE_DIR}/nccl.h" NCCL_MAJOR NCCL_MINOR NCCL_PATCH)
if(NCCL_VERSION VERSION_LESS 2.18)
  message(FATAL_ERROR "Trivium needs NCCL >= 2.18; ${NCCL_INCLUDE_DIR}/nccl.h is of ${NCCL_VERSION}.")
endif()

# cuDNN's attention, through NVIDIA's header-only frontend. Neither has a CMake package everywhere.
set(TRIVIUM_CUDNN AUTO CACHE STRING "Attention by cuDNN: AUTO (where cuDNN and its frontend are found), ON or OFF")
set_property(CACHE TRIVIUM_CUDNN PROPERTY STRINGS AUTO ON OFF)
set(CUDNN_VERSION "")
if(TRIVIUM_CUDNN)
  find_path(CUDNN_INCLUDE_DIR cudnn_version.h HINTS ENV CUDNN_HOME ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  find_library(CUDNN_LIBRARY cudnn HINTS ENV CUDNN_HOME ${CUDAToolkit_LIBRARY_DIR} "${CUDAToolkit_LIBRARY_ROOT}"
    PATH_SUFFIXES lib lib64)
  find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ENV CUDNN_FRONTEND_HOME PATH_SUFFIXES include)
  if(CUDNN_INCLUDE_DIR AND CUDNN_LIBRARY)
    trivium_version(CUDNN_VERSION "${CUDNN_INCLUDE_DIR}/cudnn_version.h" CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
  endif()
  if(CUDNN_VERSION VERSION_GREATER_EQUAL 9 AND CUDNN_FRONTEND_INCLUDE_DIR)
    add_library(Trivium_cudnn INTERFACE)
    target_include_directories(Trivium_cudnn SYSTEM INTERFACE
      $<BUILD_INTERFACE:${CUDNN_INCLUDE_DIR}> $<BUILD_INTERFACE:${CUDNN_FRONTEND_INCLUDE_DIR}>)
    target_link_libraries(Trivium_cudnn INTERFACE ${CUDNN_LIBRARY})
  endif()
endif()
if(TARGET Trivium_cudnn)
  message(STATUS "CUDA: attention by cuDNN ${CUDNN_VERSION} where it has it")
elseif(TRIVIUM_CUDNN STREQUAL "AUTO" OR NOT TRIVIUM_CUDNN)
  message(STATUS "CUDA: attention without cuDNN")
else()
  message(FATAL_ERROR "TRIVIUM_CUDNN needs cuDNN >= 9 (found: '${CUDNN_VERSION}') and its frontend's headers "
    "(found: '${CUDNN_FRONTEND_INCLUDE_DIR}').\n"
    "  Spack:      spack install cudnn\n"
    "  elsewhere:  pass -DCMAKE_PREFIX_PATH=<where they are installed>; docs/cuda.md says more")
endif()

set(trivium_vendor_libs CUDA::cudart)
set(trivium_collectives_libs "${NCCL_LIBRARY}")
set(trivium_collectives_include "${NCCL_INCLUDE_DIR}")

# Kokkos's driver is put in front of the compiler, and does not look behind a cache's name.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  message(STATUS "CUDA: without ${CMAKE_CXX_COMPILER_LAUNCHER}, as Kokkos launches the compiler")
  set(CMAKE_CXX_COMPILER_LAUNCHER "")
endif()

string(APPEND TRIVIUM_DEPENDENCY_LINES
  "\\nCUDA ${CUDAToolkit_VERSION} (cuBLAS), NCCL ${NCCL_VERSION}")
if(TARGET Trivium_cudnn)
  string(APPEND TRIVIUM_DEPENDENCY_LINES ", cuDNN ${CUDNN_VERSION}")
endif()
