#include "testing/fuzz/seed_mutation.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace muonshard::testing {
namespace {

size_t Below(size_t limit, SeededRandom& random) {
  return static_cast<size_t>(random.Below(limit));
}

// Where lengths, signs and types end.
uint64_t Border(SeededRandom& random) {
  const uint64_t power = uint64_t{1} << random.Below(64);
  return power + random.Below(3) - 1;
}

std::string SomeRun(const std::string& text, SeededRandom& random) {
  const size_t start = Below(text.size() + 1, random);
  return text.substr(start, Below(text.size() - start + 1, random));
}

// Writes a number of 1, 2, 4 or 8 bytes, lowest first or highest first.
void WriteNumber(std::string& text, SeededRandom& random) {
  const size_t bytes = size_t{1} << random.Below(4);
  if (text.size() < bytes) return;
  const size_t start = Below(text.size() - bytes + 1, random);
  const uint64_t number = Border(random);
  const bool lowest_first = random.OneIn(2);
  for (size_t i = 0; i < bytes; ++i) {
    const size_t place = start + (lowest_first ? i : bytes - 1 - i);
    text[place] = static_cast<char>((number >> (8 * i)) & 0xff);
  }
}

void MutateOnce(std::string& text, const std::vector<std::string>& seeds,
                SeededRandom& random) {
  const size_t place = Below(text.size() + 1, random);
  switch (random.Below(7)) {
    case 0:
      if (place == text.size()) return;
      text[place] = static_cast<char>(text[place] ^ (1 << random.Below(8)));
      return;
    case 1:
      if (place == text.size()) return;
      text[place] = static_cast<char>(random.Below(256));
      return;
    case 2:
      WriteNumber(text, random);
      return;
    case 3:
      text.erase(place, Below(text.size() - place + 1, random));
      return;
    case 4:
      text.insert(place, SomeRun(text, random));
      return;
    case 5:
      text.insert(place, SomeRun(random.Pick(seeds), random));
      return;
    default:
      text.insert(place, 1, static_cast<char>(random.Below(256)));
      return;
  }
}

}  // namespace

std::string MutateOneOf(const std::vector<std::string>& seeds, size_t bytes_max,
                        SeededRandom& random) {
  std::string text = random.Pick(seeds);
  for (uint64_t left = 1 + random.Below(8); left > 0; --left) {
    MutateOnce(text, seeds, random);
  }
  text.resize(std::min(text.size(), bytes_max));
  return text;
}

}  // namespace muonshard::testing
