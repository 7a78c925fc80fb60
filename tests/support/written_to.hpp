// What a standard stream gets while something runs.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

namespace plumb_test {

template <class Work>
std::string written_to(std::FILE* stream, Work&& work) {
  std::fflush(stream);
  std::FILE* capture = std::tmpfile();
  const int descriptor = fileno(stream), saved = dup(descriptor);
  dup2(fileno(capture), descriptor);
  work();
  std::fflush(stream);
  dup2(saved, descriptor);
  close(saved);
  std::rewind(capture);
  std::string text;
  for (int c; (c = std::fgetc(capture)) != EOF;) text += static_cast<char>(c);
  std::fclose(capture);
  return text;
}

}  // namespace plumb_test
