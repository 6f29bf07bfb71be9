// `trivium explain FILE.graph --run` from outside.
#include "catch.hpp"
#include "train/program.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace {

using nlohmann::json;

std::string product_on(const std::string& mesh, const std::string& inner)
{
    return "graph product\nmesh " + mesh + "\ninput %a : f32[8,16] " + inner +
           "\ninput %h : bf16[8,12]\nparameter %w : f32[16,12]\n"
           "%b = matmul(%a, %w) {rule=\"b d, d f -> b f\"} : f32[8,12]\n"
           "%c = gelu(%b) : f32[8,12]\n"
           "%h2 = gelu(%h) : bf16[8,12]\n"
           "output %c\noutput %h2\n";
}

std::vector<std::string> arguments(const std::vector<std::string>& more)
{
    std::vector<std::string> all{"explain", "p.graph", "--run"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

json json_of(const Outcome& outcome)
{
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return json::parse(outcome.out);
}

void refuses(const Outcome& outcome, const std::string& words, int status = 2)
{
    INFO(outcome.err);
    CHECK(outcome.status == status);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(words) != std::string::npos);
    CHECK(outcome.err.find("internal") == std::string::npos);
}

} // namespace

TEST_CASE("a program runs alone, as threads and under the launcher, with the same outputs")
{
    const Folder folder;
    for (const auto& [mesh, ranks] : {std::pair("x=1", 1), std::pair("x=2", 2), std::pair("x=2 y=2", 4)}) {
        write_text(folder / "p.graph", product_on(mesh, "<-,x>"));
        const json alone = json_of(run_program(arguments({"--json", "--outputs", "alone"}), folder.path()));
        REQUIRE(alone["outputs"].size() == 2);
        const json& c = alone["outputs"][0];
        CHECK(c["name"] == "c");
        CHECK((c["shape"] == json{8, 12}));
        CHECK(c["dtype"] == "f32");
        CHECK(alone["outputs"][1]["dtype"] == "bf16");
        CHECK((ranks == 1 || c["sharding"].get<std::string>().front() == '<'));
        CHECK(alone["difference"].get<double>() < 1e-5);
        CHECK(alone["difference"].get<double>() >= c["difference"].get<double>());
        const json launched =
            json_of(run_ranks({{ranks, arguments({"--json", "--outputs", "launched"})}}, folder.path()));
        CHECK((launched == alone)); // reductions add in rank order
        CHECK((read_text(folder / "alone") == read_text(folder / "launched")));
    }
    const Outcome text = run_program(arguments({"--seed", "7"}), folder.path());
    REQUIRE(text.status == 0);
    CHECK(text.out.find("%c   f32[8,12]   <") != std::string::npos);
    CHECK(text.out.find("\nlargest difference: ") != std::string::npos);
    CHECK(text.out.find("largest difference: 0.") == std::string::npos);
    CHECK(text.out.find("time: ") == std::string::npos);
    const Outcome timed = run_program(
        arguments({"--json", "--repeat", "3", "--delay-latency", "0.02", "--delay-bandwidth", "1e9"}),
        folder.path());
    REQUIRE(timed.status == 0);
    CHECK(json::parse(timed.out)["seconds"] > 0.02); // a message at least
}

TEST_CASE("the outputs of one program are the inputs of another")
{
    const Folder folder;
    write_text(folder / "p.graph", product_on("x=2", "<x,->"));
    REQUIRE(run_program(arguments({"--outputs", "first.safetensors"}), folder.path()).status == 0);
    write_text(folder / "p.graph",
               "graph next\nmesh y=2\ninput %c : f32[8,12] <-,y>\ninput %h2 : bf16[8,12]\n"
               "%d = reshard(%c) : f32[8,12] <y,->\noutput %c\noutput %d\noutput %h2\n");
    const json all = json_of(run_ranks(
        {{2, arguments({"--json", "--inputs", "first.safetensors", "--outputs", "next.safetensors"})}},
        folder.path()));
    CHECK(all["difference"] == 0);
    const std::string first = read_text(folder / "first.safetensors"),
                      next = read_text(folder / "next.safetensors");
    const std::size_t c = 8 * 12 * 4, h = 8 * 12 * 2;
    CHECK(next.substr(next.size() - h) == first.substr(first.size() - h));
    CHECK(next.substr(next.size() - h - c, c) == first.substr(first.size() - h - c, c));
}

