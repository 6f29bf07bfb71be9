# What the back-ends for AMD GPUs need: a Kokkos with HIP; and rocBLAS and RCCL, which they can do without.
# docs/amd.md says how to get them.
if(NOT "HIP" IN_LIST Kokkos_DEVICES)
  message(FATAL_ERROR "The preset 'hip' needs a Kokkos with HIP; ${Kokkos_DIR} has only ${Kokkos_DEVICES}.\n"
    "  Spack:      spack install kokkos +rocm amdgpu_target=gfx90a\n"
    "  elsewhere:  build Kokkos with -DKokkos_ENABLE_HIP=ON and pass -DCMAKE_PREFIX_PATH=<where it is installed>\n"
    "  docs/amd.md says more. Without a GPU use the preset 'default'.")
endif()

# hipcc compiles C++ for the device, too, unless told otherwise: only what links Kokkos is for the device.
add_compile_options("$<$<NOT:$<IN_LIST:Kokkos::kokkos,$<TARGET_PROPERTY:LINK_LIBRARIES>>>:-xc++>")
add_compile_definitions(__HIP_PLATFORM_AMD__=1) # hipcc defines it for the device alone

# trivium_optional(VARIABLE NAME PACKAGE COST): AUTO (where it is found), ON or OFF; sets TRIVIUM_HAS_PACKAGE.
function(trivium_optional variable name package cost)
  set(${variable} AUTO CACHE STRING "${name}: AUTO (where it is found), ON or OFF")
  set_property(CACHE ${variable} PROPERTY STRINGS AUTO ON OFF)
  set(found OFF)
  if(${variable})
    find_package(${package} QUIET CONFIG)
    set(found ${${package}_FOUND})
  endif()
  set(TRIVIUM_HAS_${package} ${found} PARENT_SCOPE)
  if(found)
    message(STATUS "HIP: ${name} ${${package}_VERSION}")
    set(TRIVIUM_DEPENDENCY_LINES "${TRIVIUM_DEPENDENCY_LINES}, ${name} ${${package}_VERSION}" PARENT_SCOPE)
  elseif(${variable} STREQUAL "AUTO" OR NOT ${variable})
    message(STATUS "HIP: without ${name}: ${cost}")
    set(TRIVIUM_DEPENDENCY_LINES "${TRIVIUM_DEPENDENCY_LINES}, no ${name}" PARENT_SCOPE)
  else()
    message(FATAL_ERROR "${variable} needs ${name}, which was not found.\n"
      "  Spack:      spack install ${package}\n"
      "  elsewhere:  pass -DCMAKE_PREFIX_PATH=<where ROCm is installed>; docs/amd.md says more")
  endif()
endfunction()

string(APPEND TRIVIUM_DEPENDENCY_LINES "\\nHIP")
trivium_optional(TRIVIUM_ROCBLAS rocBLAS rocblas "products by a plain kernel, which takes many times as long")
trivium_optional(TRIVIUM_RCCL RCCL rccl "no collectives between GPUs, so one rank only")
set(trivium_vendor_libs "")
set(trivium_collectives_libs "")
set(trivium_collectives_include "")
if(TRIVIUM_HAS_rccl)
  set(trivium_collectives_libs roc::rccl)
endif()
