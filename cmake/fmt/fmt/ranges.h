#pragma once
#include_next <fmt/ranges.h>
#include "format.h"
