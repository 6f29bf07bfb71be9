// The checks of layers, on made-up rooms: each must be able to fail.
#include "catch.hpp"
#include "layers.hpp"

using namespace trivium::structure;

namespace {

const Rooms house = parse_rooms("base src/base \nir src/ir base\nmodel src/model ir\nio io base\n");

Findings includes_of(const std::string& room, const std::string& text)
{
    return check_includes(house, room, {{house.at(room).folder + "/x.cpp", text}});
}

} // namespace

TEST_CASE("rooms are read from their file")
{
    REQUIRE(house.size() == 4);
    CHECK(house.at("base").deps.empty());
    CHECK(house.at("model").folder == "src/model");
    CHECK(house.at("model").deps == std::set<std::string>{"ir"});
    CHECK(reachable(house, "model") == std::set<std::string>{"base", "ir"});
}

TEST_CASE("a room may include itself, its deps and theirs")
{
    CHECK(includes_of("model",
                      "#include \"model/x.hpp\"\n#include \"ir/graph.hpp\"\n#include \"base/id.hpp\"\n")
              .empty());
    CHECK(includes_of("model", "#include \"x.hpp\"\n#include <mpi.h>\n// #include \"io/a.hpp\"\n").empty());
}

TEST_CASE("an include upwards or sideways is found")
{
    const Findings up = includes_of("ir", "#include \"base/id.hpp\"\n  # include \"model/model.hpp\"\n");
    REQUIRE(up.size() == 1);
    CHECK(up[0] == "src/ir/x.cpp:2: room ir may not include \"model/model.hpp\"");
    CHECK(includes_of("model", "#include \"io/files/files.hpp\"\n").size() == 1);
    CHECK(includes_of("base", "#include \"ir/graph.hpp\"\n").size() == 1);
    // a room of the design that this build lacks is still a room
    CHECK(includes_of("ir", "#include \"kernels/gemm.hpp\"\n").size() == 1);
}

TEST_CASE("an include that belongs to no room is found")
{
    CHECK(includes_of("ir", "#include \"elsewhere/x.hpp\"\n").size() == 1);
    CHECK(includes_of("ir", "#include \"../base/id.hpp\"\n").size() == 1);
    CHECK(check_includes(house, "ir",
                         {{"src/ir/x.cpp", "#include \"host/y.hpp\"\n"}, {"src/ir/host/y.hpp", ""}})
              .empty());
}

TEST_CASE("rooms are checked against the design")
{
    const Rooms& design = designed_rooms();
    CHECK(check_against_design(design, design).empty());
    CHECK(check_against_design(parse_rooms("ir src/ir base\nplan src/plan base model"), design).empty());
    CHECK(check_against_design(parse_rooms("ir src/ir config"), design).size() == 1);
    CHECK(check_against_design(parse_rooms("kernels src/kernels ir"), design).size() == 1);
    CHECK(check_against_design(parse_rooms("cellar src/cellar"), design).size() == 1);
    CHECK(check_against_design(parse_rooms("io src/io base"), design).size() == 1);
}

TEST_CASE("a build without some rooms is completed by the design, and by nothing else")
{
    const Rooms rooms =
        completed(parse_rooms("base src/base\nir src/ir base\nruntime src/runtime ir"), designed_rooms());
    CHECK(rooms.contains("kernels"));
    CHECK(rooms.at("runtime").deps.contains("kernels"));
    CHECK(rooms.at("runtime").deps.contains("ir"));
    CHECK_FALSE(rooms.at("runtime").deps.contains("base")); // built, and not declared
    CHECK_FALSE(rooms.at("ir").deps.contains("kernels"));
}

TEST_CASE("a cycle is found, a long one too")
{
    CHECK(check_no_cycle(designed_rooms()).empty());
    CHECK(check_no_cycle(house).empty());
    CHECK(check_no_cycle(parse_rooms("a a b\nb b a\nc c a")).size() == 2);
    CHECK(check_no_cycle(parse_rooms("a a b\nb b c\nc c a")).size() == 3);
}

TEST_CASE("a header of MPI or Kokkos in the planner is found")
{
    const auto found = [](const std::string& text) {
        return check_planner_includes({{"src/ir/x.cpp", text}}).size();
    };
    CHECK(found("#include <vector>\n// #include <mpi.h>\n") == 0);
    CHECK(found("#include <mpi.h>\n#include <Kokkos_Core.hpp>\n#include <hdf5.h>\n#include "
                "<oneapi/dnnl/dnnl.hpp>\n") == 4);
}