TEST_CASE("each wrong use has one clear error")
{
    const Folder folder;
    write_text(folder / "p.graph", product_on("x=4", "<x,->"));
    refuses(run_ranks({{2, arguments({})}}, folder.path()),
            "p.graph: has a mesh of 4 ranks, but 2 ranks were started\n  remedy: start it with mpirun -n 4");
    refuses(run_program({"explain", "run.toml", "--run"}, folder.path()), "only a graph can be run");
    refuses(run_program({"explain", "p.graph", "--inputs", "x"}, folder.path()), "--run");
    refuses(run_program(arguments({"--only", "graph"}), folder.path()), "does not go together with --only");
    refuses(run_program(arguments({"--rank", "1"}), folder.path()), "does not go together with --rank");
    refuses(run_program(arguments({"--inputs", "missing.safetensors"}), folder.path()),
            "missing.safetensors");
    write_text(folder / "p.graph", product_on("x=65", "<-,->"));
    refuses(run_program(arguments({}), folder.path()), "start it with mpirun -n 65");
    write_text(folder / "p.graph", product_on("x=1", "<-,->"));
    refuses(run_ranks({{2, arguments({})}}, folder.path()), "a mesh of 1 rank, but 2 ranks were started");
    write_text(folder / "p.graph",
               "graph one\nmesh x=2\nat x=0\ninput %a : f32[4] of f32[8] <x>\noutput %a\n");
    refuses(run_program(arguments({}), folder.path()), "");
    write_text(folder / "p.graph", "graph one\nmesh x=2\nat x=0\ninput %a : f32[4] <x> of f32[8]\n"
                                   "%b = gelu(%a) : f32[4]\noutput %b\n");
    refuses(run_program(arguments({}), folder.path()), "it is the graph of one of several ranks");
    write_text(folder / "p.graph", "graph g\ninput %a : f32[8]\noutput %a\n");
    REQUIRE(run_program(arguments({"--outputs", "a.safetensors"}), folder.path()).status == 0);
    for (const auto& [line, words] :
         {std::pair("input %b : f32[8]", "a.safetensors: has no tensor 'b'"),
          std::pair("input %a : f32[4,2]", "tensor 'a' is F32 [8], but p.graph:2: %a is F32 [4, 2]"),
          std::pair("input %a : i32[8]", "tensor 'a' is F32 [8], but p.graph:2: %a is I32 [8]")}) {
        write_text(folder / "p.graph", std::string("graph g\n") + line + "\noutput %" + line[7] + "\n");
        refuses(run_program(arguments({"--inputs", "a.safetensors"}), folder.path()), words);
    }
    write_text(folder / "p.graph", "graph g\ninput %a : f32[8]\noutput %a\n");
    refuses(run_program(arguments({"--outputs", "p.graph/b.safetensors"}), folder.path()), "p.graph", 2);
}

namespace {

/// A safetensors file with one tensor of f32.
std::string safetensors(const std::string& name, const std::string& shape, std::size_t bytes,
                        std::size_t stored)
{
    std::string header = "{\"" + name + "\":{\"dtype\":\"F32\",\"shape\":" + shape + ",\"data_offsets\":[0," +
                         std::to_string(bytes) + "]}}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::string text(8, '\0');
    for (int i = 0; i < 8; ++i)
        text[static_cast<std::size_t>(i)] = static_cast<char>(header.size() >> 8 * i & 255);
    return text + header + std::string(stored, '\0');
}

/// Refused under the launcher, or as threads, with one message in all; no file is left but the inputs.
void refuses_once(const Folder& folder, int ranks, bool launched, const std::vector<std::string>& more,
                  const std::string& words, int status)
{
    const Outcome outcome = launched ? run_ranks({{ranks, arguments(more)}}, folder.path())
                                     : run_program(arguments(more), folder.path());
    refuses(outcome, words, status);
    CHECK(outcome.err.find(words) == outcome.err.rfind(words));
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        const std::string name = entry.path().filename();
        INFO(name);
        CHECK((name.find("safetensors") == std::string::npos || name == "in.safetensors"));
    }
}

} // namespace

