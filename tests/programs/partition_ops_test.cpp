// Every general op, whatever the shardings of its operands and results, computes what one rank computes. A
// failing case prints its seed and its text.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"
#include "op_batches.hpp"
#include "plan/collective_list.hpp"
#include "plan/graph_file.hpp"
#include "runs.hpp"
#include "soak_settings.hpp"

#include <cstdio>
#include <map>
#include <set>

using namespace trivium;

namespace {

const std::vector<Mesh> one_axis{{{{"x", 2}}}, {{{"x", 4}}}, {{{"x", 6}}}, {{{"x", 8}}}};
const Mesh two_axes{{{"x", 2}, {"y", 2}}};
const std::vector<Mesh> drawn_meshes{
    {{{"x", 2}}},          {{{"x", 4}}},           {{{"x", 2}, {"y", 2}}},           {{{"x", 3}, {"y", 2}}},
    {{{"x", 6}}},          {{{"x", 2}, {"y", 4}}}, {{{"x", 2}, {"y", 2}, {"z", 2}}}, {{{"x", 8}}},
    {{{"x", 1}, {"y", 3}}}};
constexpr std::size_t batch_size = 32;
const char* const only_case = std::getenv("TRIVIUM_CASE"); // part of a name

/// Empty, or what is wrong with some outputs of the program.
std::string problem_of(const OpProgram& program, const double* differences)
{
    std::string text;
    for (std::size_t r = 0; r < program.op->outputs.size(); ++r)
        if (!(differences[r] <= program.op->tolerance))
            text += str("%", program.op->outputs[r], " differs by ", differences[r], "; ");
    return text;
}

std::string problem_alone(const OpProgram& program, const Mesh& mesh, std::size_t number, u64 seed)
{
    try {
        return problem_of(program, runs::differences_on_threads(text_of(program, mesh, number), seed).data());
    } catch (const Error& error) {
        return error.what();
    }
}

/// What fails in the batch is run again alone, so that its text is short; then the test case ends.
void check_batch(const std::vector<OpProgram>& batch, const Mesh& mesh, u64 seed)
{
    std::vector<std::string> problems(batch.size());
    std::string all;
    try {
        const std::vector<double> differences = runs::differences_on_threads(text_of(batch, mesh), seed);
        std::size_t output = 0;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            problems[i] = problem_of(batch[i], differences.data() + output);
            output += batch[i].op->outputs.size();
            all += problems[i];
        }
    } catch (const Error& error) {
        all = error.what();
        problems.assign(batch.size(), all);
    }
    if (all.empty())
        return;
    int found = 0;
    for (std::size_t i = 0; i < batch.size() && found < 3; ++i) {
        const std::string alone = problems[i].empty() ? "" : problem_alone(batch[i], mesh, i, seed);
        if (alone.empty())
            continue;
        ++found;
        FAIL_CHECK("seed " << seed << ", " << batch[i].op->name << ": " << alone << "\n"
                           << text_of(batch[i], mesh, i));
    }
    if (found == 0)
        FAIL_CHECK("seed " << seed << ", together only: " << all << "\n" << text_of(batch, mesh));
    FAIL("the first batch that fails is the last one that is tried");
}

/// Collects programs and checks them in batches.
class Batches {
public:
    Batches(const Mesh& mesh, u64 seed) : mesh_(mesh), seed_(seed) {}

    void add(OpProgram program)
    {
        batch_.push_back(std::move(program));
        ++count_;
        if (batch_.size() == batch_size)
            flush();
    }
    void flush()
    {
        if (!batch_.empty())
            check_batch(batch_, mesh_, seed_);
        batch_.clear();
    }
    u64 count() const { return count_; }

private:
    const Mesh& mesh_;
    u64 seed_, count_ = 0;
    std::vector<OpProgram> batch_;
};

bool of_two_dims(const OpCase& op)
{
    const std::vector<TensorType> types = types_of(op);
    return std::all_of(types.begin(), types.end(), [](const TensorType& t) { return t.shape.size() <= 2; });
}

