#pragma once
#include "format.h"
#include_next <fmt/chrono.h>
