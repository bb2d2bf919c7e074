#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "orrery/base/error.h"
#include "orrery/workload/zoo/network_state.h"

// Layers with weights, and the ones built from several operations.

namespace orrery {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

size_t at(int64_t i) { return static_cast<size_t>(i); }

int64_t blocks(int64_t size, int64_t block) { return block <= 0 ? 1 : (size + block - 1) / block; }

/// The dimension numbers of an image tensor in either order.
struct ImageDims {
  int64_t batch, feature;
  Dims spatial;
};

ImageDims image_dims(ChannelOrder order, size_t spatial) {
  ImageDims d{0, order == ChannelOrder::kFirst ? 1 : static_cast<int64_t>(spatial) + 1, {}};
  for (size_t i = 0; i < spatial; ++i)
    d.spatial.push_back(static_cast<int64_t>(i) + (order == ChannelOrder::kFirst ? 2 : 1));
  return d;
}

Dims filled(const Dims& given, size_t size, int64_t otherwise) {
  if (given.empty()) return Dims(size, otherwise);
  if (given.size() != size)
    throw_internal(fmt::format("{} window sizes for {} spatial dimensions", given.size(), size));
  return given;
}

}  // namespace

// --- linear ---------------------------------------------------------------------

/// The matrix (or the experts' matrices) in its storage type, its scales and zero
/// points appended to `scales`.
Tensor Network::weight(std::string_view name, const Dims& dims, const WeightFormat& format,
                       std::vector<Tensor>* scales, int in_dimension, int out_dimension) {
  const bool quantised = format.scale != ElementType::kNone ||
                         (format.storage != ElementType::kNone && bit_width(format.storage) < 16);
  if (training() && quantised)
    throw_usage(
        fmt::format("'{}' has quantised weights ({}), which are not trained: ask for --phase "
                    "prefill or decode, "
                    "or give --dtype bf16",
                    state_->name, mlir_name(format.storage)));
  const auto scoped = [&](std::string_view leaf) { return fmt::format("{}.{}", name, leaf); };
  Tensor matrix = parameter(scoped("weight"), dims, format.storage);
  if (format.scale == ElementType::kNone) return matrix;
  Dims scale_dims = dims;
  scale_dims[at(in_dimension)] = blocks(dims[at(in_dimension)], format.block_in);
  scale_dims[at(out_dimension)] = blocks(dims[at(out_dimension)], format.block_out);
  scales->push_back(state_->current->add_argument(Tape::ArgumentKind::kScale,
                                                  state_->scoped(scoped("weight_scale")),
                                                  {format.scale, scale_dims}));
  if (format.zero_points)
    scales->push_back(state_->current->add_argument(Tape::ArgumentKind::kScale,
                                                    state_->scoped(scoped("weight_zero_point")),
                                                    {matrix.element(), scale_dims}));
  return matrix;
}

/// Activations as the matrix unit takes them: quantised where it computes in a
/// narrower type than they have.
Tensor Network::contraction_input(const Tensor& x, const WeightFormat& format,
                                  std::vector<Tensor>* scales) {
  if (format.compute == ElementType::kNone || bit_width(format.compute) >= bit_width(x.element()))
    return x;
  if (!format.dynamic_activation_scales) return convert(x, format.compute);
  const Tensor largest = reduce(unary(Opcode::k_abs, x), {x.rank() - 1}, true);
  Dims column = largest.dims();
  column.push_back(1);
  const Tensor scale = reshape(largest, column);
  scales->push_back(convert(scale, ElementType::kF32));
  return convert(divide(x, scale), format.compute);
}

