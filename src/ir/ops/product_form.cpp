#include "ir/ops/product_form.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace trivium {

namespace {

bool has(const FactorList& dims, int f) { return std::find(dims.begin(), dims.end(), f) != dims.end(); }

FactorList chosen(const FactorList& from, const std::vector<FactorList>& in,
                  const std::vector<FactorList>& out)
{
    FactorList group;
    for (const int f : from)
        if (std::all_of(in.begin(), in.end(), [&](const FactorList& d) { return has(d, f); }) &&
            std::none_of(out.begin(), out.end(), [&](const FactorList& d) { return has(d, f); }))
            group.push_back(f);
    return group;
}

FactorList joined(const FactorList& a, const FactorList& b, const FactorList& c)
{
    FactorList all = a;
    all.insert(all.end(), b.begin(), b.end());
    all.insert(all.end(), c.begin(), c.end());
    return all;
}

} // namespace

std::optional<ProductForm> find_product_form(const FactorRule& rule)
{
    TRV_CHECK(rule.operands.size() >= 2 && !rule.results.empty(), "not a product");
    const FactorList &a = rule.operands[0], &b = rule.operands[1], &c = rule.results[0];
    const FactorList batch = chosen(c, {a, b}, {}), m = chosen(c, {a}, {b}), n = chosen(c, {b}, {a}),
                     k = chosen(a, {b}, {c});
    if (batch.size() + m.size() + k.size() != a.size() || batch.size() + n.size() + k.size() != b.size() ||
        batch.size() + m.size() + n.size() != c.size())
        return {}; // a factor occurs in only one operand
    const auto extent = [&](const FactorList& group) { return element_count(rule.shape_of(group)); };
    ProductForm form{extent(batch), extent(m), extent(n), extent(k)};
    // A group of extent 1 or no factors makes both orders equal; prefer the plain one.
    const auto lies = [&](const FactorList& dims, const FactorList& x, const FactorList& y) {
        return dims == joined(batch, x, y);
    };
    form.trans_a = !lies(a, m, k);
    form.trans_b = !lies(b, k, n);
    if ((form.trans_a && !lies(a, k, m)) || (form.trans_b && !lies(b, n, k)))
        return {}; // an operand mixes its groups of factors
    if (!lies(c, m, n)) {
        if (!lies(c, n, m))
            return {}; // the result mixes its groups of factors
        // C' = B' A'
        std::swap(form.m, form.n);
        const bool a_transposed = form.trans_a;
        form.trans_a = !form.trans_b;
        form.trans_b = !a_transposed;
        form.swapped = true;
    }
    return form;
}

} // namespace trivium
