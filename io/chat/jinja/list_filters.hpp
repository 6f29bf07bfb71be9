#pragma once
// Filters of lists and dicts.
#include "io/chat/jinja/evaluator.hpp"

#include <map>

namespace trivium::jinja {

const std::map<std::string, Filter, std::less<>>& list_filters();

} // namespace trivium::jinja
