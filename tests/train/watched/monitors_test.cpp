// What others see of a run while it goes: event files, the file for Prometheus, a collector.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/metrics/live/post.hpp"
#include "train/life_cycle_run.hpp"

#include <arpa/inet.h>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace trivium;

namespace {

/// A server on the loopback device that keeps the bodies of requests.
class Collector {
public:
    explicit Collector(int status) : status_(status), listener_(socket(AF_INET, SOCK_STREAM, 0))
    {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
        REQUIRE(listen(listener_, 8) == 0);
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] { serve(); });
    }
    Collector(const Collector&) = delete;
    Collector& operator=(const Collector&) = delete;
    ~Collector() { stop(); }

    void stop()
    {
        if (!thread_.joinable())
            return;
        shutdown(listener_, SHUT_RDWR);
        thread_.join();
        close(listener_);
    }
    std::string address() const { return str("http://127.0.0.1:", port_); }
    std::vector<std::string> heads, bodies; ///< after stop()

private:
    void serve()
    {
        for (int peer; (peer = accept(listener_, nullptr, nullptr)) >= 0; close(peer)) {
            std::string text;
            char part[4096];
            std::size_t end = std::string::npos, length = 0;
            while (end == std::string::npos || text.size() < end + 4 + length) {
                const ssize_t got = recv(peer, part, sizeof part, 0);
                if (got <= 0)
                    break;
                text.append(part, static_cast<std::size_t>(got));
                end = text.find("\r\n\r\n");
                if (const auto at = text.find("Content-Length: "); at != std::string::npos && length == 0)
                    length = std::stoul(text.substr(at + 16));
            }
            if (end == std::string::npos)
                continue;
            heads.push_back(text.substr(0, end));
            bodies.push_back(text.substr(end + 4));
            const std::string answer =
                str("HTTP/1.1 ", status_, " X\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
            send(peer, answer.data(), answer.size(), MSG_NOSIGNAL);
        }
    }

    int status_, listener_, port_ = 0;
    std::thread thread_;
};

/// The scalars of an event file by step and tag; a restart at step s is (s, "").
std::map<std::pair<i64, std::string>, float> events_in(const std::string& path)
{
    const std::string file = read_text(path);
    std::map<std::pair<i64, std::string>, float> all;
    const auto varint = [](const std::string& text, std::size_t& at) {
        u64 value = 0;
        for (int shift = 0;; shift += 7) {
            const auto byte = static_cast<unsigned char>(text.at(at++));
            value |= u64{byte & 0x7fU} << shift;
            if (byte < 0x80)
                return value;
        }
    };
    /// visit(field, number or bytes)
    const auto fields = [&](const std::string& text, const auto& visit) {
        for (std::size_t at = 0; at < text.size();) {
            const u64 key = varint(text, at);
            if (const u64 wire = key & 7; wire == 0) {
                visit(static_cast<int>(key >> 3), varint(text, at), std::string());
            } else {
                const std::size_t size = wire == 1 ? 8 : wire == 5 ? 4 : varint(text, at);
                visit(static_cast<int>(key >> 3), u64{0}, text.substr(at, size));
                at += size;
            }
        }
    };
    for (std::size_t at = 0; at < file.size();) {
        u64 size = 0;
        std::memcpy(&size, file.data() + at, 8);
        REQUIRE(at + 16 + size <= file.size());
        i64 step = 0;
        fields(file.substr(at + 12, size), [&](int field, u64 number, const std::string& bytes) {
            if (field == 2)
                step = static_cast<i64>(number);
            if (field == 7)
                all[{step, ""}] = 1;
            if (field != 5)
                return;
            fields(bytes, [&](int, u64, const std::string& scalar) {
                std::string tag;
                float value = NAN;
                fields(scalar, [&](int inner, u64, const std::string& content) {
                    if (inner == 1)
                        tag = content;
                    else
                        std::memcpy(&value, content.data(), 4);
                });
                all[{step, tag}] = value;
            });
        });
        at += 16 + size;
    }
    return all;
}

} // namespace

