#include "reference_block.hpp"

#include "reference_number.hpp"

#include <algorithm>
#include <cmath>

namespace reference {

namespace {

using std::size_t;
using trivium::Activation, trivium::LayerKind, trivium::ModelConfig, trivium::Placement, trivium::RopeKind;

using Row = std::vector<Num>;
using Rows = std::vector<Row>; ///< by token

Num activate(Activation kind, Num x)
{
    switch (kind) {
    case Activation::silu: return x / (1 + exp(0 - x));
    case Activation::gelu: return 0.5 * x * (1 + erf(x * std::sqrt(0.5)));
    case Activation::gelu_tanh:
        return 0.5 * x * (1 + tanh(std::sqrt(4 / circle) * (x + 0.044715 * x * x * x)));
    case Activation::relu2: return x.value > 0 ? x * x : Num(0);
    case Activation::clipped: break;
    }
    return 0;
}

/// With a second product.
Num gated(Activation kind, Num gate, Num up)
{
    if (kind != Activation::clipped)
        return activate(kind, gate) * up;
    const Num g = gate.value < 7 ? gate : Num(7), u = up.value > 7 ? Num(7) : up.value < -7 ? Num(-7) : up;
    return g / (1 + exp(0 - 1.702 * g)) * (1 + u);
}

Num capped(Num x, double cap) { return cap > 0 ? cap * tanh(x / cap) : x; }

/// Radians per position of each pair that rotates, and the factor of their cosines and sines.
struct Angles {
    std::vector<double> frequency;
    double factor = 1;
};

Angles angles_of(const ModelConfig& m, bool sliding)
{
    const trivium::RopeScaling none;
    const auto& s = sliding && !m.scale_local ? none : m.rope_scaling;
    double theta = sliding && m.local_rope_theta > 0 ? m.local_rope_theta : m.rope_theta;
    const int n = m.kv_latent > 0 ? static_cast<int>(m.rope_head_dim)
                                  : static_cast<int>(static_cast<double>(m.head_dim) * m.rotary_part);
    const double f = s.factor, long_seq = static_cast<double>(m.seq),
                 short_seq = static_cast<double>(s.original_seq);
    if (s.kind == RopeKind::dynamic)
        theta *= std::pow(f * std::max(long_seq, short_seq) / short_seq - (f - 1), n / (n - 2.0));
    Angles made;
    for (int j = 0; j < n / 2; ++j) {
        double turn = std::pow(theta, -2.0 * j / n);
        const double wave = circle / turn;
        if (s.kind == RopeKind::linear)
            turn /= f;
        if (s.kind == RopeKind::longrope)
            turn /= (long_seq > short_seq ? s.long_factors : s.short_factors)[static_cast<size_t>(j)];
        if (s.kind == RopeKind::llama3 && wave > short_seq / s.low_freq_factor)
            turn /= f;
        else if (s.kind == RopeKind::llama3 && wave >= short_seq / s.high_freq_factor) {
            const double smooth =
                (short_seq / wave - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
            turn = (1 - smooth) * turn / f + smooth * turn;
        }
        if (s.kind == RopeKind::yarn) {
            const auto dimension = [&](double turns) {
                return n * std::log(short_seq / (turns * circle)) / (2 * std::log(theta));
            };
            double low = dimension(s.beta_fast), high = dimension(s.beta_slow);
            if (s.truncate) {
                low = std::floor(low);
                high = std::ceil(high);
            }
            low = std::max(low, 0.0);
            high = std::min(high, n - 1.0);
            if (low == high)
                high += 0.001;
            const double stretched = std::clamp((j - low) / (high - low), 0.0, 1.0);
            turn = turn * (1 - stretched) + turn / f * stretched;
        }
        made.frequency.push_back(turn);
    }
    if (s.kind == RopeKind::longrope && f > 1)
        made.factor = std::sqrt(1 + std::log(f) / std::log(short_seq));
    if (s.kind == RopeKind::yarn) {
        const auto scale = [&](double by) { return f > 1 ? 0.1 * by * std::log(f) + 1 : 1; };
        made.factor =
            s.mscale > 0 && s.mscale_all_dim > 0 ? scale(s.mscale) / scale(s.mscale_all_dim) : scale(1);
    }
    if (s.attention_factor > 0)
        made.factor = s.attention_factor;
    return made;
}

class Decoder {
public:
    Decoder(const ModelConfig& model, const std::map<std::string, Row>& parameters, size_t length,
            const RouterLosses& losses)
        : m(model), p(parameters), seq_(length), losses_(losses)
    {
    }

    Num router_loss; ///< of each token, after logits()
    Tensors loads;   ///< slots of each expert, by the name of the balance bias

    /// Logits by token.
    Rows logits(const std::int32_t* tokens)
    {
        const auto d = static_cast<size_t>(m.dim), v = static_cast<size_t>(m.vocab);
        Rows x(seq_, Row(d));
        const double scale =
            m.embedding_scale == 0 ? std::sqrt(static_cast<double>(m.dim)) : m.embedding_scale;
        for (size_t s = 0; s < seq_; ++s)
            for (size_t i = 0; i < d; ++i) {
                x[s][i] = p.at("embed.weight")[static_cast<size_t>(tokens[s]) * d + i] * scale;
                if (m.positions == trivium::Positions::learned)
                    x[s][i] = x[s][i] + p.at("positions.weight")[s * d + i];
            }
        for (size_t l = 0; l < static_cast<size_t>(m.layers); ++l)
            x = layer(l, x);
        x = norm("final_norm", x);
        const Row& table = p.at(m.tied_embeddings ? "embed.weight" : "head.weight");
        Rows y(seq_, Row(v));
        for (size_t s = 0; s < seq_; ++s)
            for (size_t o = 0; o < v; ++o) {
                for (size_t i = 0; i < d; ++i)
                    y[s][o] = y[s][o] + x[s][i] * table[o * d + i];
                y[s][o] = capped(y[s][o] / (m.logit_divisor * width), m.logit_cap);
            }
        return y;
    }

private:
    Rows layer(size_t number, const Rows& x)
    {
        const std::string scope = "layers." + std::to_string(number) + ".";
        const bool before = m.placement != Placement::post,
                   after = m.placement == Placement::post || m.placement == Placement::sandwich;
        const auto part = [&](const std::string& name, const Rows& in) {
            const Rows a = before ? norm(scope + name + "_norm", in) : in;
            const Rows b = name == "attn" ? attention(number, scope + "attn.", a)
                           : m.has_experts(static_cast<trivium::i64>(number))
                               ? mixture(scope + "ffn.", a)
                               : feed_forward(scope + "ffn.", a, m.ffn_bias);
            return after ? norm(scope + name + "_post_norm", b) : b;
        };
        const auto sum = [&](Rows a, const Rows& b) {
            for (size_t s = 0; s < seq_; ++s)
                for (size_t i = 0; i < a[s].size(); ++i)
                    a[s][i] = a[s][i] + m.residual_scale / depth * b[s][i];
            return a;
        };
        const Rows y = sum(x, part("attn", x));
        return sum(y, part("ffn", m.placement == Placement::parallel ? x : y));
    }

    Rows linear(const std::string& name, const Rows& x, bool bias) const
    {
        const Row& w = p.at(name + ".weight");
        const size_t in = x[0].size(), out = w.size() / in;
        Rows y(seq_, Row(out));
        for (size_t s = 0; s < seq_; ++s)
            for (size_t o = 0; o < out; ++o) {
                for (size_t i = 0; i < in; ++i)
                    y[s][o] = y[s][o] + x[s][i] * w[i * out + o];
                if (bias)
                    y[s][o] = y[s][o] + p.at(name + ".bias")[o];
            }
        return y;
    }

    /// Of the n numbers from x on.
    void rms(Num* x, size_t n, const Row& w, double eps) const
    {
        Num square;
        for (size_t i = 0; i < n; ++i)
            square = square + x[i] * x[i] / static_cast<double>(n);
        const Num root = sqrt(square + eps);
        for (size_t i = 0; i < n; ++i)
            x[i] = x[i] / root * (w[i] + (m.norm_offset ? 1 : 0));
    }

    Rows norm(const std::string& name, Rows x) const
    {
        const Row& w = p.at(name + ".weight");
        for (Row& row : x) {
            if (m.norm == trivium::NormKind::rms) {
                rms(row.data(), row.size(), w, m.norm_eps);
                continue;
            }
            const auto n = static_cast<double>(row.size());
            Num mean, square;
            for (const Num& v : row)
                mean = mean + v / n;
            for (const Num& v : row)
                square = square + (v - mean) * (v - mean) / n;
            const Num root = sqrt(square + m.norm_eps);
            for (size_t i = 0; i < row.size(); ++i)
                row[i] = (row[i] - mean) / root * w[i] + p.at(name + ".bias")[i];
        }
        return x;
    }

    void norm_heads(const std::string& name, Rows& x) const
    {
        if (m.qk_norm == trivium::QkNorm::none)
            return;
        const Row& w = p.at(name + ".weight");
        const size_t width =
            m.qk_norm == trivium::QkNorm::head ? static_cast<size_t>(m.head_dim) : x[0].size();
        for (Row& row : x)
            for (size_t i = 0; i < row.size(); i += width)
                rms(&row[i], width, w, m.norm_eps);
    }

    /// Heads of width e.
    void rotate(Rows& x, const Angles& angles, size_t e) const
    {
        const size_t pairs = angles.frequency.size();
        const bool half = m.rotary_layout == trivium::RotaryLayout::half;
        for (size_t s = 0; s < seq_; ++s)
            for (size_t head = 0; head < x[s].size(); head += e)
                for (size_t j = 0; j < pairs; ++j) {
                    Num &a = x[s][head + (half ? j : 2 * j)],
                        &b = x[s][head + (half ? j + pairs : 2 * j + 1)];
                    const double angle = static_cast<double>(s) * angles.frequency[j],
                                 c = angles.factor * std::cos(angle), n = angles.factor * std::sin(angle);
                    const Num turned = a * c - b * n;
                    b = a * n + b * c;
                    a = turned;
                }
    }

    LayerKind kind(size_t layer) const
    {
        if (!m.layer_pattern.empty())
            return m.layer_pattern[layer % m.layer_pattern.size()];
        return m.window > 0 ? LayerKind::sliding : m.chunk > 0 ? LayerKind::chunked : LayerKind::full;
    }

    Rows latent(const std::string& name, const Rows& x) const
    {
        Rows y = linear(name + "_down", x, m.qkv_bias);
        for (Row& row : y)
            rms(row.data(), row.size(), p.at(name + "_latent_norm.weight"),
                m.latent_norm_eps > 0 ? m.latent_norm_eps : m.norm_eps);
        return y;
    }

    Rows attention(size_t layer, const std::string& scope, const Rows& x) const
    {
        const auto e = static_cast<size_t>(m.head_dim), heads = static_cast<size_t>(m.heads),
                   keys = static_cast<size_t>(m.kv_heads), group = heads / keys;
        const bool latents = m.kv_latent > 0;
        const Rows of_kv = latents ? latent(scope + "kv", x) : x;
        Rows q = linear(scope + "q", latents && m.q_latent > 0 ? latent(scope + "q", x) : x,
                        m.qkv_bias && !latents),
             k = linear(scope + "k", of_kv, m.qkv_bias && !latents);
        const Rows v = linear(scope + "v", of_kv, m.qkv_bias && !latents);
        if (latents) { // each head's key begins with the shared one
            const Rows shared = linear(scope + "k_rope", x, m.qkv_bias);
            const size_t own = k[0].size() / keys;
            for (size_t s = 0; s < seq_; ++s) {
                Row joined;
                for (size_t g = 0; g < keys; ++g) {
                    joined.insert(joined.end(), shared[s].begin(), shared[s].end());
                    for (size_t i = 0; i < own; ++i)
                        joined.push_back(k[s][g * own + i]);
                }
                k[s] = joined;
            }
        }
        norm_heads(scope + "q_norm", q);
        norm_heads(scope + "k_norm", k);
        if (m.positions == trivium::Positions::rotary &&
            (m.rotary_pattern.empty() || m.rotary_pattern[layer % m.rotary_pattern.size()] == 1)) {
            const Angles angles = angles_of(m, kind(layer) == LayerKind::sliding);
            rotate(q, angles, e);
            rotate(k, angles, e);
        }
        const trivium::RopeScaling& s_ = m.rope_scaling;
        const double mscale = latents && s_.kind == RopeKind::yarn && s_.factor > 1
                                  ? 0.1 * s_.mscale_all_dim * std::log(s_.factor) + 1
                                  : 1;
        const double scale =
            m.attention_scale > 0 ? m.attention_scale : mscale * mscale / std::sqrt(static_cast<double>(e));
        const size_t u = v[0].size() / keys;
        Rows o(seq_, Row(heads * u));
        for (size_t s = 0; s < seq_; ++s)
            for (size_t h = 0; h < heads; ++h) {
                Row weight(seq_);
                Num sum = m.attention_sinks ? exp(p.at(scope + "sinks")[h]) : Num(0);
                const long own = static_cast<long>(s);
                const auto sees = [&](long t) {
                    return t <= own && (kind(layer) != LayerKind::sliding || t > own - m.window) &&
                           (kind(layer) != LayerKind::chunked || t / m.chunk == own / m.chunk);
                };
                for (size_t t = 0; t < seq_; ++t) {
                    if (!sees(static_cast<long>(t)))
                        continue;
                    Num score;
                    for (size_t i = 0; i < e; ++i)
                        score = score + q[s][h * e + i] * k[t][h / group * e + i];
                    weight[t] = exp(capped(score * scale, m.attention_cap));
                    sum = sum + weight[t];
                }
                for (size_t t = 0; t < seq_; ++t)
                    for (size_t i = 0; i < u && weight[t].at >= 0; ++i)
                        o[s][h * u + i] = o[s][h * u + i] + weight[t] / sum * v[t][h / group * u + i];
            }
        return linear(scope + "o", o, m.o_bias);
    }

    Rows feed_forward(const std::string& scope, const Rows& x, bool bias) const
    {
        Rows h = linear(scope + "up", x, bias);
        const Rows gate = m.gated ? linear(scope + "gate", x, bias) : h;
        for (size_t s = 0; s < seq_; ++s)
            for (size_t i = 0; i < h[s].size(); ++i)
                h[s][i] =
                    m.gated ? gated(m.activation, gate[s][i], h[s][i]) : activate(m.activation, h[s][i]);
        return linear(scope + "down", h, bias);
    }

    /// The n largest of `of`, the first of equal ones, among the indices in `from`.
    static std::vector<size_t> largest(const std::vector<double>& of, std::vector<size_t> from, size_t n)
    {
        std::stable_sort(from.begin(), from.end(), [&](size_t a, size_t b) { return of[a] > of[b]; });
        from.resize(n);
        return from;
    }

    /// The experts that a token with these scores goes to.
    std::vector<size_t> chosen(const Row& scores, const std::string& router) const
    {
        std::vector<double> choice;
        for (size_t e = 0; e < scores.size(); ++e)
            choice.push_back(scores[e].value + (m.balance_bias ? p.at(router + ".balance")[e].value : 0));
        const auto groups = static_cast<size_t>(m.router_groups), size = choice.size() / groups;
        std::vector<double> of_group;
        std::vector<size_t> all, from;
        for (size_t g = 0; g < groups; ++g) {
            std::vector<double> own(choice.begin() + static_cast<long>(g * size),
                                    choice.begin() + static_cast<long>((g + 1) * size));
            std::sort(own.rbegin(), own.rend());
            of_group.push_back(m.router_group_score == trivium::GroupScore::top2 && size > 1 ? own[0] + own[1]
                                                                                             : own[0]);
            all.push_back(g);
        }
        for (const size_t g : largest(of_group, all, static_cast<size_t>(m.router_top_groups)))
            for (size_t e = g * size; e < (g + 1) * size; ++e)
                from.push_back(e);
        std::sort(from.begin(), from.end());
        return largest(choice, from, static_cast<size_t>(m.expert_slots));
    }

    /// What expert e makes of a token.
    Row expert(const std::string& scope, size_t e, const Row& x) const
    {
        const auto product = [&](const char* name, const Row& in, size_t out) {
            const Row& w = p.at(scope + name + ".weight");
            Row y(out);
            for (size_t o = 0; o < out; ++o) {
                for (size_t i = 0; i < in.size(); ++i)
                    y[o] = y[o] + in[i] * w[(e * in.size() + i) * out + o];
                if (m.ffn_bias)
                    y[o] = y[o] + p.at(scope + name + ".bias")[e * out + o];
            }
            return y;
        };
        const auto width = static_cast<size_t>(m.expert_dim);
        Row h = product("up", x, width);
        const Row gate = m.gated ? product("gate", x, width) : h;
        for (size_t i = 0; i < width; ++i)
            h[i] = m.gated ? gated(m.activation, gate[i], h[i]) : activate(m.activation, h[i]);
        return product("down", h, x.size());
    }

    Rows mixture(const std::string& scope, const Rows& x)
    {
        const auto experts = static_cast<size_t>(m.experts);
        const Rows logits = linear(scope + "router", x, m.router_bias);
        const double most = std::ceil(m.expert_capacity * static_cast<double>(seq_) *
                                      static_cast<double>(m.expert_slots) / static_cast<double>(experts));
        Rows y(seq_, Row(x[0].size()));
        Row shares(experts); // of the scores, summed over tokens
        Num squares;
        std::vector<double> load(experts, 0.0);
        for (size_t s = 0; s < seq_; ++s) {
            Row scores = logits[s];
            Num exps, sum, weights;
            for (Num& score : scores) {
                exps = exps + exp(score);
                score =
                    m.router_scores == trivium::RouterScores::sigmoid ? 1 / (1 + exp(0 - score)) : exp(score);
                sum = sum + score;
            }
            for (size_t e = 0; e < experts; ++e) {
                shares[e] = shares[e] + scores[e] / sum;
                if (m.router_scores == trivium::RouterScores::softmax)
                    scores[e] = scores[e] / sum;
            }
            squares = squares + log(exps) * log(exps);
            const std::vector<size_t> slots = chosen(scores, scope + "router");
            for (const size_t e : slots)
                weights = weights + scores[e];
            for (const size_t e : slots) {
                load[e] += 1;
                if (m.expert_capacity > 0 && load[e] > most)
                    continue;
                const Row made = expert(scope + "experts.", e, x[s]);
                const Num weight = (m.router_normalised ? scores[e] / weights : scores[e]) * m.router_scale;
                for (size_t i = 0; i < made.size(); ++i)
                    y[s][i] = y[s][i] + weight * made[i];
            }
        }
        const auto tokens = static_cast<double>(seq_);
        for (size_t e = 0; e < experts; ++e)
            router_loss = router_loss + losses_.balance * static_cast<double>(m.experts) /
                                            (static_cast<double>(m.expert_slots) * tokens) * load[e] *
                                            shares[e] / tokens;
        router_loss = router_loss + losses_.z * squares / tokens;
        if (m.balance_bias)
            loads[scope + "router.balance"] = load;
        if (m.shared_dim > 0) {
            const Rows shared = feed_forward(scope + "shared.", x, false);
            for (size_t s = 0; s < seq_; ++s)
                for (size_t i = 0; i < y[s].size(); ++i)
                    y[s][i] = y[s][i] + shared[s][i];
        }
        return y;
    }

    const ModelConfig& m;
    const double width = m.base_dim > 0 ? double(m.dim) / double(m.base_dim) : 1,
                 depth = m.base_layers > 0 ? double(m.layers) / double(m.base_layers) : 1;
    const std::map<std::string, Row>& p;
    size_t seq_;
    RouterLosses losses_;
};

} // namespace

Result run(const trivium::ModelConfig& model, const Tensors& parameters, const Ids& tokens,
           const Ids& targets, std::size_t length, const RouterLosses& losses)
{
    Result result;
    for (const auto& [name, values] : parameters)
        result.gradients[name].assign(values.size(), 0.0);
    for (size_t first = 0; first < tokens.size(); first += length) {
        tape.clear();
        std::map<std::string, Row> variables;
        for (const auto& [name, values] : parameters)
            for (const double value : values)
                variables[name].push_back(Num::variable(value));
        Decoder decoder(model, variables, length, losses);
        const Rows logits = decoder.logits(&tokens[first]);
        Num loss;
        for (size_t s = 0; s < length; ++s) {
            for (const Num& logit : logits[s])
                result.logits.push_back(logit.value);
            const std::int32_t target = targets[first + s];
            if (target < 0)
                continue;
            Num sum;
            for (const Num& logit : logits[s])
                sum = sum + exp(logit);
            loss = loss + log(sum) - logits[s][static_cast<size_t>(target)] + decoder.router_loss;
            result.tokens += 1;
        }
        result.loss_sum += loss.value;
        std::vector<double> gradient(tape.size(), 0.0);
        if (loss.at >= 0)
            gradient[static_cast<size_t>(loss.at)] = 1;
        for (size_t i = tape.size(); i-- > 0;)
            for (const int operand : {0, 1})
                if (const int from = tape[i].from[operand]; from >= 0)
                    gradient[static_cast<size_t>(from)] += gradient[i] * tape[i].slope[operand];
        for (const auto& [name, row] : variables)
            for (size_t i = 0; i < row.size(); ++i)
                result.gradients[name][i] += gradient[static_cast<size_t>(row[i].at)];
        for (const auto& [name, load] : decoder.loads)
            for (size_t e = 0; e < load.size(); ++e)
                result.gradients[name][e] += load[e];
    }
    return result;
}

} // namespace reference
