#include "harness.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"
#include "catch.hpp"
#include "choose/decide.hpp"
#include "runtime/device.hpp"
#include "runtime/initialise.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

namespace trivium::runs {

using reference::Vector;

void start_runtime()
{
    if (computes_on_device() && device_count() == 0) {
        std::printf("skipped: no device\n"); // CTest looks for the word
        std::exit(0);
    }
    static const kernels::Runtime runtime(1);
}

CompileConfig small_machine()
{
    CompileConfig options;
    options.machine.scratch = {Bytes{1} << 20, Bytes{1} << 20, Bytes{1} << 18, Bytes{1} << 18};
    return options;
}

RunConfig config_of(const reference::Model& m, Precision precision, i64 rows, i64 microbatches)
{
    RunConfig c;
    set_family(c.model, m.llama ? Family::llama : Family::gpt2);
    c.model.layers = m.layers;
    c.model.dim = m.dim;
    c.model.heads = m.heads;
    c.model.kv_heads = m.kv_heads;
    c.model.ffn_dim = m.ffn;
    c.model.vocab = m.vocab;
    c.model.seq = m.seq;
    c.model.tied_embeddings = m.tied;
    c.model.rope_theta = m.theta;
    c.model.norm_eps = m.eps;
    c.model.dropout = m.dropout;
    c.train.z_loss = m.z_loss;
    c.train.label_smoothing = m.smoothing;
    if (m.factor != 1)
        c.model.rope_scaling =
            llama3_scaling(m.factor, m.low_freq_factor, m.high_freq_factor, static_cast<i64>(m.original_seq));
    c.train.precision = precision;
    c.train.global_batch = rows;
    c.train.micro_batch = rows / microbatches;
    c.parallel.threads = 1;
    resolve_and_validate(c);
    return c;
}

reference::Model regularised(reference::Model m)
{
    m.z_loss = 0.02;
    m.smoothing = 0.15;
    m.dropout = 0.25;
    m.keeps = [](int place, std::int64_t sample, int token, int column) {
        const PhiloxBlock bits =
            philox(RandomStream(0, str("dropout ", place)).key(),
                   {{static_cast<std::uint32_t>(column / 4), static_cast<std::uint32_t>(token),
                     static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32)}});
        return bits[column % 4] >= (1u << 30); // a quarter of 2^32
    };
    return m;
}

Batch rows_of(const TokenBatch& batch, i64 first)
{
    const auto rows = [seq = batch.seq](const reference::Ids& ids) {
        return sequence_array(
            seq, [&ids, seq](i64 row, i64 i) { return ids[static_cast<std::size_t>(row * seq + i)]; });
    };
    const auto start = [&starts = batch.starts, seq = batch.seq](i64 row, i64 i) {
        return starts.empty() ? 0 : starts[static_cast<std::size_t>(row * seq + i)];
    };
    return {{{value_name::tokens, rows(batch.tokens)},
             {value_name::targets, rows(batch.targets)},
             {value_name::starts, sequence_array(batch.seq, start)},
             {value_name::positions,
              sequence_array(batch.seq, [=](i64 row, i64 i) { return i - start(row, i); })},
             {value_name::samples, sample_numbers(batch.first_sample)}},
            first};
}

TokenBatch random_batch(const reference::Model& model, i64 rows, std::uint64_t seed)
{
    const RandomStream stream(seed, "batch");
    TokenBatch batch;
    batch.seq = model.seq;
    batch.first_sample = (i64{1} << 33) + static_cast<i64>(seed) * rows; // two words
    for (i64 i = 0; i < rows * model.seq; ++i) {
        const std::uint64_t bits = stream.bits_at(static_cast<u64>(i));
        batch.tokens.push_back(static_cast<std::int32_t>(bits % static_cast<u64>(model.vocab)));
        const bool ignored = i > 0 && (bits >> 20) % 7 == 0;
        batch.targets.push_back(
            ignored ? -1 : static_cast<std::int32_t>((bits >> 32) % static_cast<u64>(model.vocab)));
    }
    return batch;
}

namespace {

const Buffer& buffer_of(const Program& program, std::string_view name)
{
    for (const Buffer& buffer : program.schedule.buffers)
        if (buffer.name == name)
            return buffer;
    FAIL("no buffer is called " << std::string(name));
    throw 0;
}

template <class T>
constexpr T narrow(double value)
{
    return T(static_cast<kernels::Acc<T>>(value));
}

Vector read_at(const Arenas& arenas, const Buffer& buffer, const TensorType& type)
{
    HostWindow window(arenas.of(buffer.space), buffer.offset, type.bytes());
    window.pull();
    return with_type(type.dtype, [&](auto t) {
        using T = decltype(t);
        const T* data = reinterpret_cast<const T*>(window.data());
        Vector values;
        for (i64 i = 0; i < type.elements(); ++i)
            values.push_back(static_cast<double>(static_cast<kernels::Acc<T>>(data[i])));
        return values;
    });
}

} // namespace

Vector read(const Program& program, const Arenas& arenas, std::string_view name)
{
    return read_at(arenas, buffer_of(program, name), program.graph[program.graph.find(name)].type);
}

void write(const Program& program, const Arenas& arenas, std::string_view name, const Vector& values)
{
    const TensorType& type = program.graph[program.graph.find(name)].type;
    REQUIRE(type.elements() == static_cast<i64>(values.size()));
    const Buffer& buffer = buffer_of(program, name);
    HostWindow window(arenas.of(buffer.space), buffer.offset, type.bytes());
    with_type(type.dtype, [&](auto t) {
        using T = decltype(t);
        std::transform(values.begin(), values.end(), reinterpret_cast<T*>(window.data()), narrow<T>);
    });
    window.push();
}

