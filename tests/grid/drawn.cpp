#include "grid/drawn.hpp"

#include "base/check.hpp"

#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>

namespace trivium::grids {

std::vector<Case> drawn_cases()
{
    const std::vector<Case>& covering = covering_cases(false);
    std::map<i64, int> drawn; // by ranks
    std::vector<Case> cases;
    for (std::size_t i = 0; i < covering.size(); ++i) {
        const Case& c = covering[i * 104729 % covering.size()]; // neighbours are similar
        const i64 ranks = c.ranks();
        const bool wanted = ranks == 1 || ranks == 2 || ranks == 4 || ranks == 8;
        const auto kinds = [&](const Case& other) {
            return other.precision == c.precision && other.parallel.reduce == c.parallel.reduce &&
                   other.parallel.accumulate == c.parallel.accumulate && other.ranks() == ranks;
        };
        if (wanted && drawn[ranks] < 3 && std::none_of(cases.begin(), cases.end(), kinds)) {
            ++drawn[ranks];
            cases.push_back(c);
            if (c.precision == Precision::bf16) { // a head size that tensor cores support
                Case& wide = cases.back();
                wide.model.dim = 64 * wide.model.heads;
                wide.model.seq = 40;
                wide.steps = 10;
                wide.spread = 0.03;
            }
        }
    }
    return cases;
}

double drawn_tolerance(const Case& c)
{
    return c.precision == Precision::bf16 || c.parallel.reduce == GradientType::bf16 ? 2e-2 : 1e-4;
}

namespace {

/// Whether updates wait changes no bit.
std::string text_of(Case c)
{
    c.parallel.update = UpdateMode::synchronous;
    return c.text();
}

} // namespace

std::string losses_line(const Case& c, const std::vector<double>& losses)
{
    std::ostringstream line;
    line << text_of(c) << ":" << std::setprecision(9);
    for (const double loss : losses)
        line << " " << loss;
    return line.str() + "\n";
}

std::vector<double> kept_losses(const Case& c)
{
    const std::string text = text_of(c) + ":";
    const char* const elsewhere = std::getenv("TRIVIUM_TEST_DATA"); // of an archive (perf/gpu-check)
    std::ifstream in(std::string(elsewhere ? elsewhere : TRIVIUM_TEST_DATA) + "/golden/losses.txt");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with(text)) {
            std::istringstream numbers(line.substr(text.size()));
            std::vector<double> losses;
            for (double loss = 0; numbers >> loss;)
                losses.push_back(loss);
            return losses;
        }
    throw InternalError(__FILE__, __LINE__, "tests/golden/losses.txt has no losses of " + c.text());
}

} // namespace trivium::grids