TEST_CASE("wrong inputs and outputs have one clear error on any number of ranks")
{
    const Folder folder;
    const auto writes = [&](int ranks) {
        write_text(folder / "p.graph", "graph g\nmesh x=" + std::to_string(ranks) +
                                           "\ninput %a : f32[8] <x>\n%b = exp(%a) : f32[8]\noutput %b\n");
    };
    const std::vector<std::string> in{"--inputs", "in.safetensors", "--outputs", "out.safetensors"};
    const std::string name = "in.safetensors";
    for (const auto& [ranks, launched] : {std::pair(2, false), std::pair(4, true)}) {
        writes(ranks);
        write_text(folder / name, safetensors("b", "[8]", 32, 32));
        refuses_once(folder, ranks, launched, in, "in.safetensors: has no tensor 'a'", 2);
        write_text(folder / name, safetensors("a", "[4]", 16, 16));
        refuses_once(folder, ranks, launched, in, "tensor 'a' is F32 [4], but p.graph:3: %a is F32 [8]", 2);
        write_text(folder / name, safetensors("a", "[8]", 32, 20));
        refuses_once(folder, ranks, launched, in, "in.safetensors: has 20 bytes of data", 2);
        write_text(folder / name, "");
        refuses_once(folder, ranks, launched, in, "in.safetensors: has 0 bytes", 2);
        std::filesystem::remove(folder / name);
        refuses_once(folder, ranks, launched, in, "in.safetensors: there is no such safetensors file", 2);
        refuses_once(folder, ranks, launched, {"--outputs", "p.graph/out.safetensors"}, "p.graph: cannot", 2);
        refuses_once(folder, ranks, launched, {"--outputs", "/dev/full"}, "/dev/full: cannot write", 1);
    }
    writes(2);
    refuses_once(folder, 2, true, in, "in.safetensors: there is no such safetensors file", 2);
    refuses_once(folder, 2, true, {"--outputs", "/dev/full"}, "/dev/full: cannot write", 1);
    write_text(folder / "p.graph", "graph g\nmesh x=2\ninput %a : f32[8] <-|x:sum>\n"
                                   "%b = negate(%a) : f32[8] <-|x:sum>\noutput %b\n");
    refuses_once(folder, 2, false, {}, "p.graph:4: %b: is an output, and partial over 'x'", 2);
    refuses_once(folder, 3, true, {"--outputs", "out.safetensors"}, "start it with mpirun -n 2", 2);
}

TEST_CASE("a program with a manual region is compared with its definition on one rank")
{
    const Folder folder;
    // Along y nothing is sharded by hand; the product may be.
    write_text(folder / "p.graph",
               "graph manual\nmesh x=2 y=2\ninput %a : f64[8,6] <x,y>\ninput %w : f64[6,5]\n"
               "%l = local(%a) {sharding=\"<x,->\"} : f64[4,6]\n%q = reverse(%l) {dims=\"0\"} : f64[4,6]\n"
               "%p = matmul(%q, %w) {rule=\"m k, k n -> m n\"} : f64[4,5]\n%s = tanh(%p) : f64[4,5]\n"
               "%g = global(%s) {sharding=\"<x,->\"} : f64[8,5]\noutput %g\n");
    const json all = json_of(run_program(arguments({"--json"}), folder.path()));
    CHECK(all["difference"].get<double>() < 1e-14);
}

TEST_CASE("a graph without outputs is refused, with a remedy")
{
    const Folder folder;
    write_text(folder / "p.graph", "graph none\nmesh x=2\ninput %a : f64[8] <x>\n%b = tanh(%a) : f64[8]\n");
    for (const bool runs : {false, true}) {
        std::vector<std::string> words{"explain", "p.graph"};
        if (runs)
            words.push_back("--run");
        const Outcome outcome = run_program(words, folder.path());
        INFO(outcome.err);
        CHECK(outcome.status == 2);
        CHECK(outcome.err.find("p.graph: has") != std::string::npos);
        CHECK(outcome.err.find("`output %NAME`") != std::string::npos);
    }
}
