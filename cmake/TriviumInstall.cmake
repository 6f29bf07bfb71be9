# What `cmake --install` puts where, and what find_package(Trivium) finds there.
#
#   bin/trivium                        the program
#   lib/libtrivium_ROOM.a              one library a room, imported as Trivium::ROOM
#   include/trivium/FOLDER/*.hpp       its headers, included as "FOLDER/file.hpp" (the folder below src/)
#   lib/cmake/Trivium/                 one export file a room; the components of find_package are the rooms
#   share/trivium/jobs/                scripts and configs for Slurm
#   share/modulefiles/trivium/VERSION  for Lmod and Environment Modules
#   share/doc/Trivium/                 licence, README and docs/
#
# A room is exported together with the packages that its libraries need, so that a project that asks for
# COMPONENTS model needs neither MPI nor HDF5.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Trivium")
get_property(rooms GLOBAL PROPERTY TRIVIUM_ROOMS)

# trivium_packages_of(OUT LIBRARY…): the packages behind the outside libraries, as TriviumConfig.cmake calls them.
function(trivium_packages_of out)
  set(packages "")
  foreach(library IN LISTS ARGN)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" library "${library}")
    if(library MATCHES "^(CLI11|nlohmann_json|fmt|tomlplusplus|Kokkos|CUDAToolkit|Parquet|Threads|httplib)::")
      list(APPEND packages ${CMAKE_MATCH_1})
    elseif(library MATCHES "^MPI::MPI_(C|CXX)$")
      list(APPEND packages MPI)
    elseif(library MATCHES "^roc::(rocblas|rccl)$")
      list(APPEND packages ${CMAKE_MATCH_1})
    elseif(library MATCHES "^CUDA::")
      list(APPEND packages CUDAToolkit)
    elseif(library MATCHES "^hdf5::")
      list(APPEND packages HDF5)
    elseif(library STREQUAL "OpenMP::OpenMP_CXX")
      list(APPEND packages OpenMP)
    elseif(library STREQUAL "PkgConfig::SENTENCEPIECE")
      list(APPEND packages SentencePiece)
    elseif(library STREQUAL "PkgConfig::CPPHTTPLIB")
      list(APPEND packages cpp-httplib)
    elseif(library STREQUAL "PkgConfig::ONIGURUMA")
      list(APPEND packages Oniguruma)
    elseif(library MATCHES "^PkgConfig::(ZLIB|LIBZSTD|LIBCURL)$")
      string(TOLOWER ${CMAKE_MATCH_1} module)
      list(APPEND packages ${module})
    elseif(library MATCHES "::")
      message(FATAL_ERROR "cmake/TriviumInstall.cmake knows no package for ${library}: add it here and in "
        "cmake/TriviumConfig.cmake.in, so that installed rooms can be linked.")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES packages)
  set(${out} "${packages}" PARENT_SCOPE)
endfunction()

# Interface targets that rooms link; they need no package.
set(shared_targets trivium_flags)
foreach(target IN ITEMS Trivium_cudnn Trivium_dnnl Trivium_no_openmp Trivium_utf8proc Trivium_xxhash)
  if(TARGET ${target})
    list(APPEND shared_targets ${target})
  endif()
endforeach()
set_target_properties(trivium_flags PROPERTIES EXPORT_NAME flags)
install(TARGETS ${shared_targets} EXPORT TriviumShared COMPONENT Development)
install(EXPORT TriviumShared NAMESPACE Trivium:: DESTINATION "${package_dir}" COMPONENT Development)

set(TRIVIUM_ROOM_TABLE "")
foreach(room IN LISTS rooms)
  get_property(folder GLOBAL PROPERTY TRIVIUM_ROOM_FOLDER_${room})
  get_property(deps GLOBAL PROPERTY TRIVIUM_ROOM_DEPS_${room})
  get_target_property(libraries trivium_${room} LINK_LIBRARIES)
  trivium_packages_of(packages ${libraries})
  string(APPEND TRIVIUM_ROOM_TABLE "set(trivium_deps_${room} ${deps})\nset(trivium_packages_${room} ${packages})\n")

  install(TARGETS trivium_${room} EXPORT Trivium_${room} ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    COMPONENT Development)
  install(EXPORT Trivium_${room} NAMESPACE Trivium:: DESTINATION "${package_dir}" COMPONENT Development)
  # Without the forms of a back-end, which are private: what is deeper in these rooms.
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.hpp" "${PROJECT_SOURCE_DIR}/${folder}/*.inc")
  foreach(header IN LISTS headers)
    file(RELATIVE_PATH place "${PROJECT_SOURCE_DIR}" "${header}")
    if(place MATCHES "^src/(kernels|plan|runtime|serve)/[^/]+/|^mpi/(nccl|no_nccl|launch)/|/kernels/(attention_tiles|math)\\.hpp$")
      continue()
    endif()
    string(REGEX REPLACE "^src/" "" place "${place}")
    get_filename_component(place "${place}" DIRECTORY)
    install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/trivium/${place}" COMPONENT Development)
  endforeach()
endforeach()

if(TARGET trivium_program)
  # Libraries that live outside the system's folders (Spack, modules) are found again at run time.
  set_target_properties(trivium_program PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS trivium_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT Program)
endif()
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT Program)
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT Program)
# Without what serves the sources alone.
install(DIRECTORY jobs DESTINATION "${CMAKE_INSTALL_DATADIR}/trivium" COMPONENT Program USE_SOURCE_PERMISSIONS
  PATTERN install-packages EXCLUDE PATTERN packages.debian EXCLUDE PATTERN quickstart EXCLUDE PATTERN stages.bash EXCLUDE)
# Written when it is installed: `cmake --install --prefix` may name another prefix.
install(CODE "
  set(prefix \"\${CMAKE_INSTALL_PREFIX}\")
  set(version \"${PROJECT_VERSION}\")
  set(bindir \"${CMAKE_INSTALL_BINDIR}\")
  set(datadir \"${CMAKE_INSTALL_DATADIR}\")
  set(docdir \"${CMAKE_INSTALL_DOCDIR}\")
  configure_file(\"${PROJECT_SOURCE_DIR}/cmake/modulefile.in\" \"${PROJECT_BINARY_DIR}/package/modulefile\" @ONLY)
  file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/modulefiles/trivium\" TYPE FILE
    RENAME \"${PROJECT_VERSION}\" FILES \"${PROJECT_BINARY_DIR}/package/modulefile\")
  " COMPONENT Program)

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/TriviumConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/package/TriviumConfig.cmake" INSTALL_DESTINATION "${package_dir}"
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may break what stands on it.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/TriviumConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/TriviumConfig.cmake"
  "${PROJECT_BINARY_DIR}/package/TriviumConfigVersion.cmake" DESTINATION "${package_dir}" COMPONENT Development)
