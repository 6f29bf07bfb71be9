#include "broken_header.hpp"
