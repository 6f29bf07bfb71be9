// Drawn programs of element-wise ops, broadcasts and maxima, whose Steps the host runs tile by tile, against
// loops over whole tensors. Each op rounds alone, so all numbers are equal.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "small_graph.hpp"

#include <cmath>
#include <cstring>
#include <map>
#include <random>

using namespace trivium;
using namespace trivium::runs;

namespace {

constexpr i64 rows = 6, columns = 2503; // several tiles, none of which ends with a row

using Cells = std::vector<float>; ///< of integers, too, which are 0 and 1 here

struct Drawn {
    std::string text;
    std::map<std::string, Cells> inputs, outputs;
};

class Draw {
public:
    explicit Draw(unsigned seed) : random_(seed)
    {
        drawn_.text = "graph drawn\n";
        for (const char* const name : {"x", "y"})
            input(name, wide_, rows * columns);
        input("r", narrow_, rows);
        input("c", line_, columns);
    }

    Drawn program(int ops)
    {
        for (int i = 0; i < ops; ++i)
            draw();
        draw_wide();
        std::string outputs;
        for (std::size_t i = 2; i < wide_.size(); ++i) // without the inputs
            if (i + 1 == wide_.size() || below(6) == 0) {
                outputs += "output %" + wide_[i].first + "\n";
                drawn_.outputs[wide_[i].first] = wide_[i].second;
            }
        drawn_.text += outputs;
        return drawn_;
    }

private:
    using Values = std::vector<std::pair<std::string, Cells>>;

    int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

    void input(const std::string& name, Values& to, i64 n)
    {
        Cells cells;
        for (i64 i = 0; i < n; ++i)
            cells.push_back(static_cast<float>(below(2001) - 1000) / 300);
        const std::string shape = &to == &wide_ ? str(rows, ",", columns) : str(n);
        drawn_.text += str("input %", name, " : f32[", shape, "]\n");
        drawn_.inputs[name] = cells;
        to.emplace_back(name, std::move(cells));
    }

    /// A value, more often a late one.
    const std::pair<std::string, Cells>& any(const Values& of)
    {
        const auto n = static_cast<int>(of.size());
        return of[static_cast<std::size_t>(std::max(below(n), below(n)))];
    }

    std::string line(const std::string& op, const std::string& type)
    {
        const std::string name = str("v", count_++);
        drawn_.text += str("%", name, " = ", op, " : ", type, "\n");
        return name;
    }
    std::string wide_line(const std::string& op) { return line(op, str("f32[", rows, ",", columns, "]")); }

    template <class F>
    static Cells each(F f)
    {
        Cells cells;
        for (i64 i = 0; i < rows * columns; ++i)
            cells.push_back(f(static_cast<std::size_t>(i)));
        return cells;
    }

    void draw()
    {
        const int kind = below(10);
        if (kind == 0) {
            const auto [x, a] = any(wide_);
            Cells most(rows, -INFINITY);
            for (std::size_t i = 0; i < a.size(); ++i)
                most[i / columns] = std::max(most[i / columns], a[i]);
            narrow_.emplace_back(
                line("reduce(%" + x + ") {combine=\"max\", dims=\"1\"}", str("f32[", rows, "]")), most);
        } else if (kind <= 2) {
            const bool of_rows = below(2) == 0;
            const auto [x, a] = any(of_rows ? narrow_ : line_);
            wide_.emplace_back(
                wide_line(str("broadcast(%", x, ") {dims=\"", of_rows ? 0 : 1, "\", shape=\"", rows, " ",
                              columns, "\"}")),
                each([&, &cells = a](std::size_t i) { return cells[of_rows ? i / columns : i % columns]; }));
        } else {
            draw_wide();
        }
    }

