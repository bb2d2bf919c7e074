#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orrery/base/element_type.h"
#include "orrery/workload/attribute.h"
#include "orrery/workload/opcode.h"
#include "orrery/workload/workload.h"

namespace orrery {

class Tape;
using Dims = std::vector<int64_t>;

struct TensorType {
  ElementType element = ElementType::kNone;
  Dims dims;
  Dims minor_to_major = {};  ///< Empty: row-major.

  bool operator==(const TensorType&) const = default;
};

/// A value of the network being written: a handle with its type. It belongs to
/// the function it was made in; a layer reaches outer values only through its
/// inputs (using one directly is an internal error that says so).
class Tensor {
 public:
  Tensor() = default;
  bool valid() const { return tape_ != nullptr; }
  ElementType element() const { return element_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  /// The size of dimension `i`; negative ones count from the last.
  int64_t dim(int i) const;
  int64_t elements() const;

 private:
  friend class Tape;
  friend class Network;
  Tape* tape_ = nullptr;
  uint32_t value_ = UINT32_MAX;
  ElementType element_ = ElementType::kNone;
  std::vector<int64_t> dims_;
};

using Tensors = std::vector<Tensor>;
/// Where the channels of an image (or sequence) stand: [n, spatial…, c] with
/// kernels [spatial…, in, out], or [n, c, spatial…] with [out, in, spatial…].
enum class ChannelOrder : uint8_t { kLast, kFirst };
/// How a linear layer stores its matrix.
enum class WeightOrder : uint8_t { kInOut, kOutIn };

/// How the weights of a linear layer or of experts are kept and multiplied.
/// The default is plain: the network's weight type, one operand each side.
struct WeightFormat {
  ElementType storage = ElementType::kNone;  ///< kNone: the network's weight type.
  /// What the matrix unit multiplies; kNone: the activations' type (weight-only
  /// quantisation dequantises on the way). When it is narrower than the
  /// activations, those are converted to it first.
  ElementType compute = ElementType::kNone;
  /// One scale a `block_in`×`block_out` block of the matrix; 0: the whole
  /// dimension. {0, 1}: per output channel; {0, 0}: per tensor; {128, 1}: groups of
  /// 128 as GPTQ and AWQ; {128, 128}: DeepSeek's fp8; {32, 1}: MX formats.
  int64_t block_in = 0;
  int64_t block_out = 1;
  ElementType scale = ElementType::kNone;  ///< Type of the scales; kNone: no scales.
  bool zero_points = false;                ///< A zero point (of `storage` type) beside each scale.
  bool dynamic_activation_scales =
      false;  ///< Activations' scales are found at run time, one a row.

  bool operator==(const WeightFormat&) const = default;
};

enum class OptimizerKind : uint8_t { kNone, kSgd, kAdamW };

struct NetworkOptions {
  ElementType weights = ElementType::kBF16;
  ElementType activations = ElementType::kBF16;
  /// What contractions multiply in where that is not their operands' type: TF32 for
  /// fp32 tensors. kNone: as the operands say.
  ElementType compute = ElementType::kNone;
  WeightOrder weight_order = WeightOrder::kInOut;
  ChannelOrder channel_order = ChannelOrder::kLast;
  /// Attention as the one fused operation; else dot, softmax, dot.
  bool fused_attention = true;

  /// Whose modules run it in PyTorch (Workload::library).
  std::string library = {};