Tensor Network::linear(const Tensor& x, std::string_view name, int64_t out,
                       const LinearOptions& options) {
  const WeightOrder order = options.order.value_or(state_->options.weight_order);
  const int64_t in = x.dim(-1);
  const int in_dimension = order == WeightOrder::kInOut ? 0 : 1;
  Dims dims = {in, out};
  if (order == WeightOrder::kOutIn) std::swap(dims[0], dims[1]);
  Tensors scales;
  const Tensor matrix = weight(name, dims, options.format, &scales, in_dimension, 1 - in_dimension);
  const Tensor input = contraction_input(x, options.format, &scales);

  Dims result = x.dims();
  result.back() = out;
  RawOp dot{.code = scales.empty() ? Opcode::k_dot_general : Opcode::k_scaled_dot,
            .operands = {input, matrix},
            .results = {{x.element(), result}},
            .lists = {{Attr::kLhsBatching, {}},
                      {Attr::kRhsBatching, {}},
                      {Attr::kLhsContracting, {x.rank() - 1}},
                      {Attr::kRhsContracting, {in_dimension}}}};
  dot.operands.insert(dot.operands.end(), scales.begin(), scales.end());
  const ElementType compute =
      options.format.compute == ElementType::kNone ? x.element() : options.format.compute;
  if (compute != input.element() || compute != matrix.element())
    dot.integers = {{Attr::kComputeType, static_cast<int64_t>(compute)}};
  Tensor product = emit(dot)[0];
  if (!options.bias) return product;
  const Tensor bias = parameter(fmt::format("{}.bias", name), {out});
  return add(product, convert(bias, x.element()));
}

Tensor Network::linear_with(const Tensor& x, const Tensor& matrix, WeightOrder order) {
  return dot_general(x, matrix, {}, {}, {x.rank() - 1}, {order == WeightOrder::kInOut ? 0 : 1});
}

Tensor Network::dot_general(const Tensor& lhs, const Tensor& rhs, const Dims& lhs_batching,
                            const Dims& rhs_batching, const Dims& lhs_contracting,
                            const Dims& rhs_contracting, ElementType element) {
  const auto free = [](const Tensor& t, const Dims& batching, const Dims& contracting,
                       Dims* sizes) {
    for (int i = 0; i < t.rank(); ++i)
      if (std::ranges::find(batching, i) == batching.end() &&
          std::ranges::find(contracting, i) == contracting.end())
        sizes->push_back(t.dim(i));
  };
  const auto sizes = [](const Tensor& t, const Dims& dimensions) {
    Dims found;
    for (int64_t d : dimensions) found.push_back(t.dim(static_cast<int>(d)));
    return found;
  };
  if (sizes(lhs, lhs_batching) != sizes(rhs, rhs_batching) ||
      sizes(lhs, lhs_contracting) != sizes(rhs, rhs_contracting))
    throw_internal(fmt::format("dot_general of {} and {}: sizes differ",
                               describe(state_->type(lhs)), describe(state_->type(rhs))));
  Dims dims = sizes(lhs, lhs_batching);
  free(lhs, lhs_batching, lhs_contracting, &dims);
  free(rhs, rhs_batching, rhs_contracting, &dims);
  RawOp dot{.code = Opcode::k_dot_general,
            .operands = {lhs, rhs},
            .results = {{element == ElementType::kNone ? lhs.element() : element, dims}},
            .lists = {{Attr::kLhsBatching, lhs_batching},
                      {Attr::kRhsBatching, rhs_batching},
                      {Attr::kLhsContracting, lhs_contracting},
                      {Attr::kRhsContracting, rhs_contracting}}};
  if (lhs.element() != rhs.element())
    dot.integers = {{Attr::kComputeType, static_cast<int64_t>(lhs.element())}};
  return emit(dot)[0];
}

Tensor Network::matmul(const Tensor& lhs, const Tensor& rhs) {
  Dims batching;
  for (int i = 0; i + 2 < lhs.rank(); ++i) batching.push_back(i);
  return dot_general(lhs, rhs, batching, batching, {lhs.rank() - 1}, {rhs.rank() - 2});
}

// --- convolution and pooling ------------------------------------------------------

