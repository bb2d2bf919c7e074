#pragma once

#include "orrery/base/source.h"
#include "orrery/workload/chakra/node.h"

namespace orrery::chakra {

/// Reads a trace node by node: the file is mapped and never held, so that memory does not
/// grow with it. A file is a message GlobalMetadata, then Nodes, each behind its length.
///
///     Reader reader(source);
///     for (Node node; reader.next(node);) …
///
/// What is truncated or no such message throws `kInput` "FILE: byte OFFSET: …". A node may
/// have 1,000,000 dependencies and 10,000 attributes, a list 1,000,000 elements.
class Reader {
 public:
  /// Reads the metadata. `source` must outlive the reader.
  explicit Reader(const Source& source);
  /// From a node on whose offset is known; without metadata.
  Reader(const Source& source, size_t offset) : source_(&source), position_(offset) {}

  const Metadata& metadata() const { return metadata_; }
  /// The next node into `node`, whose memory it uses again; false at the end.
  bool next(Node& node);
  /// Where the node given last begins.
  size_t offset() const { return node_offset_; }
  /// Throws `kInput` at the node given last.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  std::string_view take_message();

  const Source* source_;
  size_t position_ = 0;
  size_t node_offset_ = 0;
  Metadata metadata_;
};

}  // namespace orrery::chakra
