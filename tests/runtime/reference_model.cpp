#include "reference_model.hpp"

#include <cmath>

namespace reference {

namespace {

const double pi = std::acos(-1.0);

/// y[n, out] = x[n, in] w[in, out]
Vector product(const Vector& x, const Vector& w, int in, int out)
{
    const int n = static_cast<int>(x.size()) / in;
    Vector y(static_cast<std::size_t>(n * out), 0.0);
    for (int i = 0; i < n; ++i)
        for (int o = 0; o < out; ++o)
            for (int k = 0; k < in; ++k)
                y[i * out + o] += x[i * in + k] * w[k * out + o];
    return y;
}

/// Adds to dw and returns dx.
Vector product_backward(const Vector& dy, const Vector& x, const Vector& w, int in, int out, Vector& dw)
{
    const int n = static_cast<int>(x.size()) / in;
    Vector dx(x.size(), 0.0);
    for (int i = 0; i < n; ++i)
        for (int k = 0; k < in; ++k)
            for (int o = 0; o < out; ++o) {
                dx[i * in + k] += dy[i * out + o] * w[k * out + o];
                dw[k * out + o] += dy[i * out + o] * x[i * in + k];
            }
    return dx;
}

void add_to(Vector& a, const Vector& b)
{
    for (std::size_t i = 0; i < a.size(); ++i)
        a[i] += b[i];
}

/// One sequence through one model.
class Sequence {
public:
    Sequence(const Model& model, const Tensors& parameters, const std::int32_t* tokens,
             const std::int32_t* targets, Tensors& gradients, std::int64_t sample)
        : m(model), p(parameters), g(gradients), tokens_(tokens), targets_(targets), sample_(sample)
    {
    }

    Vector logits;
    double loss = 0, count = 0;

    void forward()
    {
        x_.assign(size(m.seq * m.dim), 0.0);
        for (int s = 0; s < m.seq; ++s)
            for (int d = 0; d < m.dim; ++d) {
                x_[s * m.dim + d] = at("embed.weight")[tokens_[s] * m.dim + d];
                if (!m.llama)
                    x_[s * m.dim + d] += at("positions.weight")[s * m.dim + d];
            }
        drop(x_, 0);
        layers_.resize(size(m.layers));
        for (int l = 0; l < m.layers; ++l)
            layer_forward(l, layers_[l]);
        last_ = x_;
        normed_ = norm("final_norm", last_);
        const Vector& table = at(m.tied ? "embed.weight" : "head.weight");
        logits.assign(size(m.seq * m.vocab), 0.0);
        for (int s = 0; s < m.seq; ++s)
            for (int v = 0; v < m.vocab; ++v)
                for (int d = 0; d < m.dim; ++d)
                    logits[s * m.vocab + v] += normed_[s * m.dim + d] * table[v * m.dim + d];
    }

    void backward()
    {
        Vector dlogits(logits.size(), 0.0);
        for (int s = 0; s < m.seq; ++s) {
            if (targets_[s] < 0)
                continue;
            const double* row = &logits[s * m.vocab];
            double sum = 0;
            for (int v = 0; v < m.vocab; ++v)
                sum += std::exp(row[v]);
            const double lse = std::log(sum);
            loss += m.z_loss * lse * lse;
            count += 1;
            for (int v = 0; v < m.vocab; ++v) {
                const double q = (v == targets_[s] ? 1 - m.smoothing : 0) + m.smoothing / m.vocab;
                loss += q * (lse - row[v]);
                dlogits[s * m.vocab + v] = std::exp(row[v]) / sum * (1 + 2 * m.z_loss * lse) - q;
            }
        }
        const std::string table = m.tied ? "embed.weight" : "head.weight";
        Vector dnormed(normed_.size(), 0.0);
        for (int s = 0; s < m.seq; ++s)
            for (int v = 0; v < m.vocab; ++v)
                for (int d = 0; d < m.dim; ++d) {
                    dnormed[s * m.dim + d] += dlogits[s * m.vocab + v] * at(table)[v * m.dim + d];
                    g[table][v * m.dim + d] += dlogits[s * m.vocab + v] * normed_[s * m.dim + d];
                }
        Vector dx = norm_backward("final_norm", last_, dnormed);
        for (int l = m.layers - 1; l >= 0; --l)
            dx = layer_backward(l, layers_[l], dx);
        drop(dx, 0);
        for (int s = 0; s < m.seq; ++s)
            for (int d = 0; d < m.dim; ++d) {
                g["embed.weight"][tokens_[s] * m.dim + d] += dx[s * m.dim + d];
                if (!m.llama)
                    g["positions.weight"][s * m.dim + d] += dx[s * m.dim + d];
            }
    }

private:
    struct Layer {
        Vector x, a, q, k, v, prob,
            o; ///< block input, normed, queries, keys, values, probabilities, heads' output
        Vector y, b, gate, up, h; ///< input of the feed-forward half, normed, its hidden values
    };

