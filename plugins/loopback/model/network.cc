#include "plugins/loopback/model/network.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

namespace muonshard::loopback {
namespace {

// More ranks than any cluster has, and few enough that all sums fit.
constexpr int32_t kRanksMax = 1 << 20;

Outcome Refused(const std::string& text) {
  return {.code = MUONSHARD_E_ARGUMENT, .text = "loopback network: " + text};
}

// The parts of `text` between runs of `separators`, none of them empty.
std::vector<std::string> Split(const std::string& text,
                               const char* separators) {
  std::vector<std::string> parts;
  size_t begin = text.find_first_not_of(separators);
  while (begin != std::string::npos) {
    const size_t end = text.find_first_of(separators, begin);
    parts.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(separators, end);
  }
  return parts;
}

// All of `text` as a number.
template <typename Number>
bool Parse(const std::string& text, Number* number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && rest == end;
}

// A key of a statement: what its value may be, and how it is read.
struct Key {
  const char* name;
  const char* wanted;
  std::function<bool(const std::string& value)> read;
};

Key Whole(const char* name, int32_t min, const char* wanted, int32_t* field) {
  return {name, wanted, [=](const std::string& value) {
            return Parse(value, field) && *field >= min && *field <= kRanksMax;
          }};
}

Key Real(const char* name, double min, const char* wanted, double* field) {
  return {name, wanted, [=](const std::string& value) {
            return Parse(value, field) && std::isfinite(*field) &&
                   *field >= min;
          }};
}

bool ReadAlgorithm(const std::string& name, Algorithm* algorithm) {
  const std::map<std::string, Algorithm> algorithms = {
      {"auto", Algorithm::kAuto},
      {"ring", Algorithm::kRing},
      {"halving", Algorithm::kHalving},
      {"direct", Algorithm::kDirect}};
  const auto found = algorithms.find(name);
  if (found == algorithms.end()) return false;
  *algorithm = found->second;
  return true;
}

std::string KnownKeys(const std::vector<Key>& keys) {
  std::string text;
  for (const Key& key : keys) {
    text += (text.empty() ? "" : ", ") + std::string(key.name);
  }
  return text;
}

// Reads each word of `words` as NAME=VALUE of one of `keys`. `given` gets the
// names.
Outcome ReadKeys(const std::vector<std::string>& words,
                 const std::vector<Key>& keys,
                 std::map<std::string, bool>* given) {
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const Key* found = nullptr;
    for (const Key& key : keys) {
      if (name == key.name) found = &key;
    }
    if (found == nullptr) {
      return Refused("no key " + Quoted(name) + "; known: " + KnownKeys(keys));
    }
    const std::string value =
        equals == std::string::npos ? "" : word.substr(equals + 1);
    if (!found->read(value)) {
      return Refused(name + " wants " + found->wanted + ", got " +
                     Quoted(value));
    }
    if (!given->emplace(name, true).second) {
      return Refused(name + " is given twice");
    }
  }
  return {};
}

Outcome ReadSlowRank(std::vector<std::string> words, Network* network) {
  words.erase(words.begin());
  Network::SlowRank slow{.rank = -1, .factor = 0};
  std::map<std::string, bool> given;
  const std::vector<Key> keys = {
      Whole("rank", 0, "a rank", &slow.rank),
      Real("factor", 1, "a number of at least 1", &slow.factor)};
  if (Outcome bad = ReadKeys(words, keys, &given); !bad.ok()) return bad;
  for (const Key& key : keys) {
    if (!given.contains(key.name)) {
      return Refused("slow wants " + std::string(key.name) + "=, " +
                     key.wanted);
    }
  }
  network->slow.push_back(slow);
  return {};
}

Outcome Check(const Network& network,
              const std::map<std::string, bool>& given) {
  for (const char* name : {"hosts", "lanes"}) {
    if (!given.contains(name))
      return Refused("want " + std::string(name) + "=");
  }
  if (network.hosts > kRanksMax / network.lanes) {
    return Refused("want at most " + std::to_string(kRanksMax) +
                   " ranks, got " + std::to_string(network.hosts) +
                   " hosts of " + std::to_string(network.lanes) + " lanes");
  }
  if (given.contains("rack_hosts") != given.contains("uplink_gbps")) {
    return Refused("want rack_hosts= and uplink_gbps= together");
  }
  for (size_t i = 0; i < network.slow.size(); ++i) {
    const int32_t rank = network.slow[i].rank;
    if (rank >= network.ranks()) {
      return Refused("slow rank " + std::to_string(rank) + " is not one of " +
                     std::to_string(network.ranks()));
    }
    for (size_t j = 0; j < i; ++j) {
      if (network.slow[j].rank != rank) continue;
      return Refused("rank " + std::to_string(rank) + " is slow twice");
    }
  }
  return {};
}

}  // namespace

Outcome ReadNetwork(const std::string& text, Network* network) {
  constexpr const char* kRate = "a positive number of gbps";
  constexpr const char* kTime = "a number of nanoseconds";
  constexpr double kRateMin = 1e-6;
  const std::vector<Key> keys = {
      Whole("hosts", 1, "a whole number of at least 1", &network->hosts),
      Whole("lanes", 1, "a whole number of at least 1", &network->lanes),
      Whole("rack_hosts", 1, "a whole number of at least 1",
            &network->rack_hosts),
      Real("alpha_ns", 0, kTime, &network->alpha_ns),
      Real("lane_alpha_ns", 0, kTime, &network->lane_alpha_ns),
      Real("lane_gbps", kRateMin, kRate, &network->lane_gbps),
      Real("nic_gbps", kRateMin, kRate, &network->nic_gbps),
      Real("uplink_gbps", kRateMin, kRate, &network->uplink_gbps),
      Real("gamma_gbps", kRateMin, kRate, &network->gamma_gbps),
      {"algorithm", "one of auto, ring, halving, direct",
       [network](const std::string& value) {
         return ReadAlgorithm(value, &network->algorithm);
       }}};
  std::map<std::string, bool> given;
  for (const std::string& statement : Split(text, ";")) {
    const std::vector<std::string> words = Split(statement, " \t\n");
    const Outcome bad = !words.empty() && words[0] == "slow"
                            ? ReadSlowRank(words, network)
                            : ReadKeys(words, keys, &given);
    if (!bad.ok()) return bad;
  }
  return Check(*network, given);
}

}  // namespace muonshard::loopback
