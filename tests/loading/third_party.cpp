// A library that a module brings: its static constructor takes memory, and throws where there is
// none.
#include <vector>

static std::vector<char> taken(48 << 10);