Tensor Network::convolution(const Tensor& x, std::string_view name, int64_t out_channels,
                            const Dims& window, const ConvolutionOptions& options) {
  const size_t spatial = window.size();
  const ChannelOrder order = options.order.value_or(state_->options.channel_order);
  const ImageDims image = image_dims(order, spatial);
  if (x.rank() != static_cast<int>(spatial) + 2)
    throw_internal(fmt::format("convolution '{}' of {}", name, describe(state_->type(x))));
  const int64_t in_channels = x.dims()[at(image.feature)];
  if (options.groups < 1 || in_channels % options.groups != 0 || out_channels % options.groups != 0)
    throw_internal(fmt::format("convolution '{}': {} and {} channels in {} groups", name,
                               in_channels, out_channels, options.groups));
  const Dims stride = filled(options.stride, spatial, 1);
  const Dims dilation = filled(options.dilation, spatial, 1);
  const Dims low = filled(options.padding_low, spatial, 0);
  const Dims high = options.padding_high.empty() ? low : filled(options.padding_high, spatial, 0);

  // Kernels: [spatial…, in, out] or [out, in, spatial…].
  Dims kernel_dims;
  Dims kernel_spatial;
  const bool first = order == ChannelOrder::kFirst;
  if (first) kernel_dims = {out_channels, in_channels / options.groups};
  for (size_t i = 0; i < spatial; ++i) {
    kernel_spatial.push_back(static_cast<int64_t>(kernel_dims.size()));
    kernel_dims.push_back(window[i]);
  }
  if (!first) kernel_dims.insert(kernel_dims.end(), {in_channels / options.groups, out_channels});
  const Tensor kernel = parameter(fmt::format("{}.weight", name), kernel_dims);

  Dims result(x.dims().size());
  result[at(image.batch)] = x.dims()[at(image.batch)];
  result[at(image.feature)] = out_channels;
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t size = x.dims()[at(image.spatial[i])];
    const int64_t reach = dilation[i] * (window[i] - 1) + 1;
    if (size + low[i] + high[i] < reach)
      throw_usage(fmt::format("an input of {} is too small for the {}-wide window of '{}'", size,
                              window[i], state_->scoped(name)));
    result[at(image.spatial[i])] = (size + low[i] + high[i] - reach) / stride[i] + 1;
  }
  const auto ones = Dims(spatial, 1);
  Tensor y =
      emit({.code = Opcode::k_convolution,
            .operands = {x, convert(kernel, x.element())},
            .results = {{x.element(), result}},
            .integers = {{Attr::kInputBatch, image.batch},
                         {Attr::kInputFeature, image.feature},
                         {Attr::kKernelInput, first ? 1 : static_cast<int64_t>(spatial)},
                         {Attr::kKernelOutput, first ? 0 : static_cast<int64_t>(spatial) + 1},
                         {Attr::kOutputBatch, image.batch},
                         {Attr::kOutputFeature, image.feature},
                         {Attr::kFeatureGroups, options.groups},
                         {Attr::kBatchGroups, 1}},
            .lists = {{Attr::kInputSpatial, image.spatial},
                      {Attr::kKernelSpatial, kernel_spatial},
                      {Attr::kOutputSpatial, image.spatial},
                      {Attr::kWindowSize, window},
                      {Attr::kWindowStrides, stride},
                      {Attr::kPaddingLow, low},
                      {Attr::kPaddingHigh, high},
                      {Attr::kBaseDilation, ones},
                      {Attr::kWindowDilation, dilation}}})[0];
  if (!options.bias) return y;
  Dims shape(result.size(), 1);
  shape[at(image.feature)] = out_channels;
  const Tensor bias = parameter(fmt::format("{}.bias", name), {out_channels});
  return add(y, reshape(convert(bias, x.element()), first ? shape : Dims{out_channels}));
}

Tensor Network::pool(const Tensor& x, const PoolOptions& options, bool maximum) {
  const size_t spatial = options.window.size();
  const ImageDims image = image_dims(state_->options.channel_order, spatial);
  const Dims stride = filled(options.stride, spatial, 1);
  const Dims padding = filled(options.padding, spatial, 0);
  const size_t rank = x.dims().size();
  Dims windows(rank, 1);
  Dims strides(rank, 1);
  Dims paddings(rank, 0);
  Dims result = x.dims();
  for (size_t i = 0; i < spatial; ++i) {
    const size_t d = at(image.spatial[i]);
    windows[d] = options.window[i];
    strides[d] = stride[i];
    paddings[d] = padding[i];
    if (x.dims()[d] + 2 * padding[i] < options.window[i])
      throw_usage(fmt::format("an image of {} pixels is too small for pooling over {}", x.dims()[d],
                              options.window[i]));
    result[d] = (x.dims()[d] + 2 * padding[i] - options.window[i]) / stride[i] + 1;
  }
  return emit({.code = Opcode::k_reduce_window,
               .operands = {x, constant(maximum ? -kInfinity : 0, x.element())},
               .results = {{x.element(), result}},
               .lists = {{Attr::kWindowSize, windows},
                         {Attr::kWindowStrides, strides},
                         {Attr::kPaddingLow, paddings},
                         {Attr::kPaddingHigh, paddings},
                         {Attr::kBaseDilation, Dims(rank, 1)},
                         {Attr::kWindowDilation, Dims(rank, 1)}},
               .region = maximum ? RawOp::Region::kMaximum : RawOp::Region::kAdd})[0];
}

