#include "grid/drawn_program.hpp"

#include "grid/drawn_draft.hpp"

namespace trivium::grids {

namespace {

constexpr i64 samples = 12, classes = 5;

class Drawer : ProgramDraft {
public:
    using ProgramDraft::ProgramDraft;

    DrawnProgram run(u64 seed)
    {
        DrawnProgram made;
        mesh();
        made.text = program();
        made.one = {.text = made.text, .name = str("drawn-", seed, ".graph"), .samples = samples, .steps = 3};
        made.elsewhere = made.one;
        ProgramCase& c = made.elsewhere;
        c.parallel.axes.list = {{"x", x_}, {"y", y_}};
        c.parallel.data = data_;
        c.parallel.pipeline = std::min<i64>(pipeline_, blocks_);
        c.parallel.zero = data_ * (batch_over_x_ ? x_ : 1) > 1 ? below(4) : 0;
        c.parallel.recompute = pick(std::vector{Recompute::none, Recompute::selective, Recompute::full});
        const i64 groups = data_ * (batch_over_x_ ? x_ : 1);
        std::vector<i64> micro;
        for (const i64 m : {1, 2, 3, 4, 6, 12})
            if (samples % (groups * m) == 0 && (batch_over_x_ || m >= x_))
                micro.push_back(m);
        c.micro_batch = over_samples_ ? samples / groups : pick(micro);
        made.one.micro_batch = over_samples_ ? samples : 0;
        options(c.parallel);
        made.about =
            str("seed ", seed, ": x ", x_, " y ", y_, " data ", data_, " pipeline ", c.parallel.pipeline, " ",
                c.parallel.schedule, " chunks ", c.parallel.chunks, " zero ", c.parallel.zero, " shard ",
                c.parallel.shard, " gather ", name_of(c.parallel.gather_every), " reduce ",
                name_of(c.parallel.reduce_every), " recompute ", name_of(c.parallel.recompute), " in ",
                c.parallel.recompute_layers, " tile ", c.parallel.tile, " offload ",
                name_of(c.parallel.offload), " group ", c.parallel.group, " overlap ", c.parallel.overlap,
                " bucket ", c.parallel.bucket, " micro batch ", c.micro_batch);
        return made;
    }

private:
    void product(const Tensor& t)
    {
        const int d = dim_of(t);
        if (d < 0)
            return;
        const i64 out = extent();
        const std::string in = letters(t.shape.size());
        const char k = static_cast<char>('a' + d);
        std::string result = in;
        result[static_cast<std::size_t>(2 * d)] = 'z';
        std::vector<i64> shape = t.shape;
        shape[static_cast<std::size_t>(d)] = out;
        const bool turned = chance(30);
        const i64 inner = t.shape[static_cast<std::size_t>(d)];
        const std::string w = turned ? parameter({out, inner}) : parameter({inner, out});
        tamed(emit(str("matmul(", t.name, ", ", w, ") {rule=\"", in, ", ",
                       turned ? str("z ", k) : str(k, " z"), " -> ", result, "\"}"),
                   shape),
              shape);
    }

    void own_product(const Tensor& t)
    {
        if (t.shape.size() != 3 || t.shape[0] != 0)
            return;
        const std::vector<i64> shape{0, t.shape[1], t.shape[1]};
        tamed(emit(str("matmul(", t.name, ", ", t.name, ") {rule=\"b s k, b t k -> b s t\"}"), shape), shape);
    }

    void convolution(const Tensor& t)
    {
        if (t.shape.size() < 3 || t.shape[0] != 0 || t.shape.size() > 4)
            return;
        const i64 c = t.shape[1];
        const i64 groups = chance(40) ? c : c % 2 == 0 && chance(50) ? 2 : 1;
        const i64 outs = groups * (1 + below(2));
        std::vector<i64> w{outs, c / groups}, shape{0, outs};
        std::string stride, low, high;
        for (std::size_t d = 2; d < t.shape.size(); ++d) {
            const i64 k = 1 + below(3), s = 1 + below(2), l = below(3), h = below(3);
            const i64 n = t.shape[d] + l + h - k;
            if (n < 0)
                return;
            w.push_back(k);
            shape.push_back(n / s + 1);
            stride += str(" ", s);
            low += str(" ", l);
            high += str(" ", h);
        }
        tamed(
            emit(str("convolution(", t.name, ", ", parameter(w), ") {stride=\"", stride.substr(1),
                     "\", low=\"", low.substr(1), "\", high=\"", high.substr(1), "\", groups=", groups, "}"),
                 shape),
            shape);
    }

