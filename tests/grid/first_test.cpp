#include "catch.hpp"
#include "grid/grid_run.hpp"
using namespace trivium;
using namespace trivium::grids;
TEST_CASE("first grids")
{
    for (const bool llama : {true, false})
    for (const bool tied : {false, true}) {
    Case c;
    c.model = {llama, 3, 12, 3, llama ? 3 : 3, 10, 11, 6, tied};
    c.rows = 8;
    c.micro_batch = 8;
    c.parallel.sequence = true;
    const Outcome want = train_on_threads(c);
    struct P { i64 d, p, t; int zero; bool seq; ScheduleKind kind; };
    for (const P& p : {P{1,1,1,0,true,ScheduleKind::one_f_one_b}, P{2,1,1,0,true,ScheduleKind::one_f_one_b}, P{2,1,1,1,true,ScheduleKind::one_f_one_b}, P{1,1,2,0,false,ScheduleKind::one_f_one_b}, P{1,1,2,0,true,ScheduleKind::one_f_one_b},
           P{1,2,1,0,true,ScheduleKind::one_f_one_b}, P{1,2,1,0,true,ScheduleKind::gpipe}, P{1,4,1,0,true,ScheduleKind::one_f_one_b}, P{2,2,2,1,true,ScheduleKind::one_f_one_b}, P{1,1,3,0,true,ScheduleKind::gpipe}, P{4,1,2,1,true,ScheduleKind::gpipe}}) {
        Case g = c;
        g.parallel.data = p.d;
        g.parallel.pipeline = p.p;
        g.parallel.tensor = p.t;
        g.parallel.zero = p.zero;
        g.parallel.sequence = p.seq;
        g.parallel.schedule = p.kind;
        g.micro_batch = 2;
        INFO(g.text());
        Outcome got;
        REQUIRE_NOTHROW(got = train_on_threads(g));
        CHECK(largest_difference(got.gradients, want.gradients) < 1e-9);
        CHECK(largest_difference(got.parameters, want.parameters) < 1e-9);
        for (std::size_t i = 0; i < 3; ++i) {
            CHECK(got.losses[i] == Approx(want.losses[i]).epsilon(1e-9));
            CHECK(got.norms[i] == Approx(want.norms[i]).epsilon(1e-9));
        }
    }
    }
}
