#pragma once
#include_next <fmt/chrono.h>
#include "format.h"