    std::string reduced_and_spread(const Tensor& t, std::size_t d, const std::string& combine)
    {
        const auto [rest, dims] = without(t.shape, d);
        const std::string r =
            emit(str("reduce(", t.name, ") {combine=\"", combine, "\", dims=\"", d, "\"}"), rest);
        return emit(str("broadcast(", r, ") {dims=\"", dims, "\", shape=\"", list(t.shape), "\"}"), t.shape);
    }

    void softmax(const Tensor& t)
    {
        const int d = dim_of(t);
        if (d < 0)
            return;
        const std::string most = reduced_and_spread(t, static_cast<std::size_t>(d), "max");
        const std::string centred = emit(str("subtract(", t.name, ", ", most, ")"), t.shape);
        const std::string power = emit(str("exp(", centred, ")"), t.shape);
        const std::string sum = reduced_and_spread({power, t.shape}, static_cast<std::size_t>(d), "sum");
        add({emit(str("divide(", power, ", ", sum, ")"), t.shape), t.shape});
    }

    void reduction(const Tensor& t)
    {
        const int d = dim_of(t);
        if (d < 0 || t.shape.size() < 3)
            return;
        const auto [rest, dims] = without(t.shape, static_cast<std::size_t>(d));
        tamed(
            emit(str("reduce(", t.name, ") {combine=\"", chance(70) ? "sum" : "max", "\", dims=\"", d, "\"}"),
                 rest),
            rest);
    }

    /// A mean over samples, so that microbatches matter.
    void over_samples(const Tensor& t)
    {
        const auto b = static_cast<std::size_t>(std::ranges::find(t.shape, 0) - t.shape.begin());
        if (t.shape.size() < 2)
            return;
        const std::string sum = reduced_and_spread(t, b, "sum");
        const std::string mean = emit(str("affine(", sum, ") {alpha=1.0/b}"), t.shape);
        add({emit(str("subtract(", t.name, ", ", mean, ")"), t.shape), t.shape});
    }

    void spread(const Tensor& t)
    {
        if (t.shape.size() > 3)
            return;
        const i64 at = below(static_cast<i64>(t.shape.size()) + 1);
        std::vector<i64> shape = t.shape;
        shape.insert(shape.begin() + at, extent());
        std::string dims;
        for (std::size_t d = 0; d < shape.size(); ++d)
            if (static_cast<i64>(d) != at)
                dims += str(dims.empty() ? "" : " ", d);
        const std::string wide =
            emit(str("broadcast(", t.name, ") {dims=\"", dims, "\", shape=\"", list(shape), "\"}"), shape);
        // Not all alike
        std::vector<i64> own;
        std::string names;
        for (std::size_t d = 0; d < shape.size(); ++d)
            if (d >= static_cast<std::size_t>(at) &&
                std::ranges::find(shape.begin() + static_cast<long>(d), shape.end(), 0) == shape.end()) {
                own.push_back(shape[d]);
                names += str(names.empty() ? "" : " ", static_cast<char>('a' + d));
            }
        if (own.empty())
            return add({wide, shape});
        const std::string in = letters(shape.size());
        tamed(emit(str("bias_add(", wide, ", ", parameter(own), ") {rule=\"", in, ", ", names, " -> ", in,
                       "\"}"),
                   shape),
              shape);
    }

    void reshape(const Tensor& t)
    {
        std::vector<i64> shape = t.shape;
        for (std::size_t d = 0; d < shape.size(); ++d) {
            if (d + 1 < shape.size() && shape[d] > 0 && shape[d + 1] > 0 && chance(50)) {
                shape[d] *= shape[d + 1];
                shape.erase(shape.begin() + static_cast<long>(d) + 1);
                break;
            }
            if (shape[d] >= 4 && shape[d] % 2 == 0 && shape.size() < 4) {
                shape[d] /= 2;
                shape.insert(shape.begin() + static_cast<long>(d) + (chance(50) ? 1 : 0), 2);
                break;
            }
        }
        if (shape != t.shape)
            add({emit(str("reshape(", t.name, ") {shape=\"", list(shape), "\"}"), shape), shape});
    }

