#pragma once
// The text of a drawn program while it grows.
#include "base/check.hpp"
#include "grid/drawn_program.hpp"

#include <algorithm>
#include <random>

namespace trivium::grids {

struct Tensor {
    std::string name;
    std::vector<i64> shape; ///< 0: the samples
};

/// Random numbers, the mesh, annotations, and the statements so far.
class ProgramDraft {
public:
    explicit ProgramDraft(u64 seed) : random_(seed) {}

protected:
    i64 below(i64 n) { return static_cast<i64>(random_() % static_cast<u64>(n)); }
    bool chance(int percent) { return below(100) < percent; }
    template <class T>
    T pick(const std::vector<T>& from)
    {
        return from[static_cast<std::size_t>(below(static_cast<i64>(from.size())))];
    }
    i64 extent() { return 2 + below(5); }

    void mesh()
    {
        constexpr i64 most = 8;
        do {
            x_ = pick(std::vector<i64>{1, 2, 2, 3, 4});
            y_ = pick(std::vector<i64>{1, 2, 2, 3});
            data_ = pick(std::vector<i64>{1, 1, 2, 4});
            pipeline_ = pick(std::vector<i64>{1, 1, 2, 3, 4});
        } while (x_ * y_ * data_ * pipeline_ > most || x_ * y_ * data_ * pipeline_ == 1 ||
                 (x_ * data_) % 8 == 0);
        batch_over_x_ = chance(50);
        over_samples_ = chance(15) && pipeline_ == 1;
    }

    /// " <…>" for a value, often empty.
    std::string annotation(const std::vector<i64>& shape, bool input = false)
    {
        const bool batch_x = batch_over_x_ && std::ranges::count(shape, 0) > 0;
        if (!input && !chance(25))
            return "";
        std::vector<std::string> dims(shape.size());
        bool x = batch_x && (input || chance(70)), y = false; // in use
        for (std::size_t d = 0; d < shape.size(); ++d) {
            std::string& dim = dims[d];
            if (shape[d] == 0) {
                dim = batch_x && x ? "x" : input ? "-" : chance(50) ? "-" : "?";
                continue;
            }
            const bool take_x = !x && !batch_x && shape[d] >= x_ && chance(35);
            const bool take_y = !y && shape[d] >= (take_x ? x_ * y_ : y_) && chance(45);
            x |= take_x;
            y |= take_y;
            dim = take_x && take_y ? (chance(50) ? "x+y" : "y+x") : take_x ? "x" : take_y ? "y" : "";
            if (x_ == 4 && dim == "x" && chance(40)) // a part of it, or both, the other major
                dim = chance(50) ? "x:(1)2" : shape[d] >= 4 && chance(50) ? "x:(2)2+x:(1)2" : "x:(2)2";
            if (dim.empty())
                dim = chance(50) ? "-" : "?";
            else if (chance(20))
                dim += "?";
        }
        std::string text = " <";
        for (const std::string& dim : dims)
            text += (text.size() > 2 ? "," : "") + dim;
        return text + ">";
    }

    static std::string number(i64 n) { return n == 0 ? "b" : str(n); }
    static std::string list(const std::vector<i64>& shape)
    {
        std::string text;
        for (const i64 n : shape)
            text += (text.empty() ? "" : " ") + number(n);
        return text;
    }
    static std::string type(const std::vector<i64>& shape, const std::string& element = "f32")
    {
        std::string text = element + "[";
        for (const i64 n : shape)
            text += (text.back() == '[' ? "" : ",") + number(n);
        return text + "]";
    }

    std::string fresh(const std::string& what) { return str("%", what, ++names_); }
    void line(const std::string& text) { text_ += text + "\n"; }

    std::string emit(const std::string& call, const std::vector<i64>& shape, bool annotate = true)
    {
        const std::string name = fresh("v");
        line(str(name, " = ", call, " : ", type(shape), annotate ? annotation(shape) : ""));
        return name;
    }