/// The cases in f64, or in i32 only.
bool main_type(const OpCase& op) { return op.name.find(", ") == std::string::npos; }

/// All combinations of a case; of a case with very many, so many of them.
constexpr u64 most_pairs = 15'000;

void check_all_pairs(const std::vector<OpCase>& cases, const Mesh& mesh)
{
    Batches batches(mesh, 7);
    std::size_t drawn = 0;
    for (const OpCase& op : cases) {
        const AllPairs pairs(op, mesh);
        Draw draw(soak::seed());
        for (u64 i = 0; i < std::min(pairs.count(), most_pairs); ++i)
            batches.add(pairs.at(pairs.count() <= most_pairs ? i : draw() % pairs.count()));
        drawn += pairs.count() <= most_pairs ? 0 : 1;
    }
    batches.flush();
    CHECK((only_case || batches.count() >= cases.size()));
    std::printf("mesh of %lld: %llu programs of %zu cases, %zu of these drawn\n",
                static_cast<long long>(mesh.ranks()), static_cast<unsigned long long>(batches.count()),
                cases.size(), drawn);
    std::fflush(stdout);
}

const bool whole = soak::whole();

std::vector<OpCase> selected_cases(bool experts = false)
{
    std::vector<OpCase> all = op_cases();
    for (OpCase& op : experts ? expert_op_cases() : std::vector<OpCase>{})
        all.push_back(std::move(op));
    if (only_case)
        std::erase_if(all, [&](const OpCase& op) { return op.name.find(only_case) == std::string::npos; });
    return all;
}

/// Each case once on each mesh, those of the given quarters. Counts the collectives in `kinds`.
u64 check_drawn(u64 round, const std::vector<std::size_t>& quarters, std::map<std::string, int>* kinds)
{
    runs::start_runtime();
    const std::vector<OpCase> cases = selected_cases(true);
    u64 count = 0;
    for (std::size_t m = 0; m < drawn_meshes.size(); ++m) {
        const Mesh& mesh = drawn_meshes[m];
        for (const std::size_t quarter : quarters) {
            Draw draw(1'000'003 * soak::seed() + 1000 * round + 10 * m + quarter);
            std::vector<const OpCase*> mine;
            for (std::size_t c = 0; c < cases.size(); ++c)
                if ((c + m) % 4 == quarter)
                    mine.push_back(&cases[c]);
            std::shuffle(mine.begin(), mine.end(), draw);
            for (std::size_t first = 0; first < mine.size(); first += batch_size) {
                const AxisPieces pieces = drawn_pieces(draw, mesh, below(draw, 2) == 0);
                std::vector<OpProgram> batch;
                for (std::size_t i = first; i < std::min(first + batch_size, mine.size()); ++i)
                    batch.push_back(drawn_program(draw, *mine[i], mesh, pieces));
                check_batch(batch, mesh, soak::seed());
                count += batch.size();
                if (kinds)
                    for (const CollectiveEntry& entry :
                         collectives_of(local_graph(sharded_graph(read_graph(text_of(batch, mesh), "t")), 0)))
                        ++(*kinds)[entry.kind];
            }
        }
    }
    return count;
}

} // namespace

TEST_CASE("every sharding of operands and results over two ranks", "[release]")
{
    runs::start_runtime();
    std::vector<OpCase> cases = selected_cases();
    std::erase_if(cases, [](const OpCase& op) { return !main_type(op); });
    check_all_pairs(cases, one_axis[0]);
}

TEST_CASE("drawn shardings of every form on up to eight ranks")
{
    std::map<std::string, int> kinds;
    const soak::Budget budget;
    u64 count = check_drawn(0, {0}, &kinds);
    for (u64 round = 1; budget.left(); ++round)
        count += check_drawn(round, {0, 1, 2, 3}, nullptr);
    if (!only_case)
        for (const char* kind :
             {"all_gather", "all_reduce", "reduce_scatter", "all_to_all", "permute", "halo"}) {
            INFO(kind);
            CHECK(kinds[kind] >= 20);
        }
    std::printf("%llu programs\n", static_cast<unsigned long long>(count));
}