    void transpose(const Tensor& t)
    {
        if (t.shape.size() < 2)
            return;
        std::vector<i64> order(t.shape.size());
        for (std::size_t d = 0; d < order.size(); ++d)
            order[d] = static_cast<i64>(d);
        std::shuffle(order.begin() + (chance(80) && t.shape[0] == 0 ? 1 : 0), order.end(), random_);
        std::vector<i64> shape;
        std::string dims;
        for (const i64 d : order) {
            shape.push_back(t.shape[static_cast<std::size_t>(d)]);
            dims += str(dims.empty() ? "" : " ", d);
        }
        add({emit(str("transpose(", t.name, ") {dims=\"", dims, "\"}"), shape), shape});
    }

    void slice(const Tensor& t)
    {
        const int at = dim_of(t);
        if (at < 0)
            return;
        std::string start, limit, stride;
        std::vector<i64> shape = t.shape;
        for (std::size_t d = 0; d < shape.size(); ++d) {
            const bool here = static_cast<int>(d) == at;
            const i64 s = here ? below(shape[d]) : 0;
            const i64 l = here ? s + 1 + below(shape[d] - s) : shape[d];
            const i64 step = here ? 1 + below(2) : 1;
            if (here)
                shape[d] = (l - s - 1) / step + 1;
            start += str(d ? " " : "", s);
            limit += (d ? " " : "") + number(l);
            stride += str(d ? " " : "", step);
        }
        add({emit(str("slice(", t.name, ") {start=\"", start, "\", limit=\"", limit, "\", stride=\"", stride,
                      "\"}"),
                  shape),
             shape});
    }

    void pad(const Tensor& t)
    {
        const int at = dim_of(t);
        if (at < 0)
            return;
        std::string low, high, interior;
        std::vector<i64> shape = t.shape;
        for (std::size_t d = 0; d < shape.size(); ++d) {
            const bool here = static_cast<int>(d) == at;
            const i64 l = here ? below(4) - 1 : 0, h = here ? below(3) : 0, in = here && chance(30) ? 1 : 0;
            if (here)
                shape[d] += l + h + in * (shape[d] - 1);
            if (here && shape[d] < 1)
                return;
            low += str(d ? " " : "", l);
            high += str(d ? " " : "", h);
            interior += str(d ? " " : "", in);
        }
        add({emit(str("pad(", t.name, ") {value=0.3, low=\"", low, "\", high=\"", high, "\", interior=\"",
                      interior, "\"}"),
                  shape),
             shape});
    }

    void concatenate(const Tensor& t)
    {
        const int d = dim_of(t);
        if (d < 0)
            return;
        const std::string other = emit(str("negate(", t.name, ")"), t.shape);
        std::vector<i64> shape = t.shape;
        shape[static_cast<std::size_t>(d)] *= 2;
        add({emit(str("concatenate(", t.name, ", ", other, ") {dims=\"", d, "\"}"), shape), shape});
    }

    void embedding()
    {
        const i64 width = extent();
        const std::vector<i64> shape{0, ids_, width};
        add({emit(str("embedding(", parameter({classes, width}), ", %ids)"), shape), shape});
    }

    void norm(const Tensor& t)
    {
        const i64 width = t.shape.back();
        if (t.shape.size() < 2 || width < 3)
            return;
        std::vector<i64> rows(t.shape.begin(), t.shape.end() - 1);
        const std::string name = fresh("v");
        if (chance(50)) {
            const std::string g = parameter({width});
            line(str(name, ", ", fresh("u"), " = rms_norm(", t.name, ", ", g,
                     ") {eps=1e-2} : ", type(t.shape), annotation(t.shape), ", ", type(rows)));
        } else {
            const std::string g = parameter({width}), s = parameter({width});
            const std::string mean = fresh("u"), rstd = fresh("u");
            line(str(name, ", ", mean, ", ", rstd, " = layer_norm(", t.name, ", ", g, ", ", s,
                     ") {eps=1e-2} : ", type(t.shape), annotation(t.shape), ", ", type(rows), ", ",
                     type(rows)));
        }
        tamed(name, t.shape);
    }

