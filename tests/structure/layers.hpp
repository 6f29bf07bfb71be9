#pragma once
// The layers of the code: which room may include which.
#include "source_text.hpp"

#include <map>
#include <set>

namespace trivium::structure {

struct Room {
    std::string folder;         ///< relative to the repository
    std::set<std::string> deps; ///< other rooms, by name
};
/// By name.
using Rooms = std::map<std::string, Room>;

/// One line per room: NAME FOLDER DEP…
Rooms parse_rooms(std::string_view text);

/// The rooms of the design and their allowed dependencies.
const Rooms& designed_rooms();

/// `rooms` completed by the design with rooms that this build lacks (the planner has no kernels and no mpi),
/// because a room that a build compiles only in part is checked against all of its allowed dependencies.
Rooms completed(Rooms rooms, const Rooms& design);

/// The rooms that `room` may include: its dependencies, and theirs in turn.
std::set<std::string> reachable(const Rooms& rooms, const std::string& room);

/// Rooms that are not in the design, are in another folder, or have dependencies that it does not allow.
Findings check_against_design(const Rooms& rooms, const Rooms& design);

/// Cycles of declared dependencies.
Findings check_no_cycle(const Rooms& rooms);

/// Every #include "room/…" of `files`, which belong to `room`, is of the room itself or of what it may
/// include. A quoted include with any other folder must be of one of the room's own.
Findings check_includes(const Rooms& rooms, const std::string& room, const std::vector<SourceFile>& files);

/// The rooms that build without MPI, Kokkos, HDF5 or CUDA include no header of those.
Findings check_planner_includes(const std::vector<SourceFile>& files);

} // namespace trivium::structure
