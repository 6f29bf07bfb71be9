// Models that cannot be sharded are refused with a message that states the reason and the remedy.
#include "base/check.hpp"
#include "catch.hpp"
#include "grid/grid_run.hpp"
#include "has.hpp"

using namespace trivium;
using namespace trivium::grids;

namespace {

std::string refusal(const Case& c)
{
    return message_of<UserError>([&] { compile(c, 0); });
}

Case small()
{
    Case c;
    c.model = {true, 2, 16, 4, 4, 8, 9, 6, false};
    return c;
}

} // namespace

TEST_CASE("extents that the tensor ranks cannot share are refused")
{
    Case c = small();
    c.parallel.tensor = 4;
    CHECK(refusal(c).empty());

    c.model.heads = c.model.kv_heads = 2;
    CHECK(refusal(c).find("parallel.tensor: 4 tensor ranks cannot share 2 key-value heads") !=
          std::string::npos);
    c.model.heads = 6; // three query heads of each
    CHECK(refusal(c).find("dim") != std::string::npos);
    c.model.dim = 24;
    CHECK(refusal(c).find("4 tensor ranks cannot share 3 query heads of a key-value head") !=
          std::string::npos);
    c.model.heads = 8;
    c.model.dim = 16;
    CHECK(refusal(c).empty());

    c = small();
    c.parallel.tensor = 4;
    c.model.ffn = 3;
    CHECK(refusal(c).find("4 tensor ranks cannot share 3 columns of the feed-forward layer") !=
          std::string::npos);
    CHECK(refusal(c).find("set parallel.tensor to 3 or less") != std::string::npos);
    c = small();
    c.parallel.tensor = 4;
    c.model.vocab = 3;
    CHECK(refusal(c).find("4 tensor ranks cannot share 3 tokens of the vocabulary") != std::string::npos);
    c = small();
    c.parallel.tensor = 4;
    c.model.seq = 3;
    CHECK(refusal(c).find("4 tensor ranks cannot share 3 tokens of a sequence") != std::string::npos);
    c.parallel.sequence = false;
    CHECK(refusal(c).empty());
}

TEST_CASE("more stages than blocks, and batches that do not divide, are refused")
{
    Case c = small();
    c.parallel.pipeline = 4; // two layers, the embedding and the head
    CHECK(refusal(c).empty());
    c.parallel.pipeline = 5;
    CHECK(refusal(c).find("parallel.pipeline: 5 stages for a model of 4 blocks") != std::string::npos);
    CHECK(refusal(c).find("set parallel.pipeline to 4 or less") != std::string::npos);
    c = small();
    c.parallel.data = 3;
    CHECK(refusal(c).find("8 sequences do not divide over 3 data ranks") != std::string::npos);
    c.parallel.data = 2;
    c.micro_batch = 3;
    CHECK(refusal(c).find("4 sequences per data rank do not divide into microbatches of 3") !=
          std::string::npos);
}

TEST_CASE("post-validated updates are refused where their states or messages are elsewhere")
{
    Case c = small();
    c.parallel.update = UpdateMode::post_validated;
    CHECK(refusal(c) == "");
    c.parallel.offload = Offload::optimizer;
    CHECK(refusal(c).find("parallel.update: \"post-validated\" cannot be combined with parallel.offload") ==
          0);
    c.parallel.offload = Offload::none;
    c.parallel.graphs = true;
    CHECK(refusal(c).find("set parallel.update to \"synchronous\" or parallel.graphs to false") !=
          std::string::npos);
    c.parallel.update = UpdateMode::automatic;
    CHECK(refusal(c) == "");
}

TEST_CASE("sequences that the context ranks cannot share are refused")
{
    Case c = small();
    c.parallel.context = 3;
    CHECK(refusal(c).empty());
    c.parallel.context = 4; // two chunks each
    CHECK(refusal(c).find("parallel.context: 4 context ranks cannot share 6 tokens") != std::string::npos);
    CHECK(refusal(c).find("set model.seq to 8 or more") != std::string::npos);
    c.model.seq = 16;
    c.parallel.context_heads = 4;
    CHECK(refusal(c).empty());
    c.parallel.tensor = 2;
    c.parallel.sequence = false;
    CHECK(refusal(c).find("parallel.context_heads: 4 context ranks cannot share 2 key-value heads") !=
          std::string::npos);
    c.parallel.context_heads = 2;
    CHECK(refusal(c).empty());
    c.parallel.context_heads = 3;
    CHECK(refusal(c).find("which does not divide 4 context ranks") != std::string::npos);
}
