#include "fit.hpp"

#include "base/check.hpp"
#include "io/files/key_file.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

double& number_of(const std::vector<KeyPlace>& keys, const std::string& name)
{
    for (const KeyPlace& key : keys)
        if (key.name == name)
            if (auto* const* number = std::get_if<double*>(&key.value))
                return **number;
    throw UserError({name, "a machine has no such key with a number", "", "see the keys of a machine file"});
}

/// Parts are from 0 to 1; other values are positive.
bool is_part(const std::string& name)
{
    return name.ends_with("efficiency") || name.ends_with("_share") || name.ends_with("_overlap") ||
           name == "stragglers";
}

/// The difference for a derivative, which is also the least change that is looked for.
double step_of(const std::string& name, double value)
{
    return name == "stragglers" ? 0.002 : is_part(name) ? 0.02 : std::max(0.1 * value, 1e-12);
}

using Matrix = std::vector<std::vector<double>>;

/// Solves A x = b by elimination with pivots; A is symmetric and positive.
std::vector<double> solved(Matrix a, std::vector<double> b)
{
    const std::size_t n = b.size();
    for (std::size_t i = 0; i < n; ++i) {
        std::size_t best = i;
        for (std::size_t r = i + 1; r < n; ++r)
            if (std::abs(a[r][i]) > std::abs(a[best][i]))
                best = r;
        std::swap(a[i], a[best]);
        std::swap(b[i], b[best]);
        for (std::size_t r = i + 1; r < n; ++r) {
            const double times = a[r][i] / a[i][i];
            for (std::size_t c = i; c < n; ++c)
                a[r][c] -= times * a[i][c];
            b[r] -= times * b[i];
        }
    }
    for (std::size_t i = n; i-- > 0;) {
        for (std::size_t c = i + 1; c < n; ++c)
            b[i] -= a[i][c] * b[c];
        b[i] /= a[i][i];
    }
    return b;
}

} // namespace

Constants constants_of(Machine machine, const std::vector<std::string>& names)
{
    Constants constants{names, {}};
    for (const std::string& name : names)
        constants.values.push_back(number_of(key_places(machine), name));
    return constants;
}

Machine with(Machine machine, const Constants& constants)
{
    for (std::size_t i = 0; i < constants.values.size(); ++i)
        number_of(key_places(machine), constants.names[i]) = constants.values[i];
    return machine;
}

std::vector<double> log_ratios(std::vector<CompiledRow>& rows, const Constants& constants)
{
    std::vector<double> all;
    for (CompiledRow& row : rows)
        all.push_back(std::log(simulate_row(row, with(row.machine, constants)) / row.row.measured));
    return all;
}

double objective(const std::vector<double>& errors)
{
    double sum = 0, most = 0;
    for (const double e : errors) {
        sum += e * e;
        most = std::max(most, e * e);
    }
    return sum / static_cast<double>(errors.size()) + most;
}

Constants fitted(std::vector<CompiledRow>& all, const std::vector<bool>& included, Constants constants)
{
    std::vector<CompiledRow> rows; // moved here and back: programs are large
    for (std::size_t i = 0; i < all.size(); ++i)
        if (included[i])
            rows.push_back(std::move(all[i]));
    const std::vector<std::string>& names = constants.names;
    std::vector<double> errors = log_ratios(rows, constants);
    double damping = 1e-3;
    for (bool better = true; better;) {
        double largest = 1e-9;
        for (const double e : errors)
            largest = std::max(largest, std::abs(e));
        Matrix slopes; // by key, then row: per step of the key
        for (std::size_t i = 0; i < names.size(); ++i) {
            Constants moved = constants;
            moved.values[i] += step_of(names[i], moved.values[i]);
            slopes.push_back(log_ratios(rows, moved));
            for (std::size_t r = 0; r < rows.size(); ++r)
                slopes.back()[r] -= errors[r];
        }
        better = false;
        for (int attempt = 0; attempt < 4 && !better; ++attempt, damping *= 100) {
            Matrix normal(names.size(), std::vector<double>(names.size(), 0));
            std::vector<double> right(names.size(), 0);
            for (std::size_t r = 0; r < rows.size(); ++r) { // larger errors weigh more
                const double weight = 1 + 3 * std::pow(errors[r] / largest, 4);
                for (std::size_t i = 0; i < names.size(); ++i) {
                    right[i] -= weight * slopes[i][r] * errors[r];
                    for (std::size_t j = 0; j < names.size(); ++j)
                        normal[i][j] += weight * slopes[i][r] * slopes[j][r];
                }
            }
            for (std::size_t i = 0; i < names.size(); ++i)
                normal[i][i] += damping * static_cast<double>(rows.size()) * 1e-4 + 1e-12;
            const std::vector<double> move = solved(normal, right);
            Constants next = constants;
            for (std::size_t i = 0; i < names.size(); ++i) {
                const double value = constants.values[i];
                const double least = is_part(names[i]) ? 0 : value / 3,
                             most = is_part(names[i]) ? 1 : 3 * value;
                next.values[i] = std::clamp(value + step_of(names[i], value) * move[i], least, most);
            }
            std::vector<double> found = log_ratios(rows, next);
            if (objective(found) < objective(errors) * (1 - 1e-3)) {
                better = true;
                constants = next;
                errors = std::move(found);
                damping /= 1000;
            }
        }
    }
    for (std::size_t i = 0, next = 0; i < all.size(); ++i)
        if (included[i])
            all[i] = std::move(rows[next++]);
    return constants;
}

} // namespace trivium
