#include "plan/memory_history.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <iomanip>
#include <map>
#include <numeric>

namespace trivium {

namespace {

constexpr std::size_t chart_columns = 72, chart_rows = 14;

/// The letters of the kinds in the chart.
constexpr char kind_letters[memory_kind_count + 1] = "POKVCGIABNLS";

std::vector<StepPart> find_parts(const Schedule& schedule, const Graph& graph, const Execution& execution)
{
    std::vector<std::size_t> order(schedule.steps.size()); // by the time at which they begin
    for (std::size_t i = 0; i < order.size(); ++i)
        order[execution.steps[i].begin] = i;
    std::vector<StepPart> parts;
    for (std::size_t time = 0; time < order.size(); ++time) {
        const Step& step = schedule.steps[order[time]];
        if (step.kind == StepKind::op && step.queue == queue_compute) {
            const Op& op = graph[step.op];
            StepPart part{std::string(name_of(op.region)), name_of(op.region)[0], step.microbatch, time, 0};
            if (op.region == Region::microbatch) {
                part.name = str(name_of(op.phase), " ", step.microbatch);
                part.letter = name_of(op.phase)[0];
            }
            if (parts.empty() || parts.back().name != part.name)
                parts.push_back(std::move(part));
        }
    }
    for (std::size_t i = 0; i < parts.size(); ++i)
        parts[i].end = i + 1 < parts.size() ? parts[i + 1].begin : order.size();
    if (!parts.empty())
        parts.front().begin = 0;
    return parts;
}

std::string text_of(const Schedule& schedule, const Graph& graph, StepId id)
{
    const Step& step = schedule.steps[id.index()];
    return str(id, " ",
               step.kind == StepKind::op     ? info(graph[step.op]).name
               : step.kind == StepKind::feed ? "feed"
                                             : "fetch",
               step.microbatch >= 0 ? str(" mb", step.microbatch) : std::string());
}

/// "layers.*.ffn.add" for "layers.3.ffn.add#2": the same in all layers and slots.
std::string pattern_of(const std::string& name)
{
    std::string made;
    for (std::size_t begin = 0; begin <= name.size();) {
        const std::size_t end = std::min(name.find_first_of(".#", begin), name.size());
        const std::string part = name.substr(begin, end - begin);
        const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
        if (begin > 0 && name[begin - 1] == '#')
            break;
        made += (begin > 0 ? "." : "") + (number ? "*" : part);
        begin = end + 1;
    }
    return made;
}

} // namespace

Bytes BytesByKind::sum() const { return std::accumulate(std::begin(bytes), std::end(bytes), Bytes{0}); }

MemoryHistory memory_history(const Schedule& schedule, const Graph& graph)
{
    if (schedule.steps.empty())
        throw UserError({graph.file.empty() ? graph.name : graph.file, "has nothing to compute",
                         "no output needs one of its ops", "name a result: `output %NAME`"});
    Occupancy occupancy = worst_occupancy(schedule, HappensBefore(schedule), find_intervals(schedule));
    MemoryHistory made;
    made.length = schedule.steps.size();
    made.peak = occupancy.peak;
    for (std::size_t i = 0; i < schedule.steps.size(); ++i)
        if (occupancy.execution.steps[i].begin == made.peak)
            made.peak_step = StepId(i);
    for (std::size_t b = 0; b < schedule.buffers.size(); ++b)
        if (schedule.buffers[b].lifetime == Lifetime::run && schedule.buffers[b].space == Space::device)
            made.alive.push_back({BufferId(b), 0, made.length, {}, {}});
    made.alive.insert(made.alive.end(), occupancy.alive.begin(), occupancy.alive.end());
    made.parts = find_parts(schedule, graph, occupancy.execution);
    return made;
}

BytesByKind alive_at(const MemoryHistory& history, const Schedule& schedule, std::size_t time)
{
    BytesByKind made;
    for (const Alive& alive : history.alive)
        if (alive.begin <= time && time < alive.end)
            made.bytes[static_cast<int>(schedule[alive.buffer].kind)] += schedule[alive.buffer].bytes;
    return made;
}

std::vector<PeakRow> peak_rows(const MemoryHistory& history, const Schedule& schedule)
{
    std::map<std::pair<std::string, MemoryKind>, PeakRow> rows;
    for (const Alive& alive : history.alive) {
        if (alive.begin > history.peak || history.peak >= alive.end)
            continue;
        const Buffer& buffer = schedule[alive.buffer];
        const bool kept = buffer.lifetime == Lifetime::run;
        const std::string name = kept ? "(all of the run)" : pattern_of(buffer.name);
        PeakRow& row = rows[{name, buffer.kind}];
        if (row.buffers == 0)
            row = {kept ? name : buffer.name, buffer.kind, 0, 0, alive.first, alive.last};
        else
            row.name = name;
        ++row.buffers;
        row.bytes += buffer.bytes;
        if (!kept) {
            row.first = std::min(row.first, alive.first);
            row.last = std::max(row.last, alive.last);
        }
    }
    std::vector<PeakRow> sorted;
    for (const auto& [pattern, row] : rows)
        sorted.push_back(row);
    std::ranges::stable_sort(sorted, [](const PeakRow& a, const PeakRow& b) { return a.bytes > b.bytes; });
    return sorted;
}

std::string peak_table(const MemoryHistory& history, const Schedule& schedule, const Graph& graph)
{
    const std::vector<PeakRow> rows = peak_rows(history, schedule);
    std::ostringstream out;
    const auto row = [&](const std::string& name, std::string_view kind, std::size_t buffers, Bytes bytes,
                         const std::string& from, const std::string& to) {
        out << "  " << std::left << std::setw(44) << name << " " << std::setw(19) << kind << std::right
            << std::setw(8) << buffers << std::setw(13) << format_bytes(bytes) << std::setw(20)
            << format_count(bytes) << "  " << std::left << std::setw(28) << from << to << "\n";
    };
    out << "  " << std::left << std::setw(44) << "buffer"
        << " " << std::setw(19) << "kind" << std::right << std::setw(8) << "buffers" << std::setw(33)
        << "bytes"
        << "  " << std::left << std::setw(28) << "from Step"
        << "to Step\n";
    PeakRow others;
    Bytes sum = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        sum += rows[i].bytes;
        if (i < 20)
            row(rows[i].name, name_of(rows[i].kind), rows[i].buffers, rows[i].bytes,
                rows[i].first ? text_of(schedule, graph, rows[i].first) : "always",
                rows[i].last ? text_of(schedule, graph, rows[i].last) : "always");
        else {
            others.buffers += rows[i].buffers;
            others.bytes += rows[i].bytes;
        }
    }
    if (others.buffers > 0)
        row("others", "", others.buffers, others.bytes, "", "");
    out << "  sum " << format_bytes(sum) << ", " << format_count(sum) << " bytes, as Step "
        << text_of(schedule, graph, history.peak_step) << " begins\n";
    return out.str();
}

