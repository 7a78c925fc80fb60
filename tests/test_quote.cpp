// Text from outside in messages: printable, valid UTF-8 and short, whatever was given.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "plumb/quote.hpp"

using plumb::quoted;
using namespace std::string_literals;

TEST_CASE("quoted: printable text stands as it is, between quotes") {
  CHECK(quoted("") == "''");
  CHECK(quoted("cuda:1") == "'cuda:1'");
  CHECK(quoted("größe 漢字 \U0001f600") == "'größe 漢字 \U0001f600'");
  CHECK(quoted(std::string(80, 'a')) == "'" + std::string(80, 'a') + "'");
}

TEST_CASE("quoted: what a terminal would act on is escaped") {
  CHECK(quoted("a\nb\r\tc\\") == "'a\\nb\\r\\tc\\\\'");
  CHECK(quoted("\x1b[2J\x7f"s) == "'\\x1b[2J\\x7f'");
  CHECK(quoted("a\0b"s) == "'a\\x00b'");
  CHECK(quoted("\u009b2J") == "'\\u009b2J'");  // CSI in one character
  CHECK(quoted("a\u202e\u2066b\u2028\u200f") == "'a\\u202e\\u2066b\\u2028\\u200f'");
}

TEST_CASE("quoted: bytes that are no UTF-8 are escaped one by one") {
  CHECK(quoted("\xff") == "'\\xff'");
  CHECK(quoted("\x80") == "'\\x80'");
  CHECK(quoted("a\xc3") == "'a\\xc3'");                           // cut off
  CHECK(quoted("\xc3(") == "'\\xc3('");                           // not continued
  CHECK(quoted("\xc0\xaf") == "'\\xc0\\xaf'");                    // '/' in two bytes
  CHECK(quoted("\xe0\x80\xaf") == "'\\xe0\\x80\\xaf'");           // and in three
  CHECK(quoted("\xed\xa0\x80") == "'\\xed\\xa0\\x80'");           // a surrogate
  CHECK(quoted("\xf4\x90\x80\x80") == "'\\xf4\\x90\\x80\\x80'");  // U+110000
  CHECK(quoted("\xf4\x8f\xbf\xbf") == "'\xf4\x8f\xbf\xbf'");      // U+10FFFF
}

TEST_CASE("quoted: long text is cut between characters, and its size is told") {
  CHECK(quoted("abcd", 3) == "'abc...' (the first 3 of 4 bytes)");
  CHECK(quoted("äöü", 2) == "'äö...' (the first 4 of 6 bytes)");
  CHECK(quoted(std::string(1'000'000, 'x')) ==
        "'" + std::string(80, 'x') + "...' (the first 80 of 1000000 bytes)");
  CHECK(quoted(std::string(1'000'000, '\1')).size() < 400);
  CHECK(quoted("x", 0) == "'...' (the first 0 of 1 bytes)");
}
