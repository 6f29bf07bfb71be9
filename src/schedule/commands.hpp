#pragma once
// A Schedule as commands to a device: its queues become streams, its waits become events.
//
// The host sends only these commands to a device, which works concurrently: the work of Steps, copies for
// feeds and fetches, events between streams, and one synchronisation, before the decision. So a run waits,
// copies and allocates only where the Schedule states it.
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
template <>
inline constexpr std::array<std::string_view, 6> names_of_enum<CommandKind>{
    "launch", "copy_in", "copy_out", "record", "wait", "synchronise"};

struct DeviceCommand {
    CommandKind kind = CommandKind::launch;
    int queue = 0;
    StepId step; ///< of launch and copies
    std::size_t count = 1;
    int event = -1; ///< of record, wait and synchronise
};

/// The commands of one of the two parts of a Schedule: until the decision, or after it. At the begin of a
/// part the other queues wait for the compute queue, and at its end the compute queue waits for them. So
/// parts and Schedules run one after another on the compute queue, and a part can be captured as a graph.
/// Exception: peers may receive sends before an early decision after their own; the second part waits for
/// them.
struct CommandList {
    std::vector<DeviceCommand> commands;
    /// Commands from this index on are the host's wait for the part, not work of the device; a captured graph
    /// does not contain them.
    std::size_t end_of_work = 0;
};

struct DeviceProgram {
    CommandList until_decision; ///< ends with the only synchronisation
    CommandList after_decision;
    int events = 0; ///< used by both, numbered from 0
};

/// Whether Step `next` may be launched with Steps `first` … `next - 1`, which precede it in the list and are
/// on the same queue.
using Joins = std::function<bool(StepId first, StepId next)>;

/// The commands of a Schedule, without the waits that other waits imply. If `joins` is empty, every Step is a
/// separate launch. Throws InternalError if a Step waits for a later one.
DeviceProgram lower(const Schedule& schedule, const Joins& joins = {});

/// One line per command. \pre `program` is lower(schedule), and `schedule` was built from `graph`
std::string to_text(const DeviceProgram& program, const Schedule& schedule, const Graph& graph);

} // namespace trivium
