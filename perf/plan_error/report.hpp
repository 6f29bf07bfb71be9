#pragma once
// Tables of errors.
#include "rows.hpp"

#include <string>
#include <vector>

namespace trivium {

/// A row with its simulated step.
struct Simulated {
    Row row;
    Seconds planned = 0;
    double left_out =
        0; ///< relative error with constants that were found without the row's source; 0: not tried
    double error() const { return planned / row.measured - 1; }
};

/// Of the absolute values; 0 without any.
double median_of(std::vector<double> errors);
double worst_of(const std::vector<double>& errors);
/// The relative errors of the rows on `machine`; all rows if it is empty.
std::vector<double> errors_on(const std::string& machine, const std::vector<Simulated>& rows);

/// Pairs of rows of one group whose steps are in another order than measured: "a < b", the measured order.
struct Order {
    int pairs = 0;
    std::vector<std::string> wrong;
};
Order order_of(const std::vector<Simulated>& rows);

/// The table as text, or as Markdown.
std::string table_of(const std::vector<Simulated>& rows, bool markdown);

} // namespace trivium
