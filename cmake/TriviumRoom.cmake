# One folder is one room is one target.
#
#   trivium_room(NAME SOURCES a.cpp b.cpp [RUNTIME_SOURCES c.cpp] DEPS base ir LIBS Some::lib)
#
# makes the static library trivium_NAME (alias Trivium::NAME) from the sources of the current folder.
# DEPS are the rooms it may include, LIBS outside libraries its public headers need, PRIVATE_LIBS those
# that only its sources need. RUNTIME_SOURCES are left out where TRIVIUM_RUNTIME is off. The property
# TRIVIUM_ROOM_DEPS is what tests/structure checks includes against.

add_library(trivium_flags INTERFACE)
target_compile_features(trivium_flags INTERFACE cxx_std_20)
target_compile_options(trivium_flags INTERFACE $<BUILD_INTERFACE:-Wall -Wextra -Wpedantic -Wconversion
  -Wno-sign-conversion $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local;-Wno-restrict;-Wno-stringop-overflow>>)
if(NOT TRIVIUM_DEVICE) # the compiler collects its garbage above 800 MB: a tenth of its time
  target_compile_options(trivium_flags INTERFACE
    $<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=800000>>)
endif()
if(TRIVIUM_WERROR)
  target_compile_options(trivium_flags INTERFACE $<BUILD_INTERFACE:-Werror>)
endif()
if(TRIVIUM_CONTRACTS)
  target_compile_definitions(trivium_flags INTERFACE TRIVIUM_CONTRACTS)
endif()
if(TRIVIUM_SANITIZE) # less checks, less time to compile: a null pointer ends under the address sanitizer too
  target_compile_options(trivium_flags INTERFACE $<BUILD_INTERFACE:-fsanitize=address,undefined -fno-omit-frame-pointer
    -fno-sanitize=null,object-size,vptr,alignment,pointer-overflow -fno-sanitize-recover=undefined>)
  # Of the tests' own code only what it does to memory that it shares with the rooms: nearly half the time to compile.
  set(tests_own "$<STREQUAL:$<TARGET_PROPERTY:FOLDER>,tests>")
  target_compile_options(trivium_flags INTERFACE $<BUILD_INTERFACE:$<${tests_own}:-fno-sanitize=undefined>
    $<$<AND:${tests_own},$<CXX_COMPILER_ID:GNU>>:--param=asan-stack=0>>)
  target_link_options(trivium_flags INTERFACE -fsanitize=address,undefined)
endif()

set_property(GLOBAL PROPERTY TRIVIUM_ROOMS "")

function(trivium_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;RUNTIME_SOURCES;DEPS;LIBS;PRIVATE_LIBS" ${ARGN})
  set(target trivium_${name})
  if(TRIVIUM_RUNTIME)
    list(APPEND ROOM_SOURCES ${ROOM_RUNTIME_SOURCES})
  endif()
  add_library(${target} STATIC ${ROOM_SOURCES})
  add_library(Trivium::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/trivium>)
  target_link_libraries(${target} PUBLIC trivium_flags ${ROOM_LIBS} PRIVATE ${ROOM_PRIVATE_LIBS})
  foreach(dep IN LISTS ROOM_DEPS)
    target_link_libraries(${target} PUBLIC trivium_${dep})
  endforeach()
  if(TRIVIUM_DEVICE AND "Kokkos::kokkos" IN_LIST ROOM_PRIVATE_LIBS) # the compiler of a device takes minutes for a batch
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  endif()
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  set_property(GLOBAL APPEND PROPERTY TRIVIUM_ROOMS ${name})
  set_property(GLOBAL PROPERTY TRIVIUM_ROOM_FOLDER_${name} "${folder}")
  set_property(GLOBAL PROPERTY TRIVIUM_ROOM_DEPS_${name} "${ROOM_DEPS}")
endfunction()
