// Marks what libplumb offers, for C and C++. All else in the shared library is hidden, so that a
// process may hold other code of the same names. A static library must not add to the interface of
// whatever it is linked into: its build, and plumb::plumb and plumb.pc with it, define PLUMB_API
// as nothing.
#ifndef PLUMB_API
#define PLUMB_API __attribute__((visibility("default")))
#endif