  bool training = false;
  bool dropout = false;  ///< In training, layers drop activations where their library's do.
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  /// Keep an fp32 copy of every narrower weight in the optimiser's state.
  bool master_weights = false;
};

struct LinearOptions {
  bool bias = false;
  WeightFormat format = {};
  std::optional<WeightOrder> order = {};  ///< Default: the network's.
};

struct AttentionOptions {
  /// Only the lower triangle is computed (and counted). For models that mask but
  /// compute all S×T scores, leave it false; with unfused attention all scores
  /// are computed and this adds the mask.
  bool causal = false;
  int64_t window = 0;  ///< Sliding window in tokens; 0: none.
  /// Added to the scores, broadcast to [b, h, s, t]: ALiBi, T5's relative positions.
  Tensor bias = {};
  /// A learned sink logit a head (gpt-oss), [h].
  Tensor sinks = {};
  std::optional<bool> fused = {};  ///< Default: the network's.
};

struct ConvolutionOptions {
  Dims stride = {};  ///< Default 1.
  Dims padding_low = {};
  Dims padding_high = {};  ///< Default 0; set `padding_low` alone for symmetric padding.
  Dims dilation = {};      ///< Default 1.
  int64_t groups = 1;
  bool bias = false;
  std::optional<ChannelOrder> order = {};  ///< Default: the network's.
};

struct PoolOptions {
  Dims window = {};
  Dims stride = {};
  Dims padding = {};  ///< Symmetric; default 0.
};

/// Which experts every token goes to.
struct Routing {
  Tensor weights;         ///< [tokens, k], floating point.
  Tensor experts;         ///< [tokens, k], s32.
  Tensor order;           ///< [tokens·k], s32: rows sorted by expert.
  Tensor sorted_experts;  ///< [tokens·k], s32: the expert of each sorted row.
  int64_t expert_count = 0;
};

struct RoutingOptions {
  int64_t k = 1;
  /// Scores from logits: softmax over experts, sigmoid (DeepSeek-V3), or the
  /// logits themselves (softmax then runs over the chosen k: Mixtral, gpt-oss).
  enum class Scores : uint8_t { kSoftmax, kSigmoid, kLogits } scores = Scores::kSoftmax;
  bool renormalise = false;  ///< Divide the chosen weights by their sum.
  double scale = 1.0;        ///< DeepSeek's routed_scaling_factor.
  Tensor correction_bias =
      {};  ///< [experts], added for the choice alone (DeepSeek-V3); not trained.
};

struct LinearAttention {
  Tensor output;  ///< [b, s, h, dv]
  Tensor state;   ///< The new state, when one was given.
};

/// Writes a model once; gives its forward pass or its training step as a
/// `Workload`.
///
///     Network net("zoo", "mlp", {.training = true});
///     Tensor x = net.input("pixels", ElementType::kBF16, {batch, 784});
///     x = net.repeat("layer", 8, {x}, [&](const Tensors& in) -> Tensors {
///       return {net.relu(net.linear(in[0], "up", 784))};
///     })[0];
///     Tensor logits = net.linear(x, "head", 10);
///     net.output("logits", logits);                               // forward, or
///     net.minimise_cross_entropy(logits, net.input("labels", ElementType::kS32, {batch}));
///     Workload w = net.finish();
///
/// The methods are recorded; nothing is emitted before `finish`. In training,
/// `finish` derives the backward pass by reverse-mode differentiation: every
/// layer function gets results for what its backward function needs, the entry
/// function calls the layers, the loss, the backward functions in reverse order,
/// then the optimiser once a parameter. An operation without a gradient rule is
/// an internal error that names it.
///
/// Shapes that do not match are programmer errors (`kInternal`); sizes too large
/// to be meant (a tensor over 2^48 elements, over 250,000 arguments) are `kUsage`.
class Network {
 public:
  struct State;  ///< Private to the implementation's files.

  /// `format` as in `Workload::format`: "zoo", "huggingface".
  Network(std::string format, std::string name, NetworkOptions options);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  const NetworkOptions& options() const;
  bool training() const { return options().training; }
  /// Something the answer's `gaps` should say.
  void add_note(std::string note);

  // --- arguments and results ---------------------------------------------------
  // A name is prefixed by the open scopes and by the layer it is used in:
  // "layer.3.attention.query.weight". Called inside a layer, `parameter` and
  // `cache` give every call of the layer its own.

