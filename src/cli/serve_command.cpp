// `trivium serve`.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "cli/config_arguments.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/files/files.hpp"
#include "lifecycle/signals.hpp"
#include "mpi/comm.hpp"
#include "serve/api.hpp"
#include "serve/model_loop.hpp"
#include "train/data/inputs.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sys/stat.h>
#include <utility>

namespace trivium {

namespace {

constexpr i64 most_requests = 256; ///< that wait or run at a time

struct ServeArguments {
    ConfigArguments config;
    std::string checkpoint, host = "127.0.0.1", token_file;
    i64 port = 8000, batch = 8, length = 0, stop_timeout = 20;
    bool follow = false;
};

bool is_loopback(const std::string& host)
{
    return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// The token in the file, without white space around it.
std::string read_token(const ServeArguments& a)
{
    if (a.token_file.empty()) {
        if (is_loopback(a.host))
            return "";
        throw UserError({"--token-file", "is missing",
                         "--host " + a.host + " can be reached from other machines",
                         "name a file with a token that clients must send, or leave --host out"});
    }
    std::string token = read_file(a.token_file, "file with a token", 1 << 16);
    constexpr const char* blanks = " \t\r\n";
    token.erase(0, std::min(token.find_first_not_of(blanks), token.size()));
    token.erase(token.find_last_not_of(blanks) + 1);
    const bool is_text = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 127; });
    if (token.size() < 16 || !is_text)
        throw UserError({a.token_file, "does not contain a token",
                         "a token has at least 16 printable characters without spaces",
                         "make one with `openssl rand -hex 32`"});
    struct stat status = {};
    if (::stat(a.token_file.c_str(), &status) == 0 && (status.st_mode & 077) != 0)
        log_warning(a.token_file + ": other users may read the token (chmod 600)");
    return token;
}

/// On rank 0: the server, whose threads use no MPI.
struct Server {
    TextQueue queue{most_requests};
    Api api;
    HttpServer http;

    explicit Server(const ServeArguments& a)
        : api(queue, read_token(a)),
          http({.host = a.host, .port = static_cast<int>(a.port), .connections = most_requests + 16},
               {[this](const HttpRequest& request) { return api.refuse(request); },
                [this](const HttpRequest& request) { return api.answer(request); }, Api::error})
    {
        http.start();
    }
    /// After a signal to stop: what runs has `timeout` seconds.
    JobsToRun after(const RunSignals& signals, i64 timeout)
    {
        queue.close();
        const std::string running = counted(static_cast<i64>(queue.size()), "request");
        if (queue.size() == 0 || ends_)
            return JobsToRun::none;
        ends_ = signals.is_repeated() || signals.since_stop() >= static_cast<double>(timeout);
        if (ends_)
            log_warning(str(running, " ended unfinished: ",
                            signals.is_repeated() ? "there was a second signal" : "--stop-timeout is over"));
        else if (!std::exchange(stops_, true))
            log_info(str("signal ", name_of_signal(signals.stop()), ": ", running, " may run for ", timeout,
                         " s (--stop-timeout)"));
        return ends_ ? JobsToRun::none : JobsToRun::begun;
    }

    ~Server()
    {
        queue.close(); // requests may wait in it, and stop() waits for requests
        http.stop();
    }

private:
    bool stops_ = false, ends_ = false;
};

/// Name of the newest checkpoint of the run, good or not; empty: there is none.
std::string newest_of(const RunConfig& config)
{
    const std::vector<std::string> names = list_checkpoints(config.checkpoint.dir);
    return names.empty() ? "" : names.front();
}

/// Whether the newest checkpoint of the run is another one than `known`, and can be opened. Looks once in two
/// seconds; warns about a checkpoint that cannot be opened, once.
class NewerCheckpoint {
public:
    NewerCheckpoint(const RunConfig& config, std::string known) : config_(config), known_(std::move(known)) {}