    /// Dropout, and its gradient.
    void drop(Vector& x, int place) const
    {
        if (m.dropout > 0)
            for (int s = 0; s < m.seq; ++s)
                for (int d = 0; d < m.dim; ++d)
                    x[s * m.dim + d] *= m.keeps(place, sample_, s, d) ? 1 / (1 - m.dropout) : 0;
    }

    static std::size_t size(int n) { return static_cast<std::size_t>(n); }
    const Vector& at(const std::string& name) const { return p.at(name); }

    Vector linear(const std::string& name, const Vector& x, int in, int out) const
    {
        Vector y = product(x, at(name + ".weight"), in, out);
        if (!m.llama)
            for (std::size_t i = 0; i < y.size(); ++i)
                y[i] += at(name + ".bias")[i % size(out)];
        return y;
    }

    Vector linear_backward(const std::string& name, const Vector& dy, const Vector& x, int in, int out)
    {
        if (!m.llama)
            for (std::size_t i = 0; i < dy.size(); ++i)
                g[name + ".bias"][i % size(out)] += dy[i];
        return product_backward(dy, x, at(name + ".weight"), in, out, g[name + ".weight"]);
    }

    /// Mean (0 for RMSNorm) and reciprocal deviation of one row.
    void statistics(const double* row, double& mean, double& rstd) const
    {
        mean = 0;
        double square = 0;
        if (!m.llama)
            for (int d = 0; d < m.dim; ++d)
                mean += row[d] / m.dim;
        for (int d = 0; d < m.dim; ++d)
            square += (row[d] - mean) * (row[d] - mean) / m.dim;
        rstd = 1 / std::sqrt(square + m.eps);
    }

    Vector norm(const std::string& name, const Vector& x) const
    {
        Vector y(x.size());
        for (int s = 0; s < m.seq; ++s) {
            double mean, rstd;
            statistics(&x[s * m.dim], mean, rstd);
            for (int d = 0; d < m.dim; ++d)
                y[s * m.dim + d] = (x[s * m.dim + d] - mean) * rstd * at(name + ".weight")[d] +
                                   (m.llama ? 0 : at(name + ".bias")[d]);
        }
        return y;
    }

    /// With n = (x - mean) rstd and u = dy w: dx_j = rstd (u_j - [LayerNorm] mean(u) - n_j mean(u n)).
    Vector norm_backward(const std::string& name, const Vector& x, const Vector& dy)
    {
        Vector dx(x.size());
        for (int s = 0; s < m.seq; ++s) {
            double mean, rstd, u_mean = 0, un_mean = 0;
            statistics(&x[s * m.dim], mean, rstd);
            for (int d = 0; d < m.dim; ++d) {
                const double n = (x[s * m.dim + d] - mean) * rstd, up = dy[s * m.dim + d];
                g[name + ".weight"][d] += up * n;
                if (!m.llama)
                    g[name + ".bias"][d] += up;
                u_mean += up * at(name + ".weight")[d] / m.dim;
                un_mean += up * at(name + ".weight")[d] * n / m.dim;
            }
            for (int d = 0; d < m.dim; ++d)
                dx[s * m.dim + d] =
                    rstd * (dy[s * m.dim + d] * at(name + ".weight")[d] - (m.llama ? 0 : u_mean) -
                            (x[s * m.dim + d] - mean) * rstd * un_mean);
        }
        return dx;
    }

    /// Llama 3.1's frequencies: long wavelengths are stretched by `factor`, short ones unchanged, with
    /// interpolation between.
    double frequency(int i) const
    {
        const double plain = 1 / std::pow(m.theta, 2.0 * i / m.head_dim()), wave = 2 * pi / plain;
        if (m.factor == 1 || wave < m.original_seq / m.high_freq_factor)
            return plain;
        if (wave > m.original_seq / m.low_freq_factor)
            return plain / m.factor;
        const double smooth =
            (m.original_seq / wave - m.low_freq_factor) / (m.high_freq_factor - m.low_freq_factor);
        return (1 - smooth) * plain / m.factor + smooth * plain;
    }

    /// Rotates each pair (i, i + e/2) of each head by position times frequency; `sign` -1 rotates back.
    void rotate(Vector& x, int heads, double sign) const
    {
        const int e = m.head_dim(), half = e / 2;
        for (int s = 0; s < m.seq; ++s)
            for (int h = 0; h < heads; ++h)
                for (int i = 0; i < half; ++i) {
                    double &a = x[(s * heads + h) * e + i], &b = x[(s * heads + h) * e + i + half];
                    const double c = std::cos(s * frequency(i)), n = sign * std::sin(s * frequency(i));
                    const double turned = a * c - b * n;
                    b = a * n + b * c;
                    a = turned;
                }
    }