    void unary(const Tensor& t)
    {
        add({emit(str(pick(std::vector<std::string>{"gelu", "tanh", "sin", "cos", "erf", "negate"}), "(",
                      t.name, ")", ""),
                  t.shape),
             t.shape});
    }

    void binary(const Tensor& t)
    {
        for (std::size_t tries = 0; tries < live_.size(); ++tries) {
            const Tensor other = live_[static_cast<std::size_t>(below(static_cast<i64>(live_.size())))];
            if (other.shape != t.shape || other.name == t.name)
                continue;
            const std::string op =
                pick(std::vector<std::string>{"add", "subtract", "multiply", "maximum", "minimum"});
            return add({emit(str(op, "(", t.name, ", ", other.name, ")"), t.shape), t.shape});
        }
        const std::string w = emit(str("multiply(", t.name, ", ", t.name, ")"), t.shape);
        add({emit(str("add(", w, ", ", t.name, ")"), t.shape), t.shape});
    }

    void choice(const Tensor& t)
    {
        const std::string c = fresh("c"), m = fresh("m");
        line(str(c, " = constant() {dtype=\"f32\", shape=\"", list(t.shape),
                 "\", value=0.123} : ", type(t.shape)));
        line(str(m, " = compare(", t.name, ", ", c, ") {direction=\"gt\"} : ", type(t.shape, "i32")));
        const std::string other = emit(str("sin(", t.name, ")"), t.shape);
        add({emit(str("select(", m, ", ", t.name, ", ", other, ")"), t.shape), t.shape});
    }

    void bias(const Tensor& t)
    {
        const std::size_t from =
            static_cast<std::size_t>(std::ranges::find(t.shape, 0) - t.shape.begin()) + 1;
        if (from >= t.shape.size())
            return;
        const std::string in = letters(t.shape.size());
        tamed(emit(str("bias_add(", t.name, ", ",
                       parameter({t.shape.begin() + static_cast<long>(from), t.shape.end()}), ") {rule=\"",
                       in, ", ", in.substr(2 * from), " -> ", in, "\"}"),
                   t.shape),
              t.shape);
    }

    void along(const Tensor& t)
    {
        const int d = dim_of(t);
        if (d < 0)
            return;
        const std::string op = pick(std::vector<std::string>{"cumsum", "reverse", "sort"});
        tamed(emit(str(op, "(", t.name, ") {dims=\"", d, "\"}"), t.shape), t.shape);
    }

    void pool(const Tensor& t)
    {
        const int at = dim_of(t);
        if (at < 0)
            return;
        std::string window, stride, low, high;
        std::vector<i64> shape = t.shape;
        for (std::size_t d = 0; d < shape.size(); ++d) {
            const bool here = static_cast<int>(d) == at;
            const i64 k = here ? 1 + below(3) : 1, s = here ? 1 + below(2) : 1, l = here ? below(k) : 0,
                      h = here ? below(k) : 0;
            if (here) {
                if (shape[d] + l + h < k)
                    return;
                shape[d] = (shape[d] + l + h - k) / s + 1;
            }
            window += str(d ? " " : "", k);
            stride += str(d ? " " : "", s);
            low += str(d ? " " : "", l);
            high += str(d ? " " : "", h);
        }
        tamed(emit(str("pool(", t.name, ") {combine=\"", chance(50) ? "max" : "sum", "\", window=\"", window,
                       "\", stride=\"", stride, "\", low=\"", low, "\", high=\"", high, "\"}"),
                   shape),
              shape);
    }

