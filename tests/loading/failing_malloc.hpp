// A malloc that fails when it is told to, and a dlopen() that knows of itself: for the one program
// that includes this, which exports both to the libraries that it opens (ENABLE_EXPORTS).
#pragma once

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

namespace failing {

constexpr long never = -1;

/// Which allocations are counted, and fail.
enum class Which {
  all_but_third_parties,  ///< see fails()
  loaders,                ///< what the dynamic loader asks for inside dlopen()
  bytes,                  ///< all but OpenMP's, where there are not so many bytes left
};

/// Of this thread.
thread_local long left =
    never;  ///< how many allocations still succeed, or how many bytes there are
thread_local bool for_good = false;
thread_local bool has_failed = false;
thread_local Which which = Which::all_but_third_parties;
thread_local int inside_dlopen = 0;

/// Of the process.
inline int dlopens = 0;              ///< calls
inline int own_in_constructors = 0;  ///< allocations by Plumb's static constructors
inline bool spares_third_parties = false;

struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool has(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return at >= begin && at < end;
  }
};
inline Range openmp, loader;

inline int find_libraries(dl_phdr_info* info, std::size_t, void*) {
  const auto is = [&](const char* name) { return std::strstr(info->dlpi_name, name) != nullptr; };
  Range* const range = is("libgomp") || is("libomp") ? &openmp
                       : is("/ld-linux")             ? &loader
                                                     : nullptr;
  for (int i = 0; range && i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const std::uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (range->begin == 0) range->begin = begin;
    range->end = begin + info->dlpi_phdr[i].p_memsz;
  }
  return 0;
}

/// Before anything fails: what may be asked for later takes its memory here.
inline void prepare() {
  dl_iterate_phdr(find_libraries, nullptr);
  void* frame = nullptr;
  backtrace(&frame, 1);
}

/// Whether code of Plumb's asks for the memory: with `any` from anywhere below the loader's own
/// frames, otherwise by the nearest call that is not the loader's.
inline bool is_plumbs(bool any) {
  std::array<void*, 64> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  bool loader_seen = false;
  for (void* const frame : std::span(frames).first(static_cast<std::size_t>(count))) {
    if (loader.has(frame)) {
      if (any) return false;  // below a constructor
      loader_seen = true;
      continue;
    }
    Dl_info info{};
    if (!any && !loader_seen) continue;  // this program's malloc
    if (dladdr(frame, &info) == 0 || !info.dli_fname) continue;
    const char* const slash = std::strrchr(info.dli_fname, '/');
    const bool plumbs = std::strncmp(slash ? slash + 1 : info.dli_fname, "libplumb", 8) == 0;
    if (plumbs || !any) return plumbs;
  }
  return false;
}

/// What asks for memory and cannot be helped from here never fails: OpenMP's runtime, which ends
/// the process (docs/embedding.md says so); where third parties are spared, also the constructors
/// of the libraries that a module brings, the loader, and the loader's thread-local storage for
/// them (docs/never_falls_over.md).
inline bool is_spared(const void* caller) {
  if (openmp.has(caller)) return true;
  if (which == Which::loaders) return inside_dlopen == 0 || !loader.has(caller);
  if (!spares_third_parties) return false;
  if (inside_dlopen == 0) return loader.has(caller) && !is_plumbs(false);
  if (!loader.has(caller) && is_plumbs(true)) ++own_in_constructors;
  return true;
}

/// Where bytes are counted: `data` was given to the caller, or given back.
inline void count(void* data, int sign) {
  if (data && left != never && which == Which::bytes)
    left = std::max(left + sign * static_cast<long>(malloc_usable_size(data)), 0L);
}

inline void* taken(void* data) {
  count(data, -1);
  return data;
}

inline bool fails(const void* caller, std::size_t bytes) {
  if (left == never) return false;
  if (which == Which::bytes) {
    if (openmp.has(caller) || bytes < static_cast<std::size_t>(left)) return false;
    has_failed = true;
    errno = ENOMEM;
    return true;
  }
  const long counted = left;
  left = never;  // what is asked here may allocate
  const bool spared = is_spared(caller);
  left = counted;
  if (spared) return false;
  if (left > 0) {
    --left;
    return false;
  }
  if (has_failed && !for_good) return false;
  has_failed = true;
  errno = ENOMEM;
  return true;
}

}  // namespace failing

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void __libc_free(void*);

#define FAILS(bytes) failing::fails(__builtin_return_address(0), bytes)

void* malloc(std::size_t bytes) {
  return FAILS(bytes) ? nullptr : failing::taken(__libc_malloc(bytes));
}
void* calloc(std::size_t count, std::size_t bytes) {
  return FAILS(count * bytes) ? nullptr : failing::taken(__libc_calloc(count, bytes));
}
void* realloc(void* data, std::size_t bytes) {
  if (FAILS(bytes)) return nullptr;
  failing::count(data, 1);
  return failing::taken(__libc_realloc(data, bytes));
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return FAILS(bytes) ? nullptr : failing::taken(__libc_memalign(alignment, bytes));
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return FAILS(bytes) ? nullptr : failing::taken(__libc_memalign(alignment, bytes));
}
int posix_memalign(void** data, std::size_t alignment, std::size_t bytes) {
  if (FAILS(bytes)) return ENOMEM;
  *data = failing::taken(__libc_memalign(alignment, bytes));
  return *data ? 0 : ENOMEM;
}
void free(void* data) {
  failing::count(data, 1);
  __libc_free(data);
}

#undef FAILS

void* dlopen(const char* file, int mode) noexcept {
  using Function = void*(const char*, int);
  static Function* const real = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "dlopen"));
  ++failing::dlopens;
  ++failing::inside_dlopen;
  void* const library = real(file, mode);
  --failing::inside_dlopen;
  return library;
}
}