    void draw_wide()
    {
        const auto [x, p] = any(wide_);
        const auto [y, q] = any(wide_);
        const Cells &a = p, &b = q;
        const std::string both = str("(%", x, ", %", y, ")");
        const auto add = [&](const std::string& op, auto f) { wide_.emplace_back(wide_line(op), each(f)); };
        switch (below(6)) {
        case 0: return add("negate(%" + x + ")", [&](std::size_t i) { return -a[i]; });
        case 1: return add("affine(%" + x + ") {alpha=0.75}", [&](std::size_t i) { return 0.75F * a[i]; });
        case 2: return add("subtract" + both, [&](std::size_t i) { return a[i] - b[i]; });
        case 3: return add("maximum" + both, [&](std::size_t i) { return std::max(a[i], b[i]); });
        case 4: return add("add" + both, [&](std::size_t i) { return a[i] + b[i]; });
        default: {
            const std::string less =
                line("compare" + both + " {direction=\"lt\"}", str("i32[", rows, ",", columns, "]"));
            return add(str("select(%", less, ", %", y, ", %", x, ")"),
                       [&](std::size_t i) { return a[i] < b[i] ? b[i] : a[i]; });
        }
        }
    }

    std::mt19937 random_;
    Drawn drawn_;
    Values wide_, narrow_, line_;
    int count_ = 0;
};

/// The outputs of two runs in an arena that holds `filling` before.
struct Outputs {
    std::map<std::string, Cells> cells;
    std::vector<std::byte> arena; ///< after the runs
    Schedule schedule;
};

Outputs outputs_of(const Drawn& drawn, int threads, std::byte filling)
{
    start_runtime();
    Outputs made;
    const Graph graph = parse_graph(drawn.text, "drawn.graph");
    verify(graph, Level::global);
    made.schedule = build_schedule(graph, {.scratch = small_machine().machine.scratch});
    MemoryConfig memory;
    memory.red_zone = contracts_on ? 256 : 0;
    const MemoryPlan plan = plan_memory({&made.schedule}, memory);
    const Arenas arenas(plan.arena);
    const auto n = static_cast<std::size_t>(plan.arena);
    std::fill_n(arenas.of(Space::device).at(0), n, filling);
    ExecutorConfig config;
    config.threads = threads;
    config.red_zone = memory.red_zone;
    Executor executor(graph, made.schedule, arenas, config);
    for (int run = 0; run < 2; ++run) {
        executor.run_until_decision([&](const Value& value, i64, void* to) {
            const Cells& from = drawn.inputs.at(value.name);
            std::memcpy(to, from.data(), from.size() * sizeof(float));
        });
        executor.run_after_decision();
    }
    CHECK(executor.used() == plan.arena);
    for (const ValueId id : graph.outputs) {
        Cells cells(static_cast<std::size_t>(graph[id].type.elements()));
        std::memcpy(cells.data(), executor.fetched_data(graph[id].name), cells.size() * sizeof(float));
        made.cells[graph[id].name] = std::move(cells);
    }
    made.arena.assign(arenas.of(Space::device).at(0), arenas.of(Space::device).at(0) + n);
    return made;
}

} // namespace

TEST_CASE("element-wise Steps that run tile by tile compute what loops over whole tensors do")
{
    for (unsigned seed = 0; seed < 60; ++seed) {
        const Drawn drawn = Draw(seed).program(25);
        INFO("seed " << seed << "\n" << drawn.text);
        for (const int threads : {1, 3}) {
            const Outputs made = outputs_of(drawn, threads, std::byte{0});
            for (const auto& [name, cells] : drawn.outputs) {
                INFO(name << ", " << threads << " threads");
                REQUIRE(made.cells.at(name) == cells);
            }
        }
    }
}

TEST_CASE("a value that only its run reads stays in a tile")
{
    if (contracts_on) // which look at each Step
        return;
    const Drawn drawn{"graph choice\ninput %x : f32[6,2503]\ninput %y : f32[6,2503]\n"
                      "%less = compare(%x, %y) {direction=\"lt\"} : i32[6,2503]\n"
                      "%most = select(%less, %y, %x) : f32[6,2503]\noutput %most\n",
                      {{"x", Cells(rows * columns, 1)}, {"y", Cells(rows * columns, 2)}},
                      {}};
    const std::byte filling{0x5A};
    const Outputs made = outputs_of(drawn, 1, filling);
    CHECK(made.cells.at("most") == Cells(rows * columns, 2));
    const auto less = std::ranges::find(made.schedule.buffers, "less", &Buffer::name);
    REQUIRE(less != made.schedule.buffers.end());
    const auto touched = std::ranges::count_if(made.arena.begin() + less->offset,
                                               made.arena.begin() + less->offset + less->bytes,
                                               [&](std::byte b) { return b != filling; });
    CHECK(touched > 0);
    CHECK(touched < less->bytes / 2);
}