TEST_CASE("event files and the file for Prometheus have what the metrics have")
{
    const Run run;
    const std::vector<std::string> keys{"log.tensorboard=true", "log.prometheus=run.prom", "log.every=2"};
    auto first = keys;
    first.emplace_back("train.stop_after=5");
    REQUIRE(run.train(first).status == 0);
    REQUIRE(run.train(keys).status == 0);
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(run.folder / "log/tensorboard"))
        files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    REQUIRE(files.size() == 2);
    const auto early = events_in(files[0]), late = events_in(files[1]);
    CHECK(early.contains({1, ""}));
    CHECK(late.contains({6, ""})); // what an earlier launch wrote from there on does not count
    const auto lines = run.metrics();
    REQUIRE(lines.size() == 8);
    for (const MetricsRecord& line : lines)
        for (const auto& [name, value] : line.values)
            if (name != "time" && name != "restarted_at")
                CHECK((line.step <= 5 ? early : late).at({line.step, name}) == static_cast<float>(value));

    std::map<std::string, double> gauges;
    std::istringstream text(read_text(run.folder / "run.prom"));
    std::string type;
    for (std::string line; std::getline(text, line);) {
        if (line.starts_with("# TYPE ")) {
            REQUIRE(line.ends_with(" gauge"));
            type = line.substr(7, line.size() - 13);
            continue;
        }
        const std::string label =
            "{log_dir=\"" + std::filesystem::canonical(run.folder / "log").string() + "\"} ";
        REQUIRE(line.starts_with(type + label));
        gauges[type] = std::stod(line.substr(type.size() + label.size()));
    }
    CHECK(gauges.at("trivium_step") == 8);
    for (const auto& [name, value] : lines.back().values)
        CHECK(gauges.at("trivium_" + name) == Approx(value).epsilon(1e-15));
}

TEST_CASE("a run goes on whatever becomes of those who watch it")
{
    const Run run;
    write_text(run.folder / "file", "");
    const Outcome outcome = run.train({"log.prometheus=file/run.prom", "log.every=2"});
    INFO(outcome.err);
    CHECK(outcome.status == 0);
    const std::string warning = "the run continues; this is said once";
    const auto at = outcome.err.find(warning);
    REQUIRE(at != std::string::npos);
    CHECK(outcome.err.find(warning, at + 1) == std::string::npos);
}

TEST_CASE("a collector gets the metrics as OTLP")
{
    const Run run;
    if (!can_post()) {
        const Outcome refused = run.train({"log.otlp=http://127.0.0.1:4318"});
        CHECK(refused.status == 2);
        CHECK(refused.err.find("libcurl") != std::string::npos);
        return;
    }
    Collector collector(200);
    const Outcome done = run.train({"log.otlp=" + collector.address()});
    collector.stop();
    INFO(done.err);
    REQUIRE(done.status == 0);
    CHECK(done.err.find("warning") == std::string::npos);
    std::map<std::string, std::vector<double>> points;
    REQUIRE(!collector.bodies.empty());
    for (std::size_t i = 0; i < collector.bodies.size(); ++i) {
        CHECK(collector.heads[i].starts_with("POST /v1/metrics "));
        CHECK(collector.heads[i].find("Content-Type: application/json") != std::string::npos);
        const auto body = nlohmann::json::parse(collector.bodies[i]);
        const auto& of_run = body.at("resourceMetrics").at(0);
        CHECK(of_run.at("resource").at("attributes").at(0).at("value").at("stringValue") == "trivium");
        for (const auto& metric : of_run.at("scopeMetrics").at(0).at("metrics"))
            for (const auto& point : metric.at("gauge").at("dataPoints")) {
                CHECK(std::stoll(point.at("timeUnixNano").get<std::string>()) > 1'600'000'000'000'000'000);
                points[metric.at("name")].push_back(point.contains("asInt")
                                                        ? std::stod(point.at("asInt").get<std::string>())
                                                        : point.at("asDouble").get<double>());
            }
    }
    CHECK(points.at("trivium.loss") == run.losses());
    CHECK(points.at("trivium.step") == std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});

    Collector broken(503);
    const Outcome warned = run.train({"log.otlp=" + broken.address(), "log.dir=l2", "checkpoint.dir=c2"});
    CHECK(warned.status == 0);
    CHECK(warned.err.find("status 503") != std::string::npos);
    const Outcome wrong = run.train({"log.otlp=localhost:4318"});
    CHECK(wrong.status == 2);
    CHECK(wrong.err.find("not an address") != std::string::npos);
}