    void gathered(const Tensor& t)
    {
        const int d = dim_of(t);
        if (d < 0)
            return;
        // Some rows of a dimension, by indices that are computed
        const i64 n = extent(), of = t.shape[static_cast<std::size_t>(d)];
        const std::string i = fresh("i"), k = fresh("i"), j = fresh("i");
        line(str(i, " = iota() {dtype=\"i32\", dims=\"0\", shape=\"", n, "\"} : i32[", n, "]"));
        line(str(k, " = constant() {dtype=\"i32\", shape=\"", n, "\", value=", of, ".0} : i32[", n, "]"));
        line(str(j, " = remainder(", i, ", ", k, ") : i32[", n, "]"));
        std::vector<i64> shape = t.shape, sizes = t.shape;
        shape[static_cast<std::size_t>(d)] = n;
        sizes[static_cast<std::size_t>(d)] = 1;
        const auto [rest, dims] = without(t.shape, static_cast<std::size_t>(d));
        add({emit(str("gather(", t.name, ", ", j, ") {offset_dims=\"", dims, "\", collapsed_dims=\"", d,
                      "\", index_map=\"", d, "\", sizes=\"", list(sizes), "\"}"),
                  shape),
             shape});
    }

    void reshard(const Tensor& t)
    {
        const std::string name = fresh("v");
        line(str(name, " = reshard(", t.name, ") : ", type(t.shape), annotation(t.shape, true)));
        add({name, t.shape});
    }

    void step()
    {
        const Tensor t = tensor();
        if (elements(t) > 300)
            return reduction(t);
        switch (below(26)) {
        case 0:
        case 1:
        case 2: return product(t);
        case 3: return own_product(t);
        case 4:
        case 5: return convolution(t);
        case 6: return softmax(t);
        case 7: return reduction(t);
        case 8: return over_samples_ ? over_samples(t) : bias(t);
        case 9: return spread(t);
        case 10:
        case 11: return reshape(t);
        case 12:
        case 13: return transpose(t);
        case 14: return slice(t);
        case 15: return pad(t);
        case 16: return concatenate(t);
        case 17: return embedding();
        case 18: return norm(t);
        case 19: return unary(t);
        case 20:
        case 21: return binary(t);
        case 22: return choice(t);
        case 23: return chance(50) ? along(t) : pool(t);
        case 24: return gathered(t);
        default: return reshard(t);
        }
    }

    std::string program()
    {
        line("graph drawn");
        line("size b=4");
        line(str("mesh x=", x_, " y=", y_));
        std::vector<i64> shape{0};
        const i64 rank = 1 + below(3);
        for (i64 d = 0; d < rank; ++d)
            shape.push_back(extent());
        line(str("input %in : ", type(shape), annotation(shape, true)));
        ids_ = extent();
        line(str("input %ids : i32[b,", ids_, "]", annotation({0, ids_}, true)));
        add({"%in", shape});
        product(live_[0]);
        const i64 ops = 4 + below(chance(20) ? 30 : 10);
        for (i64 i = 0; i < ops; ++i) {
            if (chance(30))
                line(str("@ forward block ", blocks_++, " part"));
            step();
        }
        // The loss: of what nothing reads, so that it depends on each parameter
        std::string loss;
        std::vector<Tensor> last;
        for (const Tensor& t : live_)
            if (text_.find(t.name + ",") == std::string::npos &&
                text_.find(t.name + ")") == std::string::npos)
                last.push_back(t);
        for (std::size_t i = 0; i < last.size(); ++i) {
            const Tensor& t = last[i];
            std::string dims;
            for (std::size_t d = 0; d < t.shape.size(); ++d)
                dims += str(d ? " " : "", d);
            const std::string square = emit(str("multiply(", t.name, ", ", t.name, ")"), t.shape);
            const std::string sum = last.size() == 1 ? "%loss" : fresh("l");
            line(str(sum, " = reduce(", square, ") {combine=\"sum\", dims=\"", dims, "\"} : f32[]"));
            const std::string total = i + 1 == last.size() ? "%loss" : fresh("l");
            if (i > 0)
                line(str(total, " = add(", loss, ", ", sum, ") : f32[]"));
            loss = i > 0 ? total : sum;
        }
        line("output %loss");
        return text_;
    }
};

} // namespace

DrawnProgram drawn_program(u64 seed) { return Drawer(seed).run(seed); }

} // namespace trivium::grids
