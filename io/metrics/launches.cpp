#include "io/metrics/launches.hpp"

#include "io/files/files.hpp"
#include "io/files/lines.hpp"

#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

using Json = nlohmann::ordered_json;

std::string time_now()
{
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

void append(const std::string& path, const Json& line)
{
    LineWriter(path).write(line.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void append_end(const std::string& path, i64 number, int status, const std::string& reason, i64 step)
{
    append(path, {{"launch", number},
                  {"event", "end"},
                  {"time", time_now()},
                  {"status", status},
                  {"reason", reason},
                  {"step", step}});
}

/// Adds the content of a line.
void take(const Json& line, std::vector<Launch>& launches)
{
    const i64 number = line.at("launch");
    if (line.at("event") == "start") {
        Launch l;
        l.number = number;
        l.begin = line.at("time");
        l.job = line.at("job");
        l.restart = line.at("restart");
        l.ranks = line.at("ranks");
        l.nodes = line.at("nodes");
        l.grid = line.at("grid");
        l.from = line.at("step");
        l.model = line.value("model", "");
        l.machine = line.value("machine", "");
        l.steps = line.value("steps", i64{0});
        launches.push_back(l);
    } else if (!launches.empty() && launches.back().number == number) {
        Launch& l = launches.back();
        if (line.at("event") == "restored") {
            l.from = line.at("step");
            return;
        }
        l.end = line.at("time");
        l.status = line.at("status");
        l.reason = line.at("reason");
        l.to = line.at("step");
    }
}

/// Whether a signal other than that of the time limit stopped the launch: a pre-emption, or a user.
bool was_told_to_stop(const Launch& l)
{
    return l.status == 75 && l.reason.starts_with("signal ") && l.reason.find("time") == std::string::npos;
}

} // namespace

std::vector<Launch> read_launches(const std::string& path)
{
    const std::string file = std::filesystem::is_directory(path) ? path + "/launches.jsonl" : path;
    std::vector<Launch> launches;
    if (!std::filesystem::exists(file))
        return launches;
    for_each_line(read_file(file, "list of launches", max_log_bytes), [&](const std::string& text, bool) {
        try {
            take(Json::parse(text), launches);
        } catch (const Json::exception&) { // incomplete, because the run was killed
        }
    });
    return launches;
}

LaunchLog::LaunchLog(const std::string& dir, Launch l) : path_(dir + "/launches.jsonl"), from_(l.from)
{
    make_folders(dir);
    const std::vector<Launch> before = read_launches(path_);
    if (std::filesystem::exists(path_))
        if (const std::string content = read_file(path_, "list of launches", max_log_bytes);
            !content.empty() && content.back() != '\n') // incomplete, because the run was killed
            LineWriter(path_).write("");
    number_ = before.empty() ? 1 : before.back().number + 1;
    append(path_, {{"launch", number_},
                   {"event", "start"},
                   {"time", time_now()},
                   {"job", l.job},
                   {"restart", l.restart},
                   {"ranks", l.ranks},
                   {"nodes", l.nodes},
                   {"grid", l.grid},
                   {"step", l.from},
                   {"steps", l.steps},
                   {"model", l.model},
                   {"machine", l.machine}});
}

void LaunchLog::restored(i64 step)
{
    from_ = step;
    append(path_, {{"launch", number_}, {"event", "restored"}, {"time", time_now()}, {"step", step}});
}

void LaunchLog::end(int status, const std::string& reason, i64 step)
{
    append_end(path_, number_, status, reason, step);
}

void end_last_launch(const std::string& dir, int status, const std::string& reason)
{
    const std::vector<Launch> launches = read_launches(dir);
    if (!launches.empty() && !launches.back().ended())
        append_end(dir + "/launches.jsonl", launches.back().number, status, reason, -1);
}

bool makes_no_progress(const std::vector<Launch>& launches, const std::string& job, i64 step, i64 limit)
{
    const i64 stops = 10; // launches stopped by a signal count as one other, so that they also end some time
    i64 weight = 0;
    for (auto l = launches.rbegin();
         l != launches.rend() && weight < stops * limit && l->job == job && l->from >= step; ++l)
        weight += was_told_to_stop(*l) ? 1 : stops;
    return limit > 0 && weight >= stops * limit;
}

} // namespace trivium