GradientPlace gradient_place(const Program& program, const std::string& parameter)
{
    // It is the operand after the states of the op that updates them, or after a parameter without states.
    const Graph& g = program.graph;
    const auto trained = is_trained(g[g.find(parameter)]);
    const auto carry = std::find_if(g.carries.begin(), g.carries.end(), [&](const Carry& c) {
        return trained ? g[c.in].role == Role::state && g[c.in].state_of.parameter == parameter
                       : g[c.in].name == parameter;
    });
    TRV_CHECK(carry != g.carries.end(), "nothing updates ", parameter);
    const OpId update = g[carry->out].producer;
    const std::vector<ValueId>& operands = g[update].operands;
    const auto first = std::find(operands.begin(), operands.end(), carry->in) - operands.begin();
    const std::size_t operand =
        static_cast<std::size_t>(first) + (trained ? info(g[update]).states.size() : 1);
    const ValueId gradient = operands[operand];
    if (g.find("kept." + g[gradient].name)) // a post-validated update, after which it may be needed
        return {gradient, &kept_buffer(program.schedule, "kept." + g[gradient].name)};
    for (const Step& step : program.schedule.steps)
        if (step.kind == StepKind::op && step.op == update)
            return {gradient, &program.schedule[step.operands[operand]]};
    throw InternalError(__FILE__, __LINE__, "no step updates " + parameter);
}

Vector read_gradient(const Program& program, const Arenas& arenas, const std::string& parameter)
{
    const GradientPlace place = gradient_place(program, parameter);
    return read_at(arenas, *place.buffer, program.graph[place.value].type);
}

reference::Tensors read_parameters(const Program& program, const Arenas& arenas)
{
    reference::Tensors all;
    for (const ValueId id : program.graph.with_role(Role::parameter))
        all[program.graph[id].name] = read(program, arenas, program.graph[id].name);
    return all;
}

Run::Run(const RunConfig& run_config, int threads, std::uint64_t seed, std::vector<std::string> skip)
    : config(run_config)
{
    start_runtime();
    CompileConfig options = small_machine();
    options.runner.skip = std::move(skip);
    engine = std::make_unique<Engine>(compile_training(config, options), ExecutorConfig{.threads = threads});
    engine->initialise(seed);
    randomise(seed);
}

void Run::differentiate(const TokenBatch& batch, const Hyper& hyper)
{
    engine->step(rows_of(batch), hyper, {.accept = [](const StepResult&) { return false; }});
}

reference::Tensors Run::gradients() const
{
    reference::Tensors all;
    for (const ValueId id : program().graph.with_role(Role::parameter)) {
        const std::string& name = program().graph[id].name;
        all[name] = read_gradient(program(), engine->arenas(), name);
    }
    return all;
}

std::vector<std::byte> Run::kept_bytes() const
{
    std::vector<std::byte> bytes;
    for (const Buffer& b : program().schedule.buffers)
        if (b.lifetime == Lifetime::run) {
            HostWindow window(engine->arenas().of(b.space), b.offset, b.bytes);
            window.pull();
            bytes.insert(bytes.end(), window.data(), window.data() + b.bytes);
        }
    return bytes;
}

void Run::require_planned_is_used(const TokenBatch& batch)
{
    differentiate(batch);
    update();
    engine->evaluate(rows_of(batch));
    REQUIRE(std::max(engine->executor(train_program).used(), engine->executor(eval_program).used()) ==
            engine->planned());
    REQUIRE(engine->arenas().of(Space::device).size() == engine->planned());
    // A dead buffer is poisoned as a whole, scratch included, so the pattern of an untouched arena ends where
    // the plan does.
    if constexpr (contracts_on)
        REQUIRE(engine->arenas().of(Space::device).high_water() == engine->planned());
}

double magnitude(const Vector& values)
{
    double most = 0;
    for (const double v : values)
        if (!std::isfinite(v))
            return INFINITY;
        else
            most = std::max(most, std::abs(v));
    return most;
}

double scaled_difference(const Vector& a, const Vector& b)
{
    REQUIRE(a.size() == b.size());
    double largest = 1e-300, difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (!std::isfinite(a[i]) || !std::isfinite(b[i]))
            return INFINITY;
        largest = std::max(largest, std::abs(b[i]));
        difference = std::max(difference, std::abs(a[i] - b[i]));
    }
    return difference / largest;
}

double norm_difference(const Vector& a, const Vector& b)
{
    REQUIRE(a.size() == b.size());
    double square = 0, difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        square += b[i] * b[i];
        difference += (a[i] - b[i]) * (a[i] - b[i]);
    }
    return std::sqrt(difference / square);
}

void require_result(const Run& run, const reference::Result& want, double tolerance, double vanishing,
                    bool by_norm)
{
    CHECK(run.tokens() == want.tokens);
    CHECK(std::abs(run.loss_sum() - want.loss_sum) <= tolerance * std::abs(want.loss_sum));
    const reference::Tensors got = run.gradients();
    REQUIRE(got.size() == want.gradients.size());
    double largest = 0;
    for (const auto& [name, gradient] : want.gradients)
        largest = std::max(largest, magnitude(gradient));
    for (const auto& [name, gradient] : want.gradients) {
        INFO(name);
        REQUIRE(got.count(name) == 1);
        if (magnitude(gradient) < vanishing * largest)
            CHECK(magnitude(got.at(name)) <= (tolerance + vanishing) * largest);
        else
            CHECK((by_norm ? norm_difference : scaled_difference)(got.at(name), gradient) <= tolerance);
    }
}

} // namespace trivium::runs
