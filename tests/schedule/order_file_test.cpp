// Orders as files, and what is wrong with those that cannot run.
#include "base/check.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "schedule/named_order.hpp"
#include "schedule/order_check.hpp"
#include "schedule/order_file.hpp"

#include <random>

using namespace trivium;

namespace {

std::string error_of(const std::string& text, i64 ranks, i64 microbatches)
{
    return message_of<UserError>([&] { parse_csv(text, "my.csv", ranks, microbatches); });
}

} // namespace

TEST_CASE("every named schedule survives its file")
{
    for (std::size_t kind = 0; kind < names_of_enum<ScheduleKind>.size(); ++kind)
        for (const i64 m : {1, 4, 9}) {
            const auto named = static_cast<ScheduleKind>(kind);
            const PipelineOrder order = named_order(named, 4, chunks_of(named).usual, m);
            CHECK(parse_csv(to_csv(order), "my.csv", 4, m) == order);
        }
}

TEST_CASE("files as torch writes them: empty cells, communication, overlapped passes, B before W")
{
    const PipelineOrder order = parse_csv("0F0,,0SEND_F0,0F1,\"0B0\", 0W0,0B1,0W1\r\n\n"
                                          "1RECV_F0,1F0,(1F1;1I0)OVERLAP_F_B,1W0,1B1,1REDUCE_GRAD\n",
                                          "my.csv", 2, 2);
    CHECK(to_csv(order) == "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1F1,1I0,1W0,1B1\n");
}

TEST_CASE("a file that cannot be is refused with its line")
{
    const auto refused = [](const std::string& text, i64 ranks, i64 microbatches,
                            std::initializer_list<const char*> words) {
        const std::string error = error_of(text, ranks, microbatches);
        INFO(text << error);
        CHECK(!error.empty());
        for (const char* word : words)
            CHECK(has(error, word));
    };
    refused("0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n", 2, 2, {"my.csv:1", "0B1 is missing"});
    refused("0F0,0F1,0B0,0B1\n\n1F0,1B0,1B1\n", 2, 2, {"my.csv:3", "1F1 is missing"});
    refused("0F0,0F1,0B0,0B1\n1F0,1I0,1F1,1B1\n", 2, 2, {"my.csv:2", "1W0 is missing"});
    refused("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1,1F1\n", 2, 2, {"my.csv:2", "1F1 comes twice"});
    refused("0B0,0F0\n1F0,1B0\n", 2, 1, {"my.csv:1", "0B0 comes before 0F0"});
    refused("0F0,0W0,0I0\n1F0,1B0\n", 2, 1, {"my.csv:1", "0W0 comes before 0I0"});
    refused("0F0,0F1,0B0,0B1\n1F1,1B1,1F0,1B0\n", 2, 2, {"my.csv:2", "1F1 on rank 1", "0F0 on rank 0"});
    refused("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", 2, 2,
            {"my.csv:1", "0B0 never runs", "0B0 on rank 0 waits for 1B0 on rank 1",
             "1F1 on rank 1 waits for 0F1"});
    refused("0F0,0B0\n1F0,1B0\n2F0,2B0\n", 2, 1, {"my.csv", "has 3 rows", "set parallel.pipeline to 3"});
    refused("0F0,0B0\n1F0,1B0\n", 2, 4, {"my.csv", "orders 1 microbatch", "has 4"});
    refused("1F0,1B0\n0F0,0B0\n", 2, 1, {"my.csv", "in an unknown way"});
    refused("0F0,0X0\n1F0,1B0\n", 2, 1, {"my.csv:1", "'0X0' is not an action", "'X'"});
    refused("0F0,B0\n1F0,1B0\n", 2, 1, {"my.csv:1", "'B0' is not an action"});
    refused("0F0,0B\n1F0,1B0\n", 2, 1, {"my.csv:1", "'0B' is not an action"});
    refused("0F99999999999999999999,0B0\n1F0,1B0\n", 2, 1, {"my.csv:1", "is not an action"});
    refused("", 2, 1, {"my.csv", "has 0 rows"});
}

TEST_CASE("random mutations of schedules are refused or run")
{
    std::mt19937_64 draw(3);
    int refused = 0;
    const int rounds = contracts_on ? 200 : 2000;
    for (int round = 0; round < rounds; ++round) {
        const auto kind = static_cast<ScheduleKind>(draw() % names_of_enum<ScheduleKind>.size());
        PipelineOrder order = named_order(kind, 2 + static_cast<i64>(draw() % 3), chunks_of(kind).usual,
                                          1 + static_cast<i64>(draw() % 6));
        RankOrder& rank = order.ranks[draw() % order.ranks.size()];
        const std::size_t a = draw() % rank.size(), b = draw() % rank.size();
        switch (draw() % 3) {
        case 0: std::swap(rank[a], rank[b]); break;
        case 1: rank.erase(rank.begin() + static_cast<std::ptrdiff_t>(a)); break;
        default: rank[a] = rank[b];
        }
        const std::optional<OrderFault> fault = find_fault(order);
        refused += fault.has_value();
        if (fault)
            CHECK(!fault->problem.empty());
        else
            CHECK(in_flight(rank) >= 1);
    }
    CHECK(refused > rounds / 2);
}
