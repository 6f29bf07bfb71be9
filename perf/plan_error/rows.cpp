#include "rows.hpp"

#include "base/check.hpp"
#include "choose/decide.hpp"
#include "config/about_key.hpp"
#include "io/files/config_file.hpp"
#include "io/files/files.hpp"
#include "io/files/lines.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

namespace trivium {

namespace {

constexpr const char* header = "id,group,source,machine,gpus,step_seconds,settings,note";

/// A field between double quotes may contain commas.
std::vector<std::string> fields_of(const std::string& line)
{
    std::vector<std::string> fields(1);
    bool quoted = false;
    for (const char c : line)
        if (c == '"')
            quoted = !quoted;
        else if (c == ',' && !quoted)
            fields.emplace_back();
        else
            fields.back() += c;
    return fields;
}

template <class Number>
bool parse(const std::string& text, Number& number)
{
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() && number > 0;
}

} // namespace

std::vector<Row> read_rows(const std::string& path)
{
    std::vector<Row> rows;
    i64 number = 0;
    for_each_line(read_file(path, "file of rows"), [&](const std::string& line, bool) {
        const std::string place = str(path, ":", ++number);
        if (number == 1 && line != header)
            throw UserError(
                {place, "this is not the header of a file of rows", "", str("write '", header, "'")});
        if (number == 1 || line.empty())
            return;
        const std::vector<std::string> f = fields_of(line);
        Row row;
        if (f.size() != 8 || !parse(f[4], row.ranks) || !parse(f[5], row.measured))
            throw UserError({place, str("'", line, "' is not a row"),
                             "it has 8 fields; gpus and step_seconds are positive numbers", ""});
        row.id = f[0];
        row.group = f[1];
        row.source = f[2];
        row.machine = f[3];
        row.settings = f[6];
        row.note = f[7];
        rows.push_back(std::move(row));
    });
    return rows;
}

CompiledRow compile_row(const Row& row, const Machine& machine)
{
    return about_key("row " + row.id, [&] {
        std::istringstream words(row.settings);
        std::vector<std::string> overrides;
        for (std::string word; words >> word;)
            overrides.push_back(word);
        RunConfig config = read_config("", overrides);
        resolve_and_validate(config);
        if (rank_count(config.parallel) != row.ranks)
            throw UserError(
                {"gpus",
                 str("is ", row.ranks, ", but the settings are for ", rank_count(config.parallel), " ranks"),
                 "", "correct one of them"});
        CompileConfig options;
        options.machine = machine;
        options.runner.verify = false;
        return CompiledRow{row, machine, simulate_step(decide(config, machine), options, train_program, 1),
                           config};
    });
}

std::string parts_of(const CompiledRow& row)
{
    const auto busy = [](const SimulatedRank& r) {
        return r.timeline.busy(r.program.schedule, queue_compute);
    };
    const SimulatedRank& rank = *std::ranges::max_element(
        row.step.ranks, [&](const SimulatedRank& a, const SimulatedRank& b) { return busy(a) < busy(b); });
    const Schedule& schedule = rank.program.schedule;
    std::map<std::string, Seconds> parts;
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
        const Step& step = schedule.steps[i];
        const std::string& queue = schedule.queues[static_cast<std::size_t>(step.queue)];
        const std::string name = step.queue != queue_compute ? queue.substr(0, queue.find(' '))
                                 : step.kind == StepKind::op ? info(rank.program.graph[step.op]).name
                                                             : "host";
        parts[name] += rank.timeline.spans[i].end - rank.timeline.spans[i].begin;
    }
    std::string text;
    for (const auto& [name, seconds] : parts)
        if (seconds > 0.002 * row.step.length()) // of a step, more than 0.2 %
            text += str(name, " ", fixed(seconds, 3), ", ");
    return text + str("compute waits ", fixed(row.step.length() - busy(rank), 3));
}

Seconds simulate_row(CompiledRow& row, const Machine& machine)
{
    return simulate(row.step.ranks, machine, row.step.threads, row.config);
}

} // namespace trivium