Tensor Network::max_pool(const Tensor& x, const PoolOptions& options) {
  return pool(x, options, true);
}

Tensor Network::average_pool(const Tensor& x, const PoolOptions& options) {
  int64_t window = 1;
  for (int64_t w : options.window) window *= w;
  return scale(pool(x, options, false), 1.0 / static_cast<double>(window));
}

Tensor Network::global_average_pool(const Tensor& x) {
  return reduce_mean(x, image_dims(state_->options.channel_order, at(x.rank() - 2)).spatial);
}

Tensor Network::resize(const Tensor& x, int64_t factor) {
  Dims dims = x.dims();
  for (int64_t d : image_dims(state_->options.channel_order, at(x.rank() - 2)).spatial)
    dims[at(d)] *= factor;
  return emit({.code = Opcode::k_resize, .operands = {x}, .results = {{x.element(), dims}}})[0];
}

// --- normalisation ----------------------------------------------------------------

Tensor Network::layer_norm(const Tensor& x, std::string_view name, double epsilon, bool affine,
                           bool bias) {
  Tensors operands = {x};
  if (affine) operands.push_back(parameter(fmt::format("{}.weight", name), {x.dim(-1)}));
  if (affine && bias) operands.push_back(parameter(fmt::format("{}.bias", name), {x.dim(-1)}));
  return emit({.code = Opcode::k_layer_norm,
               .operands = operands,
               .results = {{x.element(), x.dims()}},
               .lists = {{Attr::kDimensions, {x.rank() - 1}}},
               .reals = {{Attr::kEpsilon, epsilon}}})[0];
}

Tensor Network::rms_norm(const Tensor& x, std::string_view name, double epsilon, bool affine) {
  Tensors operands = {x};
  if (affine) operands.push_back(parameter(fmt::format("{}.weight", name), {x.dim(-1)}));
  return emit({.code = Opcode::k_rms_norm,
               .operands = operands,
               .results = {{x.element(), x.dims()}},
               .lists = {{Attr::kDimensions, {x.rank() - 1}}},
               .reals = {{Attr::kEpsilon, epsilon}}})[0];
}

Tensor Network::group_norm(const Tensor& x, std::string_view name, int64_t groups, double epsilon) {
  const ImageDims image = image_dims(state_->options.channel_order, at(x.rank() - 2));
  const int64_t channels = x.dims()[at(image.feature)];
  if (groups < 1 || channels % groups != 0)
    throw_internal(
        fmt::format("group_norm '{}': {} channels in {} groups", name, channels, groups));
  const Tensor scale = parameter(fmt::format("{}.weight", name), {channels});
  const Tensor bias = parameter(fmt::format("{}.bias", name), {channels});
  Dims dimensions = image.spatial;
  dimensions.push_back(image.feature);
  std::ranges::sort(dimensions);
  return emit({.code = Opcode::k_group_norm,
               .operands = {x, scale, bias},
               .results = {{x.element(), x.dims()}},
               .integers = {{Attr::kFeatureGroups, groups}},
               .lists = {{Attr::kDimensions, dimensions}},
               .reals = {{Attr::kEpsilon, epsilon}}})[0];
}

