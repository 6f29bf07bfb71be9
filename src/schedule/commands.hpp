#pragma once
// A Schedule as commands to a device: its queues become streams, its waits become events.
//
// A device works concurrently with the host, which gives it this list and nothing else: a Step's work, copies
// for feeds and fetches, events between streams, and one synchronisation, before the decision. So there is no
// place where a run could wait, copy or allocate without the Schedule naming it.
#include "schedule/schedule.hpp"

#include <functional>

namespace trivium {

enum class CommandKind {
    launch,      ///< the work of Steps [step, step + count), in one launch where they are several
    copy_in,     ///< a feed: from the host's staging memory
    copy_out,    ///< a fetch: to the host's staging memory
    record,      ///< `event` is the present end of `queue`
    wait,        ///< what `queue` does next begins when `event` was reached
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

/// The commands of one part of a Schedule. The part begins and ends at the end of the compute queue: the
/// other queues wait for it first, and it waits for them last. So parts, and Schedules, follow each other on
/// it, and a part can be captured as a graph.
struct CommandList {
    std::vector<DeviceCommand> commands;
    /// Commands from here on are the host's wait for the part, not work of the device: no part of a captured
    /// graph.
    std::size_t end_of_work = 0;
};

struct DeviceProgram {
    CommandList until_decision; ///< ends with the one synchronisation
    CommandList after_decision;
    int events = 0; ///< used by both, numbered from 0
};

/// Whether Step `next`, which follows `first` … `next - 1` in list and queue, may be launched with them.
using Joins = std::function<bool(StepId first, StepId next)>;

/// Waits that others imply are left out. `joins` empty: every Step is a launch of its own.
DeviceProgram lower(const Schedule& schedule, const Joins& joins = {});

/// One line per command of the program, which was made from `schedule`, as that was from `graph`.
std::string to_text(const DeviceProgram& program, const Schedule& schedule, const Graph& graph);

} // namespace trivium