  Tensor input(std::string_view name, ElementType element, const Dims& dims);
  /// A trained weight; `element` kNone: the network's weight type.
  Tensor parameter(std::string_view name, const Dims& dims,
                   ElementType element = ElementType::kNone);
  /// An argument that is kept between runs but not trained: running statistics,
  /// rotary frequencies, integer tables.
  Tensor buffer(std::string_view name, const Dims& dims, ElementType element = ElementType::kNone);
  /// State carried from run to run (KV cache, recurrent state): its buffer is
  /// donated. Every cache must be given its new value once, by `update_cache` or
  /// `set_cache`; that becomes a result aliased to it.
  Tensor cache(std::string_view name, const Dims& dims, ElementType element = ElementType::kNone);
  /// Writes `update` at `position` (an s32 scalar; not valid: 0) of dimension
  /// `dimension` in place; gives the whole new cache. Converts to its type.
  Tensor update_cache(const Tensor& cache, const Tensor& update, const Tensor& position = {},
                      int dimension = 1);
  void set_cache(const Tensor& cache, const Tensor& value);
  /// A result of the entry function. Only outside layers.
  void output(std::string_view name, const Tensor& value);

  // --- structure ---------------------------------------------------------------
  using Body = std::function<Tensors(const Tensors& inputs)>;

  /// Calls the private function `kind`. Its `body` runs at the first call only;
  /// later calls reuse what it recorded and must have inputs of the same types.
  /// Every call has its own parameters and caches, named below `name`. Layers may
  /// nest. Layers of different make need different kinds.
  Tensors layer(std::string_view kind, std::string_view name, const Tensors& inputs,
                const Body& body);
  /// `count` layers "name.0", "name.1", … one after the other. The first outputs
  /// of one, as many as there are, are the first inputs of the next; further
  /// inputs (masks, rotary tables) go to each unchanged.
  Tensors repeat(std::string_view name, int64_t count, Tensors inputs, const Body& body);

  /// Prefixes names (and the operations' kScope) while it lives.
  class [[nodiscard]] Scope {
   public:
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    friend class Network;
    explicit Scope(Network& network) : network_(network) {}
    Network& network_;
  };
  Scope scope(std::string_view name);

  /// Marks the operations written while it lives as one layer's (Attr::kModule), for stacks that
  /// run the layer with kernels of its own. Inside another, it changes nothing.
  class [[nodiscard]] Module {
   public:
    ~Module();
    Module(const Module&) = delete;
    Module& operator=(const Module&) = delete;

   private:
    friend class Network;
    Module(State& state, bool opened) : state_(state), opened_(opened) {}
    State& state_;
    bool opened_;
  };
  Module module(std::string_view name);

  // --- contractions ------------------------------------------------------------

  /// x[…, in] · W + b: parameters "NAME.weight" (and ".weight_scale", ".weight_zero_point"
  /// by its format), "NAME.bias".
  Tensor linear(const Tensor& x, std::string_view name, int64_t out,
                const LinearOptions& options = {});
  /// The same with a matrix already there (tied embeddings).
  Tensor linear_with(const Tensor& x, const Tensor& weight, WeightOrder order);
  /// StableHLO's dot_general; the result has the activations' type of `lhs` unless `element` is
  /// given.
  Tensor dot_general(const Tensor& lhs, const Tensor& rhs, const Dims& lhs_batching,
                     const Dims& rhs_batching, const Dims& lhs_contracting,
                     const Dims& rhs_contracting, ElementType element = ElementType::kNone);
  /// [batch…, m, k] · [batch…, k, n].
  Tensor matmul(const Tensor& lhs, const Tensor& rhs);
  /// Parameters "NAME.weight", "NAME.bias"; `window` gives the spatial sizes, and
  /// so how many spatial dimensions there are.
  Tensor convolution(const Tensor& x, std::string_view name, int64_t out_channels,
                     const Dims& window, const ConvolutionOptions& options = {});
  /// Queries [b, s, h, d], keys [b, t, hk, d], values [b, t, hk, dv] → [b, s, h, dv].
  /// h is a multiple of hk; d and dv may differ. Heads are views, not transposes.
  Tensor attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                   const AttentionOptions& options = {});
  /// Gated delta rule, state-space scan and their kin: q, k [b, s, hk, d], v [b, s, h, dv],
  /// `gates` anything further that is read (decay, beta); `chunk` the length of the
  /// parallel form's chunks (0: recurrent). `state` [b, h, d, dv] carries decoding.
  LinearAttention linear_attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                   const Tensors& gates, int64_t chunk, const Tensor& state = {});

