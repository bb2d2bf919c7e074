#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/base/error.h"

namespace orrery {

/// One figure of a device, as its file states it.
struct Figure {
  std::string name;      ///< "capacity"
  std::string text;      ///< As written: "50 MiB".
  double value = 0;      ///< In the SI base unit of its dimension; 0 for words.
  std::string source;    ///< The citation in full.
  SourceLocation where;  ///< In the file that states it.
};

/// A part of a machine (compute units, a memory level, a link) with its figures
/// and its own parts. Paths join names by dots: "memory.l2.capacity".
struct Component {
  std::string name;      ///< "" for the whole device.
  SourceLocation where;  ///< Where its file opens it.
  std::vector<Figure> figures;
  std::vector<Component> parts;

  const Component* part(std::string_view path) const;
  const Figure* figure(std::string_view path) const;
  /// 0 where there is no such figure.
  double value(std::string_view path) const;

  /// The part at `path`, made with all on the way to it where absent.
  Component& make_part(std::string_view path);
  /// Adds the figure at `path`, or replaces it.
  void set_figure(std::string_view path, Figure figure);
  /// Takes away the figure or the part at `path`; false where there is none.
  bool remove(std::string_view path);
};

/// A device's file with all it inherits.
struct DeviceTree {
  std::string name;                            ///< The file's name without ".yaml".
  std::map<std::string, std::string> words;    ///< "title", "kind", "vendor" …
  std::map<std::string, std::string> sources;  ///< Citations by key.
  Component root;
};

}  // namespace orrery