TEST_CASE("the other quarters of drawn shardings", "[release]")
{
    const u64 count = check_drawn(0, {1, 2, 3}, nullptr);
    std::printf("%llu programs\n", static_cast<unsigned long long>(count));
}

TEST_CASE("the whole product of shardings over one axis")
{
    if (!whole)
        return;
    runs::start_runtime();
    for (const Mesh& mesh : one_axis)
        check_all_pairs(selected_cases(), mesh);
}

TEST_CASE("the whole product of shardings over two axes")
{
    if (!whole)
        return;
    runs::start_runtime();
    std::vector<OpCase> cases = selected_cases();
    std::erase_if(cases, [](const OpCase& op) { return !main_type(op) || !of_two_dims(op); });
    check_all_pairs(cases, two_axes);
}

TEST_CASE("the cases have every general op, with every attribute, combiner and element type")
{
    const char* const general[] = {
#define TRV_OP(op, ...) #op,
#include "ir/general_ops.inc"
#undef TRV_OP
    };
    struct Seen {
        std::set<Attr> attrs;
        std::set<DType> types;
        std::set<std::string> combiners, directions;
    };
    std::map<std::string, Seen> seen;
    std::set<std::size_t> spatial;
    for (const OpCase& c : op_cases()) {
        INFO(c.name << "\n" << c.body);
        const std::vector<Sharding> none(c.inputs.size() + c.outputs.size());
        const Graph graph = read_graph(text_of({&c, none}, {}, 0), c.name);
        for (const Op& op : graph.ops) {
            Seen& of = seen[info(op).name];
            for (const NumberLists::Entry& entry : op.attrs->lists.entries())
                of.attrs.insert(entry.attr);
            of.types.insert(graph[op.operands.empty() ? op.results[0] : op.operands[0]].type.dtype);
            if (op.kind == OpKind::select || op.kind == OpKind::sort)
                of.types.insert(graph[op.operands[1 % op.operands.size()]].type.dtype);
            if (info(op).needs.has(Attr::combine) || info(op).may_have.has(Attr::combine))
                of.combiners.insert(op.attrs->combine ? std::string(name_of(*op.attrs->combine)) : "none");
            of.directions.insert(op.attrs->direction.value_or(""));
            if (op.kind == OpKind::convolution)
                spatial.insert(graph[op.operands[0]].type.shape.size() - 2);
        }
    }
    CHECK((spatial == std::set<std::size_t>{1, 2, 3}));
    CHECK(seen["compare"].directions.size() == 6);
    CHECK((seen["reduce"].combiners == std::set<std::string>{"sum", "max", "min", "product"}));
    CHECK((seen["pool"].combiners == std::set<std::string>{"sum", "max", "min", "product"}));
    CHECK((seen["scatter"].combiners == std::set<std::string>{"none", "sum", "max", "min", "product"}));
    // The partitioner adds these to a rank's op.
    const std::map<std::string, std::set<Attr>> local{
        {"iota", {Attr::begin}},
        {"pool_grad", {Attr::begin, Attr::whole, Attr::shape}},
        {"dynamic_slice", {Attr::begin, Attr::whole, Attr::slice_sizes}},
        {"dynamic_update_slice", {Attr::begin, Attr::whole, Attr::slice_sizes}},
        {"gather", {Attr::begin, Attr::whole}},
        {"scatter", {Attr::begin, Attr::whole, Attr::slice_sizes}}};
    for (const std::string op : general) {
        const OpInfo& row = *find_op(op);
        if (row.manual)
            continue; // manual regions: random_programs
        INFO(op);
        CHECK(seen.count(op) == 1);
        for (const ListName& list : list_names)
            if ((row.needs.has(list.attr) || row.may_have.has(list.attr)) &&
                !(local.count(op) && local.at(op).count(list.attr))) {
                INFO("attribute " << list.name);
                CHECK(seen[op].attrs.count(list.attr) == 1);
            }
        const OperandType type = row.types.empty() ? OperandType::any : row.types.back();
        for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i32})
            if (dtype != DType::i32 || type != OperandType::real) {
                INFO("element type " << name_of(dtype));
                CHECK(seen[op].types.count(dtype) == 1);
            }
    }
}

