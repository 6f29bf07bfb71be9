#pragma once
// Wrong on purpose: uses std::string without including it.
inline std::string forgotten() { return {}; }