    void attention_forward(Layer& l) const
    {
        const int e = m.head_dim(), group = m.heads / m.kv_heads;
        l.prob.assign(size(m.heads * m.seq * m.seq), 0.0);
        l.o.assign(size(m.seq * m.heads * e), 0.0);
        for (int h = 0; h < m.heads; ++h)
            for (int s = 0; s < m.seq; ++s) {
                double* prob = &l.prob[(h * m.seq + s) * m.seq];
                double sum = 0;
                for (int t = 0; t <= s; ++t) {
                    double score = 0;
                    for (int i = 0; i < e; ++i)
                        score += l.q[(s * m.heads + h) * e + i] * l.k[(t * m.kv_heads + h / group) * e + i];
                    prob[t] = std::exp(score / std::sqrt(double(e)));
                    sum += prob[t];
                }
                for (int t = 0; t <= s; ++t) {
                    prob[t] /= sum;
                    for (int i = 0; i < e; ++i)
                        l.o[(s * m.heads + h) * e + i] += prob[t] * l.v[(t * m.kv_heads + h / group) * e + i];
                }
            }
    }

    void attention_backward(const Layer& l, const Vector& d_o, Vector& dq, Vector& dk, Vector& dv) const
    {
        const int e = m.head_dim(), group = m.heads / m.kv_heads;
        dq.assign(l.q.size(), 0.0);
        dk.assign(l.k.size(), 0.0);
        dv.assign(l.v.size(), 0.0);
        for (int h = 0; h < m.heads; ++h)
            for (int s = 0; s < m.seq; ++s) {
                const double* prob = &l.prob[(h * m.seq + s) * m.seq];
                Vector dprob(size(m.seq), 0.0);
                double inner = 0;
                for (int t = 0; t <= s; ++t) {
                    for (int i = 0; i < e; ++i) {
                        const double d = d_o[(s * m.heads + h) * e + i];
                        dprob[t] += d * l.v[(t * m.kv_heads + h / group) * e + i];
                        dv[(t * m.kv_heads + h / group) * e + i] += d * prob[t];
                    }
                    inner += prob[t] * dprob[t];
                }
                for (int t = 0; t <= s; ++t)
                    for (int i = 0; i < e; ++i) {
                        const double dscore = prob[t] * (dprob[t] - inner) / std::sqrt(double(e));
                        dq[(s * m.heads + h) * e + i] += dscore * l.k[(t * m.kv_heads + h / group) * e + i];
                        dk[(t * m.kv_heads + h / group) * e + i] += dscore * l.q[(s * m.heads + h) * e + i];
                    }
            }
    }

    static double gelu_inner(double x) { return std::sqrt(2 / pi) * (x + 0.044715 * x * x * x); }

    void layer_forward(int number, Layer& l)
    {
        const std::string scope = "layers." + std::to_string(number);
        const int d = m.dim, kv = m.kv_heads * m.head_dim();
        l.x = x_;
        l.a = norm(scope + ".attn_norm", l.x);
        l.q = linear(scope + ".attn.q", l.a, d, d);
        l.k = linear(scope + ".attn.k", l.a, d, kv);
        l.v = linear(scope + ".attn.v", l.a, d, kv);
        if (m.llama) {
            rotate(l.q, m.heads, 1);
            rotate(l.k, m.kv_heads, 1);
        }
        attention_forward(l);
        Vector branch = linear(scope + ".attn.o", l.o, d, d);
        drop(branch, 2 * number + 2);
        add_to(x_, branch);
        l.y = x_;
        l.b = norm(scope + ".ffn_norm", l.y);
        l.up = linear(scope + ".ffn.up", l.b, d, m.ffn);
        l.h.resize(l.up.size());
        if (m.llama) {
            l.gate = linear(scope + ".ffn.gate", l.b, d, m.ffn);
            for (std::size_t i = 0; i < l.h.size(); ++i)
                l.h[i] = l.gate[i] / (1 + std::exp(-l.gate[i])) * l.up[i];
        } else {
            for (std::size_t i = 0; i < l.h.size(); ++i)
                l.h[i] = 0.5 * l.up[i] * (1 + std::tanh(gelu_inner(l.up[i])));
        }
        branch = linear(scope + ".ffn.down", l.h, m.ffn, d);
        drop(branch, 2 * number + 3);
        add_to(x_, branch);
    }

