#pragma once
// That every file includes what it uses, directly or through what it includes. Builds compile in batches,
// where a forgotten include goes unnoticed until the batches change.
#include "source_text.hpp"

namespace trivium::structure {

/// Names of the standard library (of those in a list) without their header, and types that one header of
/// `files` defines at namespace scope without that header. `places` are the folders that quoted includes
/// start from.
Findings check_self_contained(const std::vector<SourceFile>& files, const std::vector<std::string>& places);

} // namespace trivium::structure