TEST_CASE("shardings of mixtures of experts")
{
    runs::start_runtime();
    const std::vector<OpCase> cases = expert_op_cases();
    for (const Mesh& mesh : {two_axes, Mesh{{{"x", 4}, {"y", 2}}}}) {
        Draw draw(soak::seed());
        Batches batches(mesh, 7);
        for (const OpCase& op : cases)
            for (int i = 0; i < 4; ++i)
                batches.add(drawn_program(draw, op, mesh, drawn_pieces(draw, mesh, i % 2 == 0)));
        batches.flush();
    }
}

TEST_CASE("a sum that tensor ranks have of rows is one of tokens")
{
    // Rows become tokens before the sum: 2 slots per token, so half of the elements.
    const std::string text = R"(graph experts
mesh x=4 y=2
input %t : f64[8,6,16] <x,-,->
input %l : f64[8,6,4] <x,-,->
input %up : f64[4,16,32] <x:(2)2,-,y>
input %down : f64[4,32,16] <x:(2)2,y,->
input %dy : f64[8,6,16] <x,-,->
%w, %e = route(%l) {routing="0 1 1 1 0", k=2} : f64[8,6,2], i32[8,6,2]
%r, %s, %c = dispatch(%t, %e) {spread="4 1", count=4} : f64[4,24,16], i32[8,6,2], i32[4,4]
%h = grouped_matmul(%r, %up, %c) {groups=2, expected=24} : f64[4,24,32]
%a = gelu(%h) : f64[4,24,32]
%o = grouped_matmul(%a, %down, %c) {groups=2, expected=24} : f64[4,24,16]
%y = combine(%o, %s, %w) {spread="4 1"} : f64[8,6,16]
%dw = combine_grad_weights(%dy, %s, %o) {spread="4 1"} : f64[8,6,2]
output %y
output %dw
)";
    std::vector<std::string> reduced;
    const Graph local = local_graph(sharded_graph(read_graph(text, "t")), 0);
    for (const Op& op : local.ops)
        if (op.kind == OpKind::all_reduce)
            for (const ValueId v : op.operands)
                reduced.push_back(str(local[v].type));
    CHECK(reduced == std::vector<std::string>{"f64[2,6,16]", "f64[2,6,2]"});
    for (const double difference : runs::differences_on_threads(text, 11))
        CHECK(difference <= 1e-12);
}

TEST_CASE("attention with a window, chunks, a cap, documents and sinks over batch and heads")
{
    for (const auto& [q, k, sinks] : {std::tuple{"<x,-,y,-,->", "<x,-,y,->", "<y,->"},
                                      {"<x,-,-,y,->", "<x,-,-,->", "<-,y>"},
                                      {"<-,x,-,-,y>", "<x,-,-,y>", "<x,y>"}}) {
        INFO(q << " " << k << " " << sinks);
        const std::string text =
            str("graph attention\nmesh x=2 y=2\ninput %q : f64[4,9,2,2,4] ", q, "\ninput %k : f64[4,9,2,4] ",
                k, "\ninput %v : f64[4,9,2,4] ", k, "\ninput %dout : f64[4,9,2,2,4] ", q,
                "\ninput %starts : i32[4,9]\ninput %sinks : f64[2,2] ", sinks, R"(
%o, %lse = attention(%q, %k, %v, %starts, %sinks) {cap=2.0, window="4", chunk=5} : f64[4,9,2,2,4], f64[4,2,2,9]
%dq, %dk, %dv = attention_grad(%dout, %q, %k, %v, %o, %lse, %starts) {cap=2.0, window="4", chunk=5} : f64[4,9,2,2,4], f64[4,9,2,4], f64[4,9,2,4]
%dsinks = attention_grad_sinks(%dout, %o, %lse, %sinks) : f64[2,2]
output %o
output %lse
output %dq
output %dk
output %dv
output %dsinks
)");
        for (const double difference : runs::differences_on_threads(text, 11))
            CHECK(difference <= 1e-12);
    }
}
