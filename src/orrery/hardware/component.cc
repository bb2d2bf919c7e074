#include "orrery/hardware/component.h"

#include <algorithm>
#include <utility>

namespace orrery {
namespace {

/// "memory.l2.capacity" is {"memory.l2", "capacity"}; "memory" is {"", "memory"}.
std::pair<std::string_view, std::string_view> split_last(std::string_view path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return {{}, path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

template <class Named>
bool erase_named(std::vector<Named>& list, std::string_view name) {
  return std::erase_if(list, [&](const Named& item) { return item.name == name; }) > 0;
}

}  // namespace

const Component* Component::part(std::string_view path) const {
  if (path.empty()) return this;
  const size_t dot = path.find('.');
  for (const Component& p : parts) {
    if (p.name != path.substr(0, dot)) continue;
    return dot == std::string_view::npos ? &p : p.part(path.substr(dot + 1));
  }
  return nullptr;
}

const Figure* Component::figure(std::string_view path) const {
  const auto [owner, last] = split_last(path);
  const Component* component = part(owner);
  if (component == nullptr) return nullptr;
  for (const Figure& f : component->figures)
    if (f.name == last) return &f;
  return nullptr;
}

double Component::value(std::string_view path) const {
  const Figure* found = figure(path);
  return found != nullptr ? found->value : 0;
}

Component& Component::make_part(std::string_view path) {
  if (path.empty()) return *this;
  const size_t dot = path.find('.');
  const std::string_view first = path.substr(0, dot);
  auto at =
      std::find_if(parts.begin(), parts.end(), [&](const Component& p) { return p.name == first; });
  if (at == parts.end()) at = parts.insert(at, Component{std::string(first), {}, {}, {}});
  return dot == std::string_view::npos ? *at : at->make_part(path.substr(dot + 1));
}

void Component::set_figure(std::string_view path, Figure figure) {
  const auto [owner, last] = split_last(path);
  Component& component = make_part(owner);
  figure.name = std::string(last);
  erase_named(component.figures, last);
  component.figures.push_back(std::move(figure));
}

bool Component::remove(std::string_view path) {
  const auto [owner, last] = split_last(path);
  if (part(owner) == nullptr) return false;
  Component& component = make_part(owner);
  const bool was_figure = erase_named(component.figures, last);
  return erase_named(component.parts, last) || was_figure;
}

}  // namespace orrery
