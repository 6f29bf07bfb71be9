#pragma once
// A Schedule as commands to a device: its queues become streams, its waits become events.
//
// A device works concurrently with the host, which sends it only this list: the work of Steps, copies for
// feeds and fetches, events between streams, and one synchronisation, before the decision. So a run waits,
// copies and allocates only as the Schedule states.
#include "schedule/schedule.hpp"

#include <functional>

namespace trivium {

enum class CommandKind {
    launch,      ///< the work of Steps [step, step + count), in one launch
    copy_in,     ///< a feed: from the host's staging memory
    copy_out,    ///< a fetch: to the host's staging memory
    record,      ///< records `event` at the current end of `queue`
    wait,        ///< later work of `queue` begins when `event` is reached
    synchronise, ///< the host waits for `event`
};
std::string_view name_of(CommandKind kind);

struct DeviceCommand {
    CommandKind kind = CommandKind::launch;
    int queue = 0;
    StepId step; ///< of launch and copies
    std::size_t count = 1;
    int event = -1; ///< of record, wait and synchronise
};

/// The commands of one part of a Schedule. A part begins and ends on the compute queue: at its begin the
/// other queues wait for the compute queue, and at its end the compute queue waits for them. So parts and
/// Schedules run one after another on the compute queue, and a part can be captured as a graph. But an early
/// decision does not wait for messages to other ranks, which may receive them after theirs.
struct CommandList {
    std::vector<DeviceCommand> commands;
    /// Commands from here on are the host's wait for the part, not work of the device; a captured graph does
    /// not contain them.
    std::size_t end_of_work = 0;
};

struct DeviceProgram {
    CommandList until_decision; ///< ends with the only synchronisation
    CommandList after_decision;
    int events = 0; ///< used by both, numbered from 0
};

/// Whether Step `next`, which follows `first` … `next - 1` in the list and in the queue, may be launched with
/// them.
using Joins = std::function<bool(StepId first, StepId next)>;

/// Waits that other waits imply are left out. `joins` empty: every Step is a separate launch.
DeviceProgram lower(const Schedule& schedule, const Joins& joins = {});

/// One line per command of the program, which was made from `schedule`, which was made from `graph`.
std::string to_text(const DeviceProgram& program, const Schedule& schedule, const Graph& graph);

} // namespace trivium