Tensor Network::batch_norm(const Tensor& x, std::string_view name, double epsilon) {
  const ImageDims image = image_dims(state_->options.channel_order, at(x.rank() - 2));
  const Dims channels = {x.dims()[at(image.feature)]};
  const auto leaf = [&](std::string_view suffix) { return fmt::format("{}.{}", name, suffix); };
  const Tensor scale = parameter(leaf("weight"), channels);
  const Tensor bias = parameter(leaf("bias"), channels);
  const Tensor mean = buffer(leaf("running_mean"), channels);
  const Tensor variance = buffer(leaf("running_var"), channels);
  Dims dimensions = image.spatial;
  dimensions.insert(dimensions.begin(), image.batch);
  RawOp op{.code = Opcode::k_batch_norm_inference,
           .operands = {x, scale, bias, mean, variance},
           .results = {{x.element(), x.dims()}},
           .lists = {{Attr::kDimensions, dimensions}},
           .reals = {{Attr::kEpsilon, epsilon}}};
  if (!training()) return emit(op)[0];

  op.code = Opcode::k_batch_norm_training;
  op.operands = {x, scale, bias};
  op.results.push_back({mean.element(), channels});
  op.results.push_back({mean.element(), channels});
  const Tensors results = emit(op);
  const Module as_one = module("running_statistics");
  constexpr double kMomentum = 0.1;  // torch.nn.BatchNorm2d's default.
  const auto track = [&](const Tensor& running, const Tensor& batch) {
    const Tensor updated = add(this->scale(running, 1 - kMomentum), this->scale(batch, kMomentum));
    Tape& tape = *state_->current;
    tape.set_update(tape.values()[tape.index(running)].position, updated);
  };
  track(mean, results[1]);
  track(variance, results[2]);
  return results[0];
}

Tensor Network::softmax(const Tensor& x, int dimension) {
  return emit(
      {.code = Opcode::k_softmax,
       .operands = {x},
       .results = {{x.element(), x.dims()}},
       .lists = {{Attr::kDimensions, {dimension < 0 ? dimension + x.rank() : dimension}}}})[0];
}

// --- attention --------------------------------------------------------------------

Tensor Network::attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                          const AttentionOptions& options) {
  if (queries.rank() != 4 || keys.rank() != 4 || values.rank() != 4 ||
      queries.dim(0) != keys.dim(0) || queries.dim(3) != keys.dim(3) ||
      keys.dim(1) != values.dim(1) || keys.dim(2) != values.dim(2) ||
      queries.dim(2) % keys.dim(2) != 0)
    throw_internal(fmt::format("attention of {}, {} and {}", describe(state_->type(queries)),
                               describe(state_->type(keys)), describe(state_->type(values))));
  if (!options.fused.value_or(state_->options.fused_attention))
    return unfused_attention(queries, keys, values, options);

  const Dims heads_first = {0, 2, 1, 3};
  RawOp op{.code = Opcode::k_attention,
           .operands = {permuted_view(queries, heads_first), permuted_view(keys, heads_first),
                        permuted_view(values, heads_first)},
           .results = {{queries.element(),
                        {queries.dim(0), queries.dim(2), queries.dim(1), values.dim(3)},
                        {3, 1, 2, 0}}},
           .integers = {{Attr::kCausal, options.causal ? 1 : 0},
                        {Attr::kWindow, options.window},
                        {Attr::kHeads, queries.dim(2)},
                        {Attr::kKeyValueHeads, keys.dim(2)}}};
  if (options.bias.valid()) op.operands.push_back(options.bias);
  if (options.sinks.valid()) op.operands.push_back(options.sinks);
  if (keys.element() != queries.element())
    op.integers.emplace_back(Attr::kComputeType, static_cast<int64_t>(queries.element()));
  return permuted_view(emit(op)[0], heads_first);
}

