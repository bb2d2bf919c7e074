#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "orrery/workload/workload.h"

namespace orrery::stablehlo {

/// A hash of short text, eight bytes a step; names and types are a few words long.
inline uint64_t hash_text(std::string_view text) {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15ULL;
  uint64_t hash = text.size() * kMultiplier;
  const char* p = text.data();
  size_t n = text.size();
  while (n >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, 8);
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 32;
    p += 8;
    n -= 8;
  }
  uint64_t word = 0;
  if (n > 0) std::memcpy(&word, p, n);
  hash = (hash ^ word) * kMultiplier;
  return hash ^ (hash >> 29);
}

/// Text to a 32-bit number, open addressing; keys point into the source. It is
/// the reader's hottest structure: std::unordered_map costs three times as much.
class TextMap {
 public:
  static constexpr uint32_t kMissing = UINT32_MAX;
  struct Slot {
    const char* key = nullptr;
    uint32_t length = 0;
    uint32_t value = kMissing;
    uint64_t hash = 0;
  };

  TextMap() : slots_(1024) {}

  /// The number of `key`, kMissing if it is new. Good until the next call.
  uint32_t& operator[](std::string_view key) {
    const uint64_t hash = hash_text(key);
    size_t i = hash & (slots_.size() - 1);
    while (slots_[i].key != nullptr) {
      if (matches(slots_[i], key, hash)) return slots_[i].value;
      i = (i + 1) & (slots_.size() - 1);
    }
    if (used_ * 2 >= slots_.size()) {
      grow();
      return (*this)[key];
    }
    ++used_;
    slots_[i] = {key.data(), static_cast<uint32_t>(key.size()), kMissing, hash};
    return slots_[i].value;
  }
  uint32_t find(std::string_view key) const {
    const uint64_t hash = hash_text(key);
    size_t i = hash & (slots_.size() - 1);
    while (slots_[i].key != nullptr) {
      if (matches(slots_[i], key, hash)) return slots_[i].value;
      i = (i + 1) & (slots_.size() - 1);
    }
    return kMissing;
  }

 private:
  static bool matches(const Slot& s, std::string_view key, uint64_t hash) {
    return s.hash == hash && s.length == key.size() &&
           std::memcmp(s.key, key.data(), key.size()) == 0;
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& s : old) {
      if (s.key == nullptr) continue;
      size_t i = s.hash & (slots_.size() - 1);
      while (slots_[i].key != nullptr) i = (i + 1) & (slots_.size() - 1);
      slots_[i] = s;
    }
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

/// What `%name` means in the scopes open now. MLIR forbids shadowing, so leaving
/// a scope forgets just the names it defined.
class NameTable {
 public:
  struct Definition {
    ValueId first;
    uint32_t count = 0;  ///< Of results, for %name#i; 0: not defined.
  };

  void enter() { scopes_.push_back(log_.size()); }
  void leave() {
    for (size_t i = scopes_.back(); i < log_.size(); ++i) definitions_[log_[i]].count = 0;
    log_.resize(scopes_.back());
    scopes_.pop_back();
  }
  /// False when the name is defined already.
  bool define(std::string_view name, ValueId first, uint32_t count) {
    uint32_t* index = index_of(name);
    if (*index == TextMap::kMissing) {
      *index = static_cast<uint32_t>(definitions_.size());
      definitions_.emplace_back();
    }
    Definition& d = definitions_[*index];
    if (d.count != 0) return false;
    d = {first, count};
    log_.push_back(*index);
    return true;
  }
  const Definition* find(std::string_view name) {
    const uint32_t index = *index_of(name);
    if (index == TextMap::kMissing || definitions_[index].count == 0) return nullptr;
    return &definitions_[index];
  }

 private:
  /// Numbers (%12) and arguments (%arg12) index a table directly: they are most
  /// of all names. Others are hashed.
  uint32_t* index_of(std::string_view name) {
    const bool argument = name.size() > 3 && std::memcmp(name.data(), "arg", 3) == 0;
    const std::string_view digits = argument ? name.substr(3) : name;
    if (digits.size() <= 6 && !digits.empty() && (digits[0] != '0' || digits.size() == 1)) {
      uint32_t number = 0;
      bool numeric = true;
      for (char c : digits) {
        const auto digit = static_cast<uint32_t>(c - '0');
        numeric = numeric && digit <= 9;
        number = number * 10 + digit;
      }
      if (numeric) {
        std::vector<uint32_t>& table = argument ? arguments_ : numbers_;
        if (number >= table.size()) table.resize(number + number / 2 + 16, TextMap::kMissing);
        return &table[number];
      }
    }
    return &names_[name];
  }

  std::vector<uint32_t> numbers_;
  std::vector<uint32_t> arguments_;
  TextMap names_;
  std::vector<Definition> definitions_;
  std::vector<uint32_t> log_;
  std::vector<size_t> scopes_;
};

}  // namespace orrery::stablehlo
