# cmake -Dbuild=… -Dwork=… -Dconsumer=… … -P run.cmake: see CMakeLists.txt in this folder.
cmake_minimum_required(VERSION 3.25)

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} failed with status ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# demand(TEXT PART): fails unless TEXT contains PART.
function(demand text part)
  string(FIND "${text}" "${part}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "expected '${part}' in:\n${text}")
  endif()
endfunction()

file(REMOVE_RECURSE "${work}")
file(MAKE_DIRECTORY "${work}")
set(prefix "${work}/prefix")
run("the installation" "${CMAKE_COMMAND}" --install "${build}" --prefix "${prefix}")

# The planner's rooms alone, then every room: the first must work without MPI, Kokkos and HDF5.
set(kinds planner)
if(runtime)
  list(APPEND kinds everything)
endif()
foreach(kind IN LISTS kinds)
  run("configuring the consumer (${kind})" "${CMAKE_COMMAND}" -S "${consumer}" -B "${work}/${kind}" -G "${generator}"
    "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_C_COMPILER=${c_compiler}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${launcher}"
    "-DCMAKE_PREFIX_PATH=${prefix};${prefix_path}" "-DKIND=${kind}")
  run("building the consumer (${kind})" "${CMAKE_COMMAND}" --build "${work}/${kind}")
  run("the consumer (${kind})" "${work}/${kind}/consumer")
  demand("${output}" "microbatch {")
  demand("${output}" "embed.weight")
  demand("${output}" "layers.2.attn.q.weight")
  message(STATUS "consumer (${kind}): ok")
endforeach()

# A room that does not exist is named, not ignored.
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${consumer}" -B "${work}/unknown" -G "${generator}"
    "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_C_COMPILER=${c_compiler}" "-DCMAKE_PREFIX_PATH=${prefix};${prefix_path}" -DKIND=unknown
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0)
  message(FATAL_ERROR "find_package(Trivium COMPONENTS cellar) succeeded:\n${output}")
endif()
demand("${output}" "cellar")

# Other files for users and modules.
foreach(file IN ITEMS share/doc/Trivium/LICENSE share/doc/Trivium/docs/administrators.md share/trivium/jobs/train.sbatch)
  if(NOT EXISTS "${prefix}/${file}")
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
run("the look at the job script's rights" test -x "${prefix}/share/trivium/jobs/train.sbatch")
find_program(tclsh tclsh)
if(tclsh) # stands in for Lmod and Environment Modules: prints what the module file sets
  file(WRITE "${work}/module.tcl" "
    proc module-whatis {text} {}
    proc conflict {name} {}
    proc prepend-path {name value} { puts \"$name=$value\" }
    proc setenv {name value} { puts \"$name=$value\" }
    source [lindex $argv 0]
    ModulesHelp")
  file(GLOB modulefile "${prefix}/share/modulefiles/trivium/${version}")
  run("the module file" "${tclsh}" "${work}/module.tcl" "${modulefile}")
  demand("${output}" "\nCMAKE_PREFIX_PATH=${prefix}\n")
  demand("${output}" "PATH=${prefix}/bin\n")
  demand("${output}" "TRIVIUM_JOBS=${prefix}/share/trivium/jobs\n")
endif()

file(READ "${prefix}/include/trivium/ir/graph.hpp" header)
demand("${header}" "struct Graph")
if(EXISTS "${prefix}/bin/trivium")
  run("the installed program" "${prefix}/bin/trivium" --version)
  demand("${output}" "${version}")
endif()
