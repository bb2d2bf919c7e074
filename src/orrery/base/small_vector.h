#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <type_traits>

namespace orrery {

/// A vector of plain data whose first `kInside` elements need no allocation: a graph has tens of
/// thousands of short lists (the inputs of an operation, the readers of a value), and one
/// allocation for each would take longer than the work on them. Behaves as std::vector as far
/// as it goes.
template <class T, uint32_t kInside>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  static_assert(alignof(T) <= alignof(T*), "elements begin after two 32-bit numbers");

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SmallVector() = default;
  SmallVector(std::initializer_list<T> list) { append(list.begin(), list.end()); }
  template <class Iterator>
  SmallVector(Iterator first, Iterator last) {
    append(first, last);
  }
  explicit SmallVector(size_t count, T value = T()) { resize(count, value); }
  SmallVector(const SmallVector& other) { append(other.begin(), other.end()); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this == &other) return *this;
    release();
    take(other);
    return *this;
  }
  SmallVector& operator=(std::initializer_list<T> list) {
    assign(list.begin(), list.end());
    return *this;
  }
  ~SmallVector() { release(); }

  T* data() { return is_inside() ? storage_.inside : storage_.outside; }
  const T* data() const { return is_inside() ? storage_.inside : storage_.outside; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& front() { return data()[0]; }
  const T& front() const { return data()[0]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }

  void push_back(const T& value) {
    const T copy = value;  // it may lie in here
    if (size_ == capacity_) grow(size_t{size_} + 1);
    data()[size_++] = copy;
  }
  void pop_back() { --size_; }
  T* insert(T* at, const T& value) {
    const auto place = static_cast<size_t>(at - begin());
    push_back(value);
    std::rotate(begin() + place, end() - 1, end());
    return begin() + place;
  }
  /// `first` and `last` lie elsewhere.
  template <class Iterator>
  void append(Iterator first, Iterator last) {
    const auto count = static_cast<size_t>(std::distance(first, last));
    if (size_ + count > capacity_) grow(size_ + count);
    std::transform(first, last, end(), [](const auto& x) { return static_cast<T>(x); });
    size_ += static_cast<uint32_t>(count);
  }
  template <class Iterator>
  void assign(Iterator first, Iterator last) {
    clear();
    append(first, last);
  }
  void resize(size_t count, T value = T()) {
    if (count > capacity_) grow(count);
    if (count > size_) std::fill(end(), data() + count, value);
    size_ = static_cast<uint32_t>(count);
  }
  void clear() { size_ = 0; }
  T* erase(T* first, T* last) {
    const auto gone = static_cast<uint32_t>(last - first);
    std::copy(last, end(), first);
    size_ -= gone;
    return first;
  }
  T* erase(T* at) { return erase(at, at + 1); }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend auto operator<=>(const SmallVector& a, const SmallVector& b) {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  bool is_inside() const { return capacity_ == kInside; }
  void grow(size_t least) {
    const size_t capacity = std::max<size_t>(least, size_t{2} * capacity_);
    T* larger = std::allocator<T>().allocate(capacity);
    std::copy(begin(), end(), larger);
    release();
    storage_.outside = larger;
    capacity_ = static_cast<uint32_t>(capacity);
  }
  void release() {
    if (!is_inside()) std::allocator<T>().deallocate(storage_.outside, capacity_);
    capacity_ = kInside;
  }
  void take(SmallVector& other) {
    size_ = other.size_;
    capacity_ = other.capacity_;
    storage_ = other.storage_;
    other.capacity_ = kInside;
    other.size_ = 0;
  }

  uint32_t size_ = 0;
  uint32_t capacity_ = kInside;
  union Storage {
    T inside[kInside];
    T* outside;
  } storage_ = {};
};

template <class T, uint32_t kInside, class Predicate>
void erase_if(SmallVector<T, kInside>& list, Predicate&& is_gone) {
  list.erase(std::remove_if(list.begin(), list.end(), is_gone), list.end());
}

/// Numbers of a graph's nodes or values.
using IdList = SmallVector<uint32_t, 4>;

}  // namespace orrery
