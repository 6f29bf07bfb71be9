#include "schedule/order_file.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "schedule/order_check.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

namespace trivium {

namespace {

constexpr std::string_view communicating[] = {"SEND_F",  "RECV_F",  "SEND_B",     "RECV_B",
                                              "UNSHARD", "RESHARD", "REDUCE_GRAD"};

std::string_view trimmed(std::string_view text)
{
    const std::size_t first = text.find_first_not_of(" \t\r\"");
    return first == std::string_view::npos ? std::string_view()
                                           : text.substr(first, text.find_last_not_of(" \t\r\"") - first + 1);
}

/// Removes digits from the front of `text`.
std::optional<i64> take_number(std::string_view& text)
{
    i64 number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (parsed.ec != std::errc{} || number < 0 || number >= i64{1} << 20)
        return {};
    text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
    return number;
}

struct Row {
    std::string place;
    RankOrder tasks{};
};

void add_action(std::string_view action, Row& row)
{
    const auto fail = [&](std::string_view what) {
        throw UserError({row.place, str("'", action, "' is not an action"), std::string(what),
                         "write stage, F, B, I or W, and microbatch, e.g. 2F0"});
    };
    std::string_view rest = action;
    const std::optional<i64> stage = take_number(rest);
    if (!stage)
        fail("it does not begin with the number of a stage");
    const std::string_view work = rest.substr(0, rest.find_first_of("0123456789"));
    if (std::find(std::begin(communicating), std::end(communicating), work) != std::end(communicating))
        return;
    const auto known = value_named<Work>(work);
    if (!known)
        fail(str("'", work, "' is no kind of action"));
    rest.remove_prefix(work.size());
    const std::optional<i64> microbatch = take_number(rest);
    if (!microbatch || !rest.empty())
        fail("it does not end with the number of a microbatch");
    row.tasks.push_back({*known, *stage, *microbatch});
}

/// Two passes that torch would overlap are "(0F1;1B0)OVERLAP_F_B".
void add_cell(std::string_view cell, Row& row)
{
    if (cell.starts_with('(') && cell.ends_with(")OVERLAP_F_B")) {
        cell = cell.substr(1, cell.find(')') - 1);
        const std::size_t middle = std::min(cell.find(';'), cell.size());
        add_action(trimmed(cell.substr(0, middle)), row);
        if (middle < cell.size())
            add_action(trimmed(cell.substr(middle + 1)), row);
    } else if (!cell.empty()) {
        add_action(cell, row);
    }
}

std::vector<Row> rows_of(std::string_view text, const std::string& file)
{
    std::vector<Row> rows;
    for (i64 line = 1; !text.empty(); ++line) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view cells = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (trimmed(cells).empty())
            continue;
        Row& row = rows.emplace_back(Row{str(file, ":", line)});
        for (bool more = true; more;) {
            const std::size_t comma = cells.find(',');
            add_cell(trimmed(cells.substr(0, comma)), row);
            more = comma != std::string_view::npos;
            if (more)
                cells.remove_prefix(comma + 1);
        }
        std::set<std::pair<i64, i64>> halves;
        for (const Task& task : row.tasks)
            if (task.work == Work::weight_gradient)
                halves.insert({task.stage, task.microbatch});
        for (Task& task : row.tasks)
            if (task.work == Work::backward && halves.contains({task.stage, task.microbatch}))
                task.work = Work::input_gradient;
    }
    return rows;
}

/// The shape with as many stages as the rows have, placed like these.
PipelineShape shape_of(const std::vector<Row>& rows, const std::string& file, i64 microbatches)
{
    const auto ranks = static_cast<i64>(rows.size());
    i64 stages = 0;
    for (const Row& row : rows)
        for (const Task& task : row.tasks)
            stages = std::max(stages, task.stage + 1);
    PipelineShape shape{ranks, std::max<i64>(1, ceil_div(stages, ranks)), false, microbatches};
    const auto fits = [&] {
        for (i64 rank = 0; rank < ranks; ++rank)
            for (const Task& task : rows[static_cast<std::size_t>(rank)].tasks)
                if (shape.rank_of(task.stage) != rank)
                    return false;
        return true;
    };
    if (fits())
        return shape;
    shape.v_shaped = true;
    if (!fits())
        throw UserError(
            {file,
             str("places ", counted(stages, "stage"), " on ", counted(ranks, "rank"), " in an unknown way"),
             "stage s is on rank s mod ranks; in a V, every second chunk runs backwards",
             "place the stages in one of these ways"});
    return shape;
}

} // namespace

std::string to_csv(const PipelineOrder& order)
{
    std::string text;
    for (const RankOrder& rank : order.ranks) {
        for (std::size_t i = 0; i < rank.size(); ++i)
            text += (i > 0 ? "," : "") + to_text(rank[i]);
        text += "\n";
    }
    return text;
}

PipelineOrder parse_csv(const std::string& text, const std::string& file, i64 ranks, i64 microbatches)
{
    const std::vector<Row> rows = rows_of(text, file);
    if (static_cast<i64>(rows.size()) != ranks)
        throw UserError({file, str("has ", rows.size(), " rows of actions"),
                         str("there are ", ranks, " pipeline ranks, and each has a row"),
                         rows.empty()
                             ? "write a row per rank"
                             : str("set parallel.pipeline to ", rows.size(), ", or change the file")});
    PipelineOrder order{shape_of(rows, file, microbatches), {}};
    i64 most = 0;
    for (const Row& row : rows) {
        order.ranks.push_back(row.tasks);
        for (const Task& task : row.tasks)
            most = std::max(most, task.microbatch + 1);
    }
    if (most != microbatches)
        throw UserError({file, str("orders ", counted(most, "microbatch", "microbatches")),
                         str("a step of this config has ", microbatches),
                         "change train.micro_batch or train.global_batch, or the file"});
    if (const std::optional<OrderFault> fault = find_fault(order))
        throw UserError({rows[static_cast<std::size_t>(fault->rank)].place, fault->problem, fault->reason,
                         fault->remedy});
    return order;
}

} // namespace trivium