    bool is_there()
    {
        const auto now = std::chrono::steady_clock::now();
        if (now < next_)
            return false;
        next_ = now + std::chrono::seconds(2);
        const std::string newest = newest_of(config_);
        if (newest.empty() || newest == known_ || newest == refused_)
            return false;
        try {
            CheckpointReader::open(config_.checkpoint.dir + "/" + newest).check();
            return true;
        } catch (const Error& error) { // also if it was removed meanwhile
            refused_ = newest;
            log_warning(str("--follow: the model that is served stays: ", error.what()));
            return false;
        }
    }

private:
    const RunConfig& config_;
    std::string known_, refused_;
    std::chrono::steady_clock::time_point next_{};
};

/// Loads a checkpoint and serves it until a signal or, with --follow, until there is a newer one. `server`:
/// null on ranks other than 0. `follows`: another checkpoint was served before.
void serve_checkpoint(const ServeArguments& a, const RunConfig& config, Comm& world,
                      const RunSignals& signals, Server* server, bool follows)
{
    NewerCheckpoint newer(config, newest_of(config));
    std::optional<TextModel> loaded;
    const auto load = [&] {
        loaded.emplace(config, world,
                       TextModelConfig{.checkpoint = a.checkpoint,
                                       .rows = a.batch,
                                       .capacity = a.length,
                                       .scores = true,
                                       .lower = "--batch or --length"});
    };
    try {
        load();
    } catch (const Error& error) { // the run may have removed the checkpoint meanwhile; all ranks are here
        if (!follows)
            throw;
        if (world.rank() == 0)
            log_warning(str("--follow: tries again: ", error.what()));
        load();
    }
    TextModel& model = *loaded;
    const ModelCalls calls{[&](const TextFlow& flow) { model.complete(flow); },
                           [&](const TextRequest& request) { return model.why_refused(request); }};
    if (server) {
        ServedModel served =
            served_model(config, open_checkpoint(model.checkpoint(), config), tokenizer_of(config.data));
        served.capacity = model.capacity();
        served.vocab = model.vocab();
        server->api.serve(std::make_shared<const ServedModel>(std::move(served)));
        const std::string host = a.host.find(':') == std::string::npos ? a.host : "[" + a.host + "]";
        fmt::print("serving {} at http://{}:{}\n", model.checkpoint(), host, server->http.port());
        std::fflush(stdout);
    }
    model.lead([&] {
        run_jobs(server->queue, calls, [&, swaps = false]() mutable {
            if (signals.stop() != 0)
                return server->after(signals, a.stop_timeout);
            swaps = swaps || (a.follow && newer.is_there());
            return swaps ? JobsToRun::begun : JobsToRun::all;
        });
    });
}

void serve(const ServeArguments& a, Comm& world, const RunSignals& signals)
{
    std::optional<Server> server;
    RunConfig config;
    succeed_together(world, [&] {
        config = load_config(a.config);
        if (a.follow && !a.checkpoint.empty())
            throw UserError({"--follow", "does not go with --checkpoint", "it serves the newest checkpoint",
                             "leave out one of them"});
        if (world.rank() == 0)
            server.emplace(a);
    });
    bool follows = false;
    do {
        serve_checkpoint(a, config, world, signals, server ? &*server : nullptr, follows);
        follows = true;
    } while (share_text(world, signals.stop() == 0 ? "again" : "") == "again");
    if (server) {
        log_info(str("stopped by signal ", name_of_signal(signals.stop())));
        server.reset();
    }
}

} // namespace

void add_serve_command(Command& program)
{
    Command command = program.add("serve", "answer requests for completions and scores over HTTP");
    auto a = std::make_shared<ServeArguments>();
    a->config.add_to(command, false);
    command.option("--checkpoint", a->checkpoint, "checkpoint (default: the newest good one of the run)")
        .option("--host", a->host, "name or address to listen on", {.show_default = true})
        .option("--port", a->port, "port to listen on; 0: one that is free",
                {.show_default = true, .from = 0, .to = 65535})
        .option(
            "--token-file", a->token_file,
            "file with the token that clients must send; required if --host is not this machine's loopback")
        .option("--batch", a->batch, "sequences computed together",
                {.show_default = true, .from = 1, .to = 65536})
        .option("--length", a->length, "tokens of a sequence, prompt and completion (default: model.seq)",
                {.from = 0, .to = 1e9})
        .option("--stop-timeout", a->stop_timeout,
                "seconds for which a signal to stop lets requests run on; a second signal ends them at once",
                {.show_default = true, .from = 0, .to = 1e6})
        .flag("--follow", a->follow, "load newer checkpoints of the run when they appear");
    command.footer("Endpoints: /v1/completions, /v1/chat/completions, /v1/models, /health, /tokenize, "
                   "/detokenize, /tokenizer_info. See docs/serve.md.");
    command.action([=] {
        const RunSignals signals;
        return on_all_ranks([&](Comm& world) { serve(*a, world, signals); });
    });
}

} // namespace trivium