  // --- experts -----------------------------------------------------------------

  /// Chooses k experts a token from router logits [tokens, experts].
  Routing route(const Tensor& logits, const RoutingOptions& options);
  /// Rows of x[tokens, h] copied and ordered by expert: [tokens·k, h].
  Tensor dispatch(const Tensor& x, const Routing& routing);
  /// x[rows, in] through one matrix a row of "NAME.weight" [groups, in, out] (and
  /// "NAME.bias" [groups, out]). `active_groups`: how many are read; 0: min(groups, rows).
  Tensor grouped_linear(const Tensor& x, std::string_view name, int64_t groups, int64_t out,
                        const Routing& routing, const LinearOptions& options = {},
                        int64_t active_groups = 0);
  /// The inverse of `dispatch`, weighted and summed: [tokens, h].
  Tensor combine(const Tensor& y, const Routing& routing);

  // --- normalisation -----------------------------------------------------------

  /// Over the last dimension; parameters "NAME.weight", "NAME.bias".
  Tensor layer_norm(const Tensor& x, std::string_view name, double epsilon = 1e-5,
                    bool affine = true, bool bias = true);
  /// Over the last dimension; parameter "NAME.weight".
  Tensor rms_norm(const Tensor& x, std::string_view name, double epsilon = 1e-6,
                  bool affine = true);
  /// Over channel groups of an image; parameters "NAME.weight", "NAME.bias".
  Tensor group_norm(const Tensor& x, std::string_view name, int64_t groups, double epsilon = 1e-5);
  /// Over all but the channels; in training the batch's statistics are used and
  /// the running ones (buffers "NAME.running_mean", "NAME.running_var") updated.
  Tensor batch_norm(const Tensor& x, std::string_view name, double epsilon = 1e-5);
  Tensor softmax(const Tensor& x, int dimension = -1);

  // --- elementwise -------------------------------------------------------------
  // Binary operations broadcast as NumPy does, aligned at the last dimension.

  Tensor add(const Tensor& a, const Tensor& b);
  Tensor subtract(const Tensor& a, const Tensor& b);
  Tensor multiply(const Tensor& a, const Tensor& b);
  Tensor divide(const Tensor& a, const Tensor& b);
  Tensor maximum(const Tensor& a, const Tensor& b);
  Tensor minimum(const Tensor& a, const Tensor& b);
  Tensor scale(const Tensor& x, double factor);
  Tensor offset(const Tensor& x, double addend);
  /// `where` is a bool tensor.
  Tensor select(const Tensor& where, const Tensor& a, const Tensor& b);
  Tensor compare(const Tensor& a, const Tensor& b, std::string_view direction);
  Tensor convert(const Tensor& x, ElementType element);
  Tensor relu(const Tensor& x);
  Tensor relu6(const Tensor& x);
  Tensor gelu(const Tensor& x);
  Tensor quick_gelu(const Tensor& x);  ///< x·σ(1.702x)
  Tensor silu(const Tensor& x);
  Tensor tanh(const Tensor& x);
  Tensor sigmoid(const Tensor& x);
  Tensor exponential(const Tensor& x);
  Tensor log(const Tensor& x);
  Tensor log_plus_one(const Tensor& x);
  Tensor softplus(const Tensor& x);
  Tensor rsqrt(const Tensor& x);
  Tensor sqrt(const Tensor& x);
  Tensor square(const Tensor& x);
  Tensor sine(const Tensor& x);
  Tensor cosine(const Tensor& x);
  Tensor negate(const Tensor& x);

  // --- look-ups and shapes -----------------------------------------------------