    Vector layer_backward(int number, const Layer& l, const Vector& dout)
    {
        const std::string scope = "layers." + std::to_string(number);
        const int d = m.dim, kv = m.kv_heads * m.head_dim();
        Vector branch = dout;
        drop(branch, 2 * number + 3);
        const Vector dh = linear_backward(scope + ".ffn.down", branch, l.h, m.ffn, d);
        Vector dup(dh.size()), dgate(dh.size());
        for (std::size_t i = 0; i < dh.size(); ++i) {
            if (m.llama) {
                const double sig = 1 / (1 + std::exp(-l.gate[i]));
                dup[i] = dh[i] * l.gate[i] * sig;
                dgate[i] = dh[i] * l.up[i] * (sig + l.gate[i] * sig * (1 - sig));
            } else {
                const double x = l.up[i], t = std::tanh(gelu_inner(x));
                dup[i] = dh[i] * (0.5 * (1 + t) +
                                  0.5 * x * (1 - t * t) * std::sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x));
            }
        }
        Vector db = linear_backward(scope + ".ffn.up", dup, l.b, d, m.ffn);
        if (m.llama)
            add_to(db, linear_backward(scope + ".ffn.gate", dgate, l.b, d, m.ffn));
        Vector dy = norm_backward(scope + ".ffn_norm", l.y, db);
        add_to(dy, dout);

        branch = dy;
        drop(branch, 2 * number + 2);
        Vector dq, dk, dv;
        attention_backward(l, linear_backward(scope + ".attn.o", branch, l.o, d, d), dq, dk, dv);
        if (m.llama) {
            rotate(dq, m.heads, -1);
            rotate(dk, m.kv_heads, -1);
        }
        Vector da = linear_backward(scope + ".attn.q", dq, l.a, d, d);
        add_to(da, linear_backward(scope + ".attn.k", dk, l.a, d, kv));
        add_to(da, linear_backward(scope + ".attn.v", dv, l.a, d, kv));
        Vector dx = norm_backward(scope + ".attn_norm", l.x, da);
        add_to(dx, dy);
        return dx;
    }

    const Model& m;
    const Tensors& p;
    Tensors& g;
    const std::int32_t *tokens_, *targets_;
    std::int64_t sample_;
    Vector x_, last_, normed_;
    std::vector<Layer> layers_;
};

} // namespace

std::map<std::string, std::size_t> parameter_sizes(const Model& m)
{
    std::map<std::string, std::size_t> sizes;
    const auto add = [&](const std::string& name, int n) { sizes[name] = static_cast<std::size_t>(n); };
    const auto norm = [&](const std::string& name) {
        add(name + ".weight", m.dim);
        if (!m.llama)
            add(name + ".bias", m.dim);
    };
    const auto linear = [&](const std::string& name, int in, int out) {
        add(name + ".weight", in * out);
        if (!m.llama)
            add(name + ".bias", out);
    };
    add("embed.weight", m.vocab * m.dim);
    if (!m.tied)
        add("head.weight", m.vocab * m.dim);
    if (!m.llama)
        add("positions.weight", m.seq * m.dim);
    norm("final_norm");
    for (int l = 0; l < m.layers; ++l) {
        const std::string scope = "layers." + std::to_string(l);
        norm(scope + ".attn_norm");
        norm(scope + ".ffn_norm");
        linear(scope + ".attn.q", m.dim, m.dim);
        linear(scope + ".attn.k", m.dim, m.kv_heads * m.head_dim());
        linear(scope + ".attn.v", m.dim, m.kv_heads * m.head_dim());
        linear(scope + ".attn.o", m.dim, m.dim);
        linear(scope + ".ffn.up", m.dim, m.ffn);
        linear(scope + ".ffn.down", m.ffn, m.dim);
        if (m.llama)
            linear(scope + ".ffn.gate", m.dim, m.ffn);
    }
    return sizes;
}

Result run(const Model& model, const Tensors& parameters, const Ids& tokens, const Ids& targets,
           std::int64_t first)
{
    Result result;
    for (const auto& [name, count] : parameter_sizes(model))
        result.gradients[name].assign(count, 0.0);
    const std::size_t seq = static_cast<std::size_t>(model.seq);
    for (std::size_t row = 0; row * seq < tokens.size(); ++row) {
        Sequence sequence(model, parameters, &tokens[row * seq], &targets[row * seq], result.gradients,
                          first + static_cast<std::int64_t>(row));
        sequence.forward();
        sequence.backward();
        result.loss_sum += sequence.loss;
        result.tokens += sequence.count;
        result.logits.insert(result.logits.end(), sequence.logits.begin(), sequence.logits.end());
    }
    return result;
}

} // namespace reference
