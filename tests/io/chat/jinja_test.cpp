#include "catch.hpp"
#include "io/chat/jinja/template.hpp"
using namespace trivium;
TEST_CASE("x") {}