  /// Rows of table[v, h] by ids […] → […, h].
  Tensor embedding(const Tensor& table, const Tensor& ids);
  Tensor reshape(const Tensor& x, const Dims& dims);  ///< One size may be -1.
  Tensor transpose(const Tensor& x, const Dims& permutation);
  /// A permutation of dimensions without moving data: a changed layout.
  Tensor permuted_view(const Tensor& x, const Dims& permutation);
  Tensor concatenate(const Tensors& parts, int dimension);
  Tensor slice(const Tensor& x, int dimension, int64_t start, int64_t limit);
  /// Rows first … first + count of a position table, as an embedding of their numbers.
  Tensor positions(const Tensor& table, int64_t first, int64_t count);
  /// Consecutive parts of the given sizes.
  Tensors split(const Tensor& x, int dimension, const Dims& sizes);
  Tensor pad(const Tensor& x, const Dims& low, const Dims& high);
  Tensor broadcast(const Tensor& x, const Dims& dims);  ///< As NumPy's broadcast_to.
  Tensor reduce_sum(const Tensor& x, const Dims& dimensions);
  Tensor reduce_mean(const Tensor& x, const Dims& dimensions);
  Tensor cumsum(const Tensor& x, int dimension);
  Tensor max_pool(const Tensor& x, const PoolOptions& options);
  Tensor average_pool(const Tensor& x, const PoolOptions& options);
  Tensor global_average_pool(const Tensor& x);  ///< [n, channels]
  /// Nearest-neighbour up-sampling of the spatial dimensions by a whole factor.
  Tensor resize(const Tensor& x, int64_t factor);
  Tensor constant(double value, ElementType element);  ///< A scalar.
  Tensor iota(ElementType element, const Dims& dims, int dimension);

  /// Cosine and sine [s, rotary/2] of positions `first`, `first`+1, … (`first` an s32
  /// scalar; not valid: 0), made once for all layers. In the activations' type.
  struct Rotary {
    Tensor cosine, sine;
  };
  Rotary rotary_tables(int64_t positions, int64_t rotary_dims, double theta,
                       const Tensor& first = {});
  /// Rotates the first `2·table width` of the last dimension of x[b, s, h, d];
  /// the rest passes through.
  Tensor rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine);

  // --- training and the end ----------------------------------------------------

  /// Mean cross-entropy of logits […, classes] against s32 labels […], in fp32.
  void minimise_cross_entropy(const Tensor& logits, const Tensor& labels);
  /// Mean squared error, in fp32.
  void minimise_mean_squared_error(const Tensor& prediction, const Tensor& target);

  /// In training with `NetworkOptions::dropout`, x with a tenth of its elements set to zero and
  /// the rest scaled up; otherwise x.
  Tensor dropout(const Tensor& x);

  /// How many weights `parameter` made, over all layers; scales are not counted.
  int64_t parameter_count() const;

  Workload finish();

  /// Any operation of opcodes.inc by hand, where no method fits. Result types as given.
  struct RawOp {
    /// The body an operation carries where StableHLO asks for one: what it reduces
    /// or scatters with, or (kLess) how it sorts.
    enum class Region : uint8_t { kNone, kAdd, kMaximum, kSelectGreaterAndAdd, kLess };
    Opcode code{};
    Tensors operands = {};
    std::vector<TensorType> results = {};
    std::vector<std::pair<Attr, int64_t>> integers = {};
    std::vector<std::pair<Attr, Dims>> lists = {};
    std::vector<std::pair<Attr, double>> reals = {};
    std::vector<std::pair<Attr, std::string>> strings = {};
    Region region = Region::kNone;
  };
  Tensors emit(const RawOp& op);

 private:
  Tensor unary(Opcode code, const Tensor& x);
  Tensor binary(Opcode code, const Tensor& a, const Tensor& b);
  Tensor weight(std::string_view name, const Dims& dims, const WeightFormat& format,
                std::vector<Tensor>* scales, int in_dimension, int out_dimension);
  Tensor contraction_input(const Tensor& x, const WeightFormat& format,
                           std::vector<Tensor>* scales);
  Tensor unfused_attention(const Tensor& queries, const Tensor& keys, const Tensor& values,
                           const AttentionOptions& options);
  Tensor pool(const Tensor& x, const PoolOptions& options, bool maximum);
  Tensor reduce(const Tensor& x, const Dims& dimensions, bool maximum);
  void update_parameters(const std::vector<Tensor>& gradients);
  std::unique_ptr<State> state_;
};

}  // namespace orrery