/// As frameworks without a fused kernel write it: every score is computed and
/// kept, the softmax runs in fp32.
Tensor Network::unfused_attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                  const AttentionOptions& options) {
  const Module as_one = module("written_attention");
  const int64_t b = queries.dim(0);
  const int64_t s = queries.dim(1);
  const int64_t h = queries.dim(2);
  const int64_t t = keys.dim(1);
  const int64_t hk = keys.dim(2);
  const Tensor k = convert(keys, queries.element());
  const Tensor v = convert(values, queries.element());
  const Tensor grouped = reshape(queries, {b, s, hk, h / hk, queries.dim(3)});
  // [b, hk, s, h/hk, t]
  Tensor scores = dot_general(grouped, k, {0, 2}, {0, 2}, {4}, {3});
  scores = convert(scores, ElementType::kF32);
  scores = scale(scores, 1.0 / std::sqrt(static_cast<double>(queries.dim(3))));
  if (options.bias.valid()) {
    Dims shape = options.bias.dims();
    while (shape.size() < 4) shape.insert(shape.begin(), 1);
    const Tensor bias = convert(reshape(options.bias, shape), ElementType::kF32);
    // [1|b, 1|h, 1|s, t] to the scores' order.
    const int64_t bias_heads = bias.dim(1);
    const Tensor by_group =
        bias_heads == 1
            ? reshape(bias, {bias.dim(0), 1, bias.dim(2), 1, bias.dim(3)})
            : transpose(reshape(bias, {bias.dim(0), hk, h / hk, bias.dim(2), bias.dim(3)}),
                        {0, 1, 3, 2, 4});
    scores = add(scores, by_group);
  }
  if (options.causal || options.window > 0) {
    const Tensor row = offset(iota(ElementType::kS32, {s, 1, t}, 0), static_cast<double>(t - s));
    const Tensor column = iota(ElementType::kS32, {s, 1, t}, 2);
    Tensor seen = compare(column, row, "LE");
    if (options.window > 0) {
      const Tensor near =
          compare(subtract(row, column),
                  constant(static_cast<double>(options.window), ElementType::kS32), "LT");
      seen = binary(Opcode::k_and, seen, near);
    }
    scores = select(seen, scores, constant(-kInfinity, ElementType::kF32));
  }
  if (options.sinks.valid()) {
    const Tensor sinks = reshape(convert(options.sinks, ElementType::kF32), {1, hk, 1, h / hk, 1});
    scores = concatenate({scores, broadcast(sinks, {b, hk, s, h / hk, 1})}, 4);
  }
  Tensor weights = softmax(scores);
  if (options.sinks.valid()) weights = slice(weights, 4, 0, t);
  weights = convert(weights, queries.element());
  const Tensor mixed = dot_general(weights, v, {0, 1}, {0, 2}, {4}, {1});  // [b, hk, s, h/hk, dv]
  return reshape(transpose(mixed, {0, 2, 1, 3, 4}), {b, s, h, values.dim(3)});
}

LinearAttention Network::linear_attention(const Tensor& queries, const Tensor& keys,
                                          const Tensor& values, const Tensors& gates, int64_t chunk,
                                          const Tensor& state) {
  RawOp op{.code = Opcode::k_linear_attention,
           .operands = {queries, keys, values},
           .results = {{values.element(), values.dims()}},
           .integers = {{Attr::kWindow, chunk}}};
  op.operands.insert(op.operands.end(), gates.begin(), gates.end());
  if (state.valid()) {
    op.operands.push_back(state);
    op.results.push_back(state_->type(state));
  }
  const Tensors results = emit(op);
  return {results[0], state.valid() ? results[1] : Tensor()};
}

// --- rotary positions ---------------------------------------------------------------

Network::Rotary Network::rotary_tables(int64_t positions, int64_t rotary_dims, double theta,
                                       const Tensor& first) {
  const Module as_one = module("rotary_tables");
  const Dims half = {rotary_dims / 2};
  // θ^(-2i/d) = exp(i · -2 ln θ / d)
  const Tensor frequency = exponential(scale(
      iota(ElementType::kF32, half, 0), -2.0 * std::log(theta) / static_cast<double>(rotary_dims)));
  Tensor position = iota(ElementType::kS32, {positions, 1}, 0);
  if (first.valid()) position = add(position, first);
  const Tensor angle = multiply(convert(position, ElementType::kF32), frequency);
  return {convert(cosine(angle), state_->options.activations),
          convert(sine(angle), state_->options.activations)};
}

Tensor Network::rotary(const Tensor& x, const Tensor& cosine_table, const Tensor& sine_table) {
  const Module as_one = module("rotary");
  const int64_t half = cosine_table.dim(-1);
  const Tensor c = reshape(cosine_table, {cosine_table.dim(0), 1, half});
  const Tensor s = reshape(sine_table, {sine_table.dim(0), 1, half});
  const Tensor low = slice(x, -1, 0, half);
  const Tensor high = slice(x, -1, half, 2 * half);
  Tensors parts = {subtract(multiply(low, c), multiply(high, s)),
                   add(multiply(high, c), multiply(low, s))};
  if (2 * half < x.dim(-1)) parts.push_back(slice(x, -1, 2 * half, x.dim(-1)));
  return concatenate(parts, -1);
}

}  // namespace orrery