std::string memory_chart(const MemoryHistory& history, const Schedule& schedule)
{
    const std::size_t columns = std::min(chart_columns, history.length);
    const auto column_of = [&](std::size_t time) { return time * columns / history.length; };
    // The highest time of each column: sums over time first, then the kinds at those times alone.
    std::vector<Bytes> bytes(history.length + 1, 0);
    for (const Alive& alive : history.alive) {
        bytes[alive.begin] += schedule[alive.buffer].bytes;
        bytes[alive.end] -= schedule[alive.buffer].bytes;
    }
    std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
    std::vector<std::size_t> highest(columns, history.length);
    for (std::size_t time = 0; time < history.length; ++time) {
        std::size_t& best = highest[column_of(time)];
        if (best == history.length || bytes[time] > bytes[best])
            best = time;
    }
    const double row_bytes =
        static_cast<double>(std::max<Bytes>(bytes[history.peak], 1)) / static_cast<double>(chart_rows);
    std::vector<std::string> rows(chart_rows, std::string(columns, ' '));
    for (std::size_t column = 0; column < columns; ++column) {
        const BytesByKind at = alive_at(history, schedule, highest[column]);
        double below = 0;
        std::size_t row = 0;
        for (int kind = 0; kind < memory_kind_count; ++kind) {
            below += static_cast<double>(at.bytes[kind]);
            for (; row < chart_rows && (static_cast<double>(row) + 0.5) * row_bytes < below; ++row)
                rows[row][column] = kind_letters[kind];
        }
    }
    std::ostringstream out;
    for (std::size_t row = chart_rows; row-- > 0;) {
        const bool labelled = row + 1 == chart_rows || row % 4 == 3;
        out << "  " << std::right << std::setw(11)
            << (labelled ? format_bytes(static_cast<Bytes>(static_cast<double>(row + 1) * row_bytes)) : "")
            << " |" << rows[row] << "\n";
    }
    std::string parts(columns, ' '), marks(columns, ' ');
    for (std::size_t column = 0; column < columns; ++column)
        for (const StepPart& part : history.parts)
            if (part.begin <= highest[column] && highest[column] < part.end)
                parts[column] = part.letter;
    marks[column_of(history.peak)] = '^';
    out << "  " << std::setw(11) << "part"
        << "  " << parts << "\n  " << std::setw(11) << "peak"
        << "  " << marks << "\n";
    out << "  ";
    bool some = false;
    std::vector<bool> seen(memory_kind_count, false);
    for (const Alive& alive : history.alive)
        seen[static_cast<std::size_t>(schedule[alive.buffer].kind)] = true;
    for (int kind = 0; kind < memory_kind_count; ++kind)
        if (seen[static_cast<std::size_t>(kind)]) {
            out << (some ? ", " : "") << kind_letters[kind] << " " << name_of(static_cast<MemoryKind>(kind));
            some = true;
        }
    out << "\n  parts: p prologue, f forward, b backward, w weight gradients, e epilogue; a column is "
        << (history.length + columns - 1) / columns << " of " << history.length
        << " Steps and shows its highest moment\n";
    return out.str();
}

} // namespace trivium
