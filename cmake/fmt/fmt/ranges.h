#pragma once
#include "format.h"
#include_next <fmt/ranges.h>