    std::string parameter(const std::vector<i64>& shape, double std = 0.4)
    {
        for (const Tensor& known : parameters_)
            if (known.shape == shape && chance(40))
                return known.name;
        const std::string name = fresh("p");
        parameters_.push_back({name, shape});
        line(str("parameter ", name, " : ", type(shape), annotation(shape), " init normal(std=", std, ")",
                 chance(50) ? " decay" : ""));
        return name;
    }

    void add(Tensor t) { live_.push_back(std::move(t)); }

    /// A tensor to read, mostly a late one.
    Tensor tensor()
    {
        const i64 n = static_cast<i64>(live_.size());
        return live_[static_cast<std::size_t>(chance(75) ? n - 1 : below(n))];
    }

    /// A dimension other than the samples; -1: none.
    int dim_of(const Tensor& t)
    {
        std::vector<int> dims;
        for (std::size_t d = 0; d < t.shape.size(); ++d)
            if (t.shape[d] > 0)
                dims.push_back(static_cast<int>(d));
        return dims.empty() ? -1 : pick(dims);
    }

    static i64 elements(const Tensor& t)
    {
        i64 n = 1;
        for (const i64 e : t.shape)
            n *= std::max<i64>(e, 1);
        return n;
    }

    static std::string letters(std::size_t n)
    {
        std::string text;
        for (std::size_t i = 0; i < n; ++i)
            text += str(i ? " " : "", static_cast<char>('a' + i));
        return text;
    }

    void tamed(const std::string& name, const std::vector<i64>& shape)
    {
        add({emit(str(pick(std::vector<std::string>{"tanh", "tanh", "sigmoid", "sin"}), "(", name, ")"),
                  shape),
             shape});
    }

    /// The rest of `shape` without dimension d; and the numbers of its dimensions within.
    static std::pair<std::vector<i64>, std::string> without(const std::vector<i64>& shape, std::size_t d)
    {
        std::vector<i64> rest;
        std::string dims;
        for (std::size_t i = 0; i < shape.size(); ++i)
            if (i != d) {
                rest.push_back(shape[i]);
                dims += str(dims.empty() ? "" : " ", i);
            }
        return {rest, dims};
    }

    void options(ParallelConfig& p)
    {
        if (p.pipeline > 1) {
            std::vector<std::string> schedules{"1f1b", "gpipe", "zb-h1", "zb-h2"};
            if (blocks_ >= 2 * p.pipeline)
                for (const char* other :
                     {"interleaved", "breadth-first", "zb-v", "v-half", "v-min", "dualpipe-v"})
                    schedules.emplace_back(other);
            p.schedule = pick(schedules);
        }
        if (p.zero > 0 && data_ == 4 && chance(30))
            p.shard = 2;
        if (p.zero == 3) {
            p.gather_every = pick(std::vector{GatherEvery::automatic, GatherEvery::pass,
                                              GatherEvery::microbatch, GatherEvery::step});
            p.tile = chance(20) ? 100 : 0;
        }
        if (p.zero >= 2)
            p.reduce_every =
                pick(std::vector{ReduceEvery::automatic, ReduceEvery::microbatch, ReduceEvery::step});
        if (p.recompute != Recompute::none && chance(30))
            p.recompute_layers = 1 + below(blocks_);
        p.offload = chance(15) ? Offload::optimizer : Offload::none;
        p.group = chance(20);
        p.overlap = chance(80);
        p.bucket = pick(std::vector<std::string>{"auto", "none", "block", "greedy", "global", "64"});
    }

    std::mt19937_64 random_;
    i64 x_ = 1, y_ = 1, data_ = 1, pipeline_ = 1, blocks_ = 1, ids_ = 2;
    bool batch_over_x_ = false, over_samples_ = false;
    int names_ = 0;
    std::string text_;
    std::vector<Tensor> live_, parameters_;
};

} // namespace trivium::grids
