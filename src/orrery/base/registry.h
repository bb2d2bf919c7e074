#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/error.h"
#include "orrery/base/nearest.h"

namespace orrery {

/// One tunable number of a registered component, with the default it uses.
struct Parameter {
  std::string name;
  double default_value = 0;
  std::string meaning;    ///< With its unit and source.
  bool settable = false;  ///< By whoever asks, for one prediction.
};

/// What `orrery models` prints about a registered component.
struct Description {
  std::string name;
  std::string summary;  ///< One line, with the equation where there is one.
  std::string source;   ///< Paper, data sheet or documentation it follows.
  std::vector<Parameter> parameters;
};

/// All implementations of `Interface`, by name. A file adds its own with a
/// namespace-scope `Registration<Interface>`; the list is a function-local
/// static, so start-up order never matters, and is kept sorted by name so
/// that link order does not show.
template <class Interface>
class Registry {
 public:
  struct Entry {
    Description description;
    std::function<std::unique_ptr<Interface>()> create;
  };

  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  void add(Entry entry) {
    auto at = std::lower_bound(
        entries_.begin(), entries_.end(), entry.description.name,
        [](const Entry& e, const std::string& n) { return e.description.name < n; });
    entries_.insert(at, std::move(entry));
  }

  const std::vector<Entry>& entries() const { return entries_; }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Entry& entry : entries_) names.push_back(entry.description.name);
    return names;
  }

  /// The entry called `name`, or null.
  const Entry* find(std::string_view name) const {
    for (const Entry& entry : entries_)
      if (entry.description.name == name) return &entry;
    return nullptr;
  }

  /// The entry called `name`; throws `kUsage`, suggesting what was meant, when absent.
  /// `what` names the kind of component in that message, e.g. "kernel model".
  const Entry& at(std::string_view name, std::string_view what) const {
    if (const Entry* entry = find(name)) return *entry;
    throw_usage("unknown " + std::string(what) + " '" + std::string(name) + "'" +
                suggestion(name, names()));
  }

 private:
  std::vector<Entry> entries_;
};

template <class Interface>
struct Registration {
  Registration(Description description, std::function<std::unique_ptr<Interface>()> create) {
    Registry<Interface>::instance().add({std::move(description), std::move(create)});
  }
};

}  // namespace orrery
