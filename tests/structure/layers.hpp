#pragma once
// The layers of the house: which room may include which.
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

/// One line a room: NAME FOLDER DEP…
Rooms parse_rooms(std::string_view text);

/// The rooms of the design and what each may stand on.
const Rooms& designed_rooms();

/// `rooms` with those that this build lacks (the planner's has no kernels, no mpi), as designed: a room whose
/// files a build compiles in part is held against all that it may stand on.
Rooms completed(Rooms rooms, const Rooms& design);

/// What `room` may include: its deps, and theirs in turn.
std::set<std::string> reachable(const Rooms& rooms, const std::string& room);

/// Rooms that the design does not have, or in another folder, or with deps that it does not allow.
Findings check_against_design(const Rooms& rooms, const Rooms& design);

/// Declared deps that lead back to where they began.
Findings check_no_cycle(const Rooms& rooms);

/// Every #include "room/…" of `files`, which belong to `room`, is of the room itself or of what it may
/// include. A quoted include with any other folder must be of one of the room's own.
Findings check_includes(const Rooms& rooms, const std::string& room, const std::vector<SourceFile>& files);

/// The rooms that build without MPI, Kokkos, HDF5 or CUDA include no header of those.
Findings check_planner_includes(const std::vector<SourceFile>& files);

} // namespace trivium::structure
