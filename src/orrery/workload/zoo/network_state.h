#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "orrery/workload/zoo/network.h"
#include "orrery/workload/zoo/tape.h"

namespace orrery {

/// What a `Network` holds; shared by its files alone.
struct Network::State {
  State(std::string format_, std::string name_, NetworkOptions options_)
      : format(std::move(format_)), name(std::move(name_)), options(std::move(options_)) {}

  std::string format;
  std::string name;
  NetworkOptions options;
  std::vector<std::string> notes;
  Tape main{"main"};
  /// Every function but main, by name.
  std::map<std::string, std::unique_ptr<Tape>, std::less<>> functions;
  Tape* current = &main;
  std::vector<std::string> scopes;  ///< Of the function being recorded.
  std::string module;               ///< What operations are recorded as parts of; empty: none.
  int64_t modules = 0;              ///< There were so far.
  /// The tensor that training starts from and the loss's gradient in it.
  Tensor objective, objective_gradient;

  std::string scoped(std::string_view leaf) const;
  Tape& add_function(std::string name);
  const TensorType& type(const Tensor& t) const { return current->type(current->index(t)); }
};

/// Makes another function (and scope) the one being recorded while it lives.
class Recording {
 public:
  Recording(Network::State& state, Tape& tape, std::vector<std::string> scopes);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  Network::State& state_;
  Tape* tape_;  ///< With `scopes_`: what was recorded before.
  std::vector<std::string> scopes_;
};

}  // namespace orrery
