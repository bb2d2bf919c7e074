#pragma once

#include <cstdint>
#include <vector>

#include "orrery/serving/kv_cache.h"
#include "orrery/serving/request.h"

namespace orrery {

/// A request inside an engine.
struct Sequence {
  enum class State : uint8_t { kActive, kEnded };

  uint32_t id = 0;  ///< Of its record; in order of arrival.
  uint32_t tag = 0;
  int32_t prompt = 0;
  int32_t output = 0;
  int32_t computed = 0;  ///< Tokens whose keys and values are there.
  int32_t generated = 0;
  /// Tokens whose keys and values another engine sent or, with blocks to hold them, the host did.
  int32_t received = 0;
  int32_t priority = 0;
  uint32_t adapter = 0;
  KvKeys keys;
  KvHolding holding;
  Seconds last_token;      ///< When it reached the user.
  uint32_t admission = 0;  ///< Counts up when it is thrown out.
  uint16_t rank = 0;
  State state = State::kActive;
  bool in_flight = false;  ///< In a step that has not ended.
  bool scheduled = false;  ///< Has been in a step.
  bool prefill_only = false;

  /// Tokens known of it.
  int32_t tokens() const { return prompt + generated; }
  /// Tokens that must be computed before it gets its next one.
  int32_t pending() const { return tokens() - computed; }
  /// Whether its next step gives the next token after another.
  bool decoding() const { return generated > 0 && pending() == 1; }
};

/// The sequences of an engine, in slots that are used again.
class SequenceTable {
 public:
  Sequence& operator[](uint32_t slot) { return sequences_[slot]; }
  const Sequence& operator[](uint32_t slot) const { return sequences_[slot]; }
  uint32_t add(const Sequence& sequence) {
    ++size_;
    if (unused_.empty()) {
      sequences_.push_back(sequence);
      return static_cast<uint32_t>(sequences_.size() - 1);
    }
    const uint32_t slot = unused_.back();
    unused_.pop_back();
    sequences_[slot] = sequence;
    return slot;
  }
  void remove(uint32_t slot) {
    --size_;
    unused_.push_back(slot);
  }
  size_t size() const { return size_; }

 private:
  std::vector<Sequence> sequences_;
  std::vector<uint32_t> unused_;
  size_t size_ = 0;
};

}  // namespace orrery
