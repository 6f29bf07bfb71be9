#pragma once
// The syntax of GPU vendors (CUDA, HIP, NCCL and their libraries) is confined to vendor folders: another
// vendor adds a folder and changes no other file.
#include "source_text.hpp"

#include <set>

namespace trivium::structure {

struct VendorToken {
    std::size_t line; ///< from 1
    std::string token;

    bool operator==(const VendorToken&) const = default;
};

/// A file outside the vendor folders that may contain `tokens`.
struct VendorExemption {
    std::string path;
    std::set<std::string> tokens;
    std::string reason;
};

/// Whether a folder of `path` is called cuda, hip or nccl.
bool in_vendor_folder(std::string_view path);

/// Kernel launches, identifiers, PTX and includes of a vendor, each once per line; comments and literals do
/// not count. Empty for files in vendor folders. Names in lower case such as nccl_description are ours.
std::vector<VendorToken> vendor_syntax(const SourceFile& file);

/// The vendor syntax of `files` without that of `exemptions`; also exempt tokens that no file contains, so
/// that the list stays minimal.
Findings check_vendor_syntax(const std::vector<SourceFile>& files,
                             const std::vector<VendorExemption>& exemptions);

} // namespace trivium::structure
