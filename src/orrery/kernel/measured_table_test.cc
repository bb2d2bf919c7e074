#include "orrery/kernel/measured_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "orrery/base/shared_data_for_test.h"
#include "orrery/kernel/operator_kernel.h"

namespace orrery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Regime = OperatingPoint::Regime;

MeasuredTable read(std::string text) {
  return read_measured_table(Source::from_memory("t.csv", std::move(text)));
}

std::string error_of(std::string text) {
  try {
    read(std::move(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

const ProductShape& product(const MeasuredRow& row) {
  return std::get<ProductShape>(row.kernel.shape);
}
const AttentionShape& attention(const MeasuredRow& row) {
  return std::get<AttentionShape>(row.kernel.shape);
}

constexpr const char* kAttentionHeader =
    "version,op_name,kernel_source,batch_size,isl,num_heads,num_key_value_heads,head_dim,"
    "attn_dtype,kv_cache_dtype,step,window_size,latency,power\n";
constexpr const char* kMoeHeader =
    "op_name,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,"
    "moe_tp_size,moe_ep_size,distribution,latency\n";

TEST(MeasuredTable, ReadsOurOwn) {
  const MeasuredTable t = read(
      "op,dtype,params,us,us_min,us_max,sm_mhz,watts,names\n"
      "gemm,bf16,\"{\"\"m\"\": 1, \"\"n\"\": 4096, \"\"k\"\": 2048}\",12.5,12.4,13.3,1920,310,a|b\n"
      "add,fp32,\"{\"\"shape\"\": [8, 16]}\",2,,,,,\n");
  ASSERT_EQ(t.rows.size(), 2u);
  EXPECT_EQ(t.file, "t.csv");
  EXPECT_EQ(t.time_unit, MeasuredTable::TimeUnit::kMicroseconds);
  EXPECT_FALSE(t.quantizes || t.warm || t.eager);
  EXPECT_DOUBLE_EQ(t.rows[0].seconds, 12.5e-6);
  EXPECT_DOUBLE_EQ(t.rows[0].sm_hz, 1920e6);
  EXPECT_DOUBLE_EQ(t.rows[0].watts, 310);
  EXPECT_EQ(t.rows[0].line, 2u);
  EXPECT_EQ(t.rows[0].regime, Regime::kBurst);
  EXPECT_EQ(product(t.rows[0]).n, 4096);
  EXPECT_EQ(product(t.rows[0]).k, 2048);
  EXPECT_DOUBLE_EQ(t.rows[1].sm_hz, 0);
  EXPECT_DOUBLE_EQ(t.rows[1].watts, 0);
  EXPECT_EQ(t.rows[1].kernel.cost.bytes_written, 8 * 16 * 4);
  EXPECT_THAT(t.operations, ElementsAre("gemm bf16", "add fp32"));
  EXPECT_THAT(t.sources, ElementsAre("orrery"));
  EXPECT_THAT(t.devices, ElementsAre(""));
  EXPECT_EQ(t.rows[1].operation, 1);
}

TEST(MeasuredTable, EmptyLaunchesAreAYardstick) {
  const MeasuredTable t = read(
      "op,dtype,params,us\n"
      "empty,,{},2\n"
      "add,fp32,\"{\"\"shape\"\": [8, 16]}\",2.5\n"
      "empty,bf16,{},1.5\n"
      "empty,,{},9\n");
  EXPECT_EQ(t.rows.size(), 1u);
  EXPECT_THAT(t.operations, ElementsAre("add fp32"));
  EXPECT_DOUBLE_EQ(t.empty_seconds, 2e-6);
  EXPECT_EQ(read("op,dtype,params,us\nadd,fp32,\"{\"\"shape\"\": [8]}\",2\n").empty_seconds, 0);
  EXPECT_EQ(error_of("op,dtype,params,us\nempty,,\"{\"\"n\"\": 1}\",2\n"),
            "t.csv:2:8: params: empty takes no parameters: expected {}");
  EXPECT_EQ(error_of("op,dtype,params,us\nempty,,{},0\n"),
            "t.csv:2:11: us: '0' is not a time: expected microseconds above zero");
}

TEST(MeasuredTable, ASustainedRowGivesBothMeasurements) {
  const MeasuredTable t = read(
      "op,dtype,params,burst_us,burst_mhz,sustained_us,sustained_mhz,sustained_watts\n"
      "gemm,fp8,\"{\"\"m\"\": 8192, \"\"n\"\": 8192, \"\"k\"\": "
      "8192}\",754.864,1980,919.839,1335,678\n");
  ASSERT_EQ(t.rows.size(), 2u);
  EXPECT_EQ(t.rows[0].regime, Regime::kBurst);
  EXPECT_DOUBLE_EQ(t.rows[0].seconds, 754.864e-6);
  EXPECT_DOUBLE_EQ(t.rows[0].sm_hz, 1980e6);
  EXPECT_DOUBLE_EQ(t.rows[0].watts, 0);
  EXPECT_EQ(t.rows[1].regime, Regime::kSustained);
  EXPECT_DOUBLE_EQ(t.rows[1].seconds, 919.839e-6);
  EXPECT_DOUBLE_EQ(t.rows[1].sm_hz, 1335e6);
  EXPECT_DOUBLE_EQ(t.rows[1].watts, 678);
  EXPECT_EQ(t.rows[0].key, t.rows[1].key);
  EXPECT_EQ(t.rows[0].line, t.rows[1].line);
}

TEST(MeasuredTable, ReadsAiconfiguratorsProducts) {
  const MeasuredTable t = read(
      "version,op_name,kernel_source,gemm_dtype,m,n,k,latency,power,power_limit\n"
      "0.22.0,gemm,vllm_default,fp8_block,4352,8192,6144,0.426736,567.034,700\n"
      "0.24.0,gemm,torch.nn.functional.linear,bfloat16,225,256,5120,0.008248889,,\n");
  ASSERT_EQ(t.rows.size(), 2u);
  EXPECT_EQ(t.time_unit, MeasuredTable::TimeUnit::kMilliseconds);
  EXPECT_TRUE(t.quantizes && t.warm && !t.eager);
  EXPECT_DOUBLE_EQ(t.rows[0].seconds, 0.426736e-3);
  EXPECT_DOUBLE_EQ(t.rows[0].watts, 567.034);
  EXPECT_DOUBLE_EQ(t.rows[0].kernel.cost.matrix_flops, 2.0 * 4352 * 8192 * 6144);
  EXPECT_EQ(product(t.rows[1]).m, 225);
  EXPECT_EQ(product(t.rows[1]).n, 256);
  EXPECT_EQ(product(t.rows[1]).k, 5120);
  EXPECT_THAT(t.sources, ElementsAre("aiconfigurator/vllm_default",
                                     "aiconfigurator/torch.nn.functional.linear"));
  EXPECT_THAT(t.operations, ElementsAre("gemm fp8_block", "gemm bf16"));
}

TEST(MeasuredTable, ReadsAiconfiguratorsAttention) {
  const MeasuredTable t =
      read(std::string(kAttentionHeader) +
           "1,context_attention,fa,2,1024,8,4,64,bfloat16,fp8,0,128,0.2,300\n"
           "1,generation_attention,fa,16,1,8,8,128,bfloat16,bfloat16,4095,0,0.1,\n");
  ASSERT_EQ(t.rows.size(), 2u);
  const AttentionShape& context = attention(t.rows[0]);
  EXPECT_EQ(context.batch, 2);
  EXPECT_EQ(context.queries, 1024);
  EXPECT_EQ(context.keys, 1024);
  EXPECT_EQ(context.heads, 8);
  EXPECT_EQ(context.kv_heads, 4);
  EXPECT_EQ(context.head, 64);
  EXPECT_EQ(context.window, 128);
  EXPECT_TRUE(context.causal);
  EXPECT_TRUE(context.paged);
  EXPECT_EQ(bit_width(context.kv), 8);
  const AttentionShape& generation = attention(t.rows[1]);
  EXPECT_EQ(generation.batch, 16);
  EXPECT_EQ(generation.queries, 1);
  EXPECT_EQ(generation.keys, 4096);
  EXPECT_FALSE(generation.causal);
  EXPECT_TRUE(generation.paged);
  EXPECT_EQ(generation.window, 0);
  EXPECT_DOUBLE_EQ(t.rows[1].seconds, 1e-4);
}

TEST(MeasuredTable, ReadsAiconfiguratorsExperts) {
  const MeasuredTable t = read(std::string(kMoeHeader) +
                               "moe,k,bfloat16,1024,4096,14336,2,8,4,1,power_law_1.2,1.5\n"
                               "moe,k,fp8,64,2048,768,8,128,1,8,balanced,0.18\n");
  ASSERT_EQ(t.rows.size(), 2u);
  const Kernel skewed = operator_kernel(
      "moe", "bf16",
      R"({"tokens": 1024, "hidden": 4096, "inter": 14336, "topk": 2, "experts": 8, "tp": 4, "ep": 1, "skew": 1.2})");
  EXPECT_DOUBLE_EQ(t.rows[0].kernel.cost.matrix_flops, skewed.cost.matrix_flops);
  EXPECT_DOUBLE_EQ(t.rows[0].kernel.cost.bytes(), skewed.cost.bytes());
  const Kernel balanced = operator_kernel(
      "moe", "fp8",
      R"({"tokens": 64, "hidden": 2048, "inter": 768, "topk": 8, "experts": 128, "ep": 8})");
  EXPECT_DOUBLE_EQ(t.rows[1].kernel.cost.bytes(), balanced.cost.bytes());
  EXPECT_DOUBLE_EQ(t.rows[1].seconds, 0.18e-3);
}

TEST(MeasuredTable, ReadsNeusight) {
  // N is the contraction dimension.
  const MeasuredTable products = read(
      "op,device,B,M,N,K,latency_ms,kernel,grid,block\n"
      "bmm,Tesla V100-PCIE-32GB,384,128,64,256,0.111725,volta_sgemm_32x128_nn,4x1x384,256\n"
      "linear,Tesla P4,1,1024,2560,512,1.11432,volta_sgemm_128x64_tn,20x16x1,128\n");
  ASSERT_EQ(products.rows.size(), 2u);
  EXPECT_TRUE(products.eager && !products.quantizes && !products.warm);
  EXPECT_EQ(product(products.rows[0]).batch, 384);
  EXPECT_EQ(product(products.rows[0]).m, 128);
  EXPECT_EQ(product(products.rows[0]).n, 256);
  EXPECT_EQ(product(products.rows[0]).k, 64);
  EXPECT_EQ(products.rows[0].kernel.cost.matrix_type, ElementType::kF32);
  EXPECT_EQ(product(products.rows[1]).n, 512);
  EXPECT_EQ(product(products.rows[1]).k, 2560);
  EXPECT_DOUBLE_EQ(products.rows[1].seconds, 1.11432e-3);
  EXPECT_THAT(products.devices, ElementsAre("Tesla V100-PCIE-32GB", "Tesla P4"));
  EXPECT_THAT(products.sources, ElementsAre("neusight"));
  EXPECT_THAT(products.operations, ElementsAre("bmm fp32", "gemm fp32"));

  const MeasuredTable rows = read(
      "op,device,B,H,latency_ms,kernel,grid,block\n"
      "add,Tesla T4,32,16,0.7,\"void at::native::vectorized_elementwise_kernel<4, x\",1x1x1,128\n"
      "powu,Tesla T4,32,16,0.5,k,1x1x1,128\n"
      "ln,Tesla T4,32,16,0.5,k,1x1x1,128\n");
  // Two operands are read, or one and a scalar; layernorm also reads its weight and bias.
  EXPECT_EQ(rows.rows[0].kernel.cost.bytes(), 3 * 32 * 16 * 4);
  EXPECT_EQ(rows.rows[1].kernel.cost.bytes(), 2 * 32 * 16 * 4);
  EXPECT_EQ(rows.rows[2].kernel.cost.bytes(), 2 * 32 * 16 * 4 + 2 * 16 * 4);
  EXPECT_THAT(rows.operations, ElementsAre("add fp32", "pow_scalar fp32", "layernorm fp32"));

  const MeasuredTable convolutions = read(
      "op,device,B,Input_Channel,Output_Channel,Kernel_Szie,Input_Size,Stride,Padding,latency_ms\n"
      "conv,NVIDIA A100 80GB PCIe,41,26,979,3,5,1,1,0.14976\n");
  const auto& shape = std::get<ConvolutionShape>(convolutions.rows[0].kernel.shape);
  EXPECT_EQ(shape.batch, 41);
  EXPECT_EQ(shape.channels, 26);
  EXPECT_EQ(shape.features, 979);
  EXPECT_EQ(shape.out_height, 5);
  EXPECT_FALSE(shape.channels_last);
}

TEST(MeasuredTable, OneKernelHasOneKey) {
  const MeasuredTable t = read(
      "op,dtype,params,us\n"
      "sdpa,bf16,\"{\"\"b\"\": 1, \"\"h\"\": 8, \"\"s\"\": 64, \"\"d\"\": 64}\",5\n"
      "sdpa,bfloat16,\"{\"\"d\"\":64,\"\"s\"\":64,\"\"t\"\":64,\"\"h\"\":8,\"\"kv\"\":8,\"\"b\"\":"
      "1,"
      "\"\"causal\"\":false,\"\"window\"\":0}\",5\n"
      "sdpa,bf16,\"{\"\"b\"\": 1, \"\"h\"\": 8, \"\"s\"\": 64, \"\"d\"\": 64, \"\"causal\"\": "
      "true}\",5\n"
      "sdpa,bf16,\"{\"\"b\"\": 1, \"\"h\"\": 8, \"\"s\"\": 64, \"\"d\"\": 64, \"\"causal\"\": "
      "1}\",5\n"
      "sdpa,fp16,\"{\"\"b\"\": 1, \"\"h\"\": 8, \"\"s\"\": 64, \"\"d\"\": 64}\",5\n"
      "gemm,bf16,\"{\"\"m\"\": 225, \"\"n\"\": 256, \"\"k\"\": 5120}\",5\n");
  EXPECT_EQ(t.rows[0].key, t.rows[1].key);
  EXPECT_NE(t.rows[0].key, t.rows[2].key);
  EXPECT_EQ(t.rows[2].key, t.rows[3].key);
  EXPECT_NE(t.rows[0].key, t.rows[4].key);
  // The same experts: 1.0 is 1, spaces are nothing.
  const MeasuredTable experts = read(
      "op,dtype,params,us\n"
      "grouped_gemm,bf16,\"{\"\"experts\"\":4,\"\"tokens\"\":64,\"\"n\"\":8,\"\"k\"\":8,"
      "\"\"skew\"\":1}\",5\n"
      "grouped_gemm,bf16,\" { \"\"n\"\" : 8 , \"\"experts\"\" : 4, "
      "\"\"tokens\"\" : 64,\n\"\"k\"\" : 8, \"\"skew\"\" : 1.0 } \",5\n"
      "permute,bf16,\"{\"\"shape\"\": [2, 3, 4], \"\"order\"\": [0, 2, 1]}\",5\n"
      "permute,bf16,\"{\"\"order\"\":[0,2,1],\"\"shape\"\":[2,3,4]}\",5\n"
      "permute,bf16,\"{\"\"order\"\":[2,0,1],\"\"shape\"\":[2,3,4]}\",5\n");
  EXPECT_EQ(experts.rows[0].key, experts.rows[1].key);
  EXPECT_EQ(experts.rows[2].key, experts.rows[3].key);
  EXPECT_NE(experts.rows[3].key, experts.rows[4].key);
  // The same attention as another project writes it down.
  EXPECT_EQ(read("op,dtype,params,us\n"
                 "sdpa,bf16,\"{\"\"b\"\": 2, \"\"h\"\": 8, \"\"kv\"\": 4, \"\"s\"\": 1024, "
                 "\"\"t\"\": 1024, \"\"d\"\": 64, \"\"causal\"\": true, \"\"paged\"\": true, "
                 "\"\"window\"\": 128, \"\"kv_dtype\"\": \"\"fp8\"\"}\",200\n")
                .rows[0]
                .key,
            read(std::string(kAttentionHeader) +
                 "1,context_attention,fa,2,1024,8,4,64,bfloat16,fp8,0,128,0.2,300\n")
                .rows[0]
                .key);
  // The same product as another project writes it down.
  EXPECT_EQ(
      t.rows[5].key,
      read("op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat16,225,256,5120,0.008\n").rows[0].key);
  // Splits of tables depend on it, so it may never change; worked out in Python.
  EXPECT_EQ(t.rows[5].key, 9755369872416074056u);
}

TEST(MeasuredTable, ReadsCompressedTables) {
  // printf 'op,dtype,params,us\nadd,bf16,"{""shape"": [8]}",3\n' | gzip -9n
  const std::string gz(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x2f\xd0\x49\x29\xa9\x2c\x48\xd5\x29"
      "\x48\x2c\x4a\xcc\x2d\xd6\x29\x2d\xe6\x4a\x4c\x49\xd1\x49\x4a\x33\x34\xd3\x51\xaa"
      "\x56\x52\x2a\xce\x48\x2c\x48\x55\x52\xb2\x52\x88\xb6\x88\xad\x55\xd2\x31\xe6\x02"
      "\x00\x08\xeb\x64\x93\x31\x00\x00\x00",
      69);
  const MeasuredTable t = read(gz);
  ASSERT_EQ(t.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(t.rows[0].seconds, 3e-6);
}

TEST(MeasuredTable, RefusesWhatIsNotATime) {
  const auto ours = [](const std::string& us) {
    return error_of(
        "op,dtype,params,us\nadd,bf16,\"{\"\"shape\"\": [8]}\",2\n"
        "add,bf16,\"{\"\"shape\"\": [8]}\"," +
        us + "\n");
  };
  // The cell begins after add,bf16,"{""shape"": [8]}", which is 28 characters.
  for (const char* wrong : {"-3", "0", "nan", "inf", "fast", "", "3 us", "1e999", "0x10"})
    EXPECT_EQ(ours(wrong), fmt::format("t.csv:3:29: us: '{}' is not a time: expected microseconds "
                                       "above zero",
                                       wrong));
  EXPECT_EQ(error_of("op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat16,1,2,3,-1\n"),
            "t.csv:2:21: latency: '-1' is not a time: expected milliseconds above zero");
  EXPECT_EQ(error_of("op,dtype,params,us,us_min\nadd,bf16,\"{\"\"shape\"\": [8]}\",2,3\n"),
            "t.csv:2:31: us_min: '3' us is more than the time itself, '2'");
  EXPECT_EQ(error_of("op,dtype,params,us,us_max\nadd,bf16,\"{\"\"shape\"\": [8]}\",2,1.9\n"),
            "t.csv:2:31: us_max: '1.9' us is less than the time itself, '2'");
  EXPECT_EQ(error_of("op,dtype,params,us,sm_mhz\nadd,bf16,\"{\"\"shape\"\": [8]}\",2,fast\n"),
            "t.csv:2:31: sm_mhz: 'fast' is not a clock in MHz");
  EXPECT_EQ(error_of("op,dtype,params,us,watts\nadd,bf16,\"{\"\"shape\"\": [8]}\",2,-5\n"),
            "t.csv:2:31: watts: '-5' is not a power in W");
}

TEST(MeasuredTable, RefusesAClockOfNoDeviceOrOfAnother) {
  const auto at = [](const std::string& mhz, const ClockRange& clocks) -> std::string {
    try {
      read_measured_table(Source::from_memory("t.csv",
                                              "op,dtype,params,us,sm_mhz\n"
                                              "add,bf16,\"{\"\"shape\"\": [8]}\",2," +
                                                  mhz + "\n"),
                          clocks);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(at("1.98", {}),
            "t.csv:2:31: sm_mhz: 1.98 is not a clock in MHz (is it in GHz?): expected 10 to 100000 "
            "MHz");
  const ClockRange h200 = {99, 2970, "h200"};
  EXPECT_EQ(at("9999", {}), "");
  EXPECT_EQ(at("9999", h200),
            "t.csv:2:31: sm_mhz: 9999 is not a clock in MHz of h200: expected 99 to 2970 MHz");
  for (const char* fine : {"345", "1980", "0", ""}) EXPECT_EQ(at(fine, h200), "") << fine;
}

TEST(MeasuredTable, RefusesWhatItDoesNotKnow) {
  const auto ours = [](const std::string& row) { return error_of("op,dtype,params,us\n" + row); };
  EXPECT_EQ(
      ours("gem,bf16,\"{\"\"m\"\":1,\"\"n\"\":1,\"\"k\"\":1}\",2\n"),
      "t.csv:2:1: op: 'gem' is not known; did you mean 'gemm', 'fused_gemm' or 'grouped_gemm'?");
  EXPECT_THAT(ours("gemm,bf61,\"{\"\"m\"\":1,\"\"n\"\":1,\"\"k\"\":1}\",2\n"),
              HasSubstr("t.csv:2:6: dtype: 'bf61' is not known"));
  EXPECT_EQ(ours("gemm,bf16,\"{\"\"m\"\":1,\"\"n\"\":1}\",2\n"),
            "t.csv:2:11: params: gemm needs 'k'");
  EXPECT_THAT(ours("sdpa,bf16,\"{\"\"b\"\":1,\"\"h\"\":1,\"\"s\"\":1,\"\"d\"\":1,\"\"casual\"\":"
                   "true}\",2\n"),
              testing::AllOf(HasSubstr("t.csv:2:11: params: "), HasSubstr("casual"),
                             HasSubstr("did you mean 'causal'?")));
  EXPECT_EQ(
      error_of("op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat61,1,2,3,1\n"),
      "t.csv:2:6: gemm_dtype: 'bfloat61' is not known; did you mean 'bfloat16' or 'float16'?");
  EXPECT_THAT(error_of("op_name,gemm_dtype,m,n,k,latency\ngemmm,bfloat16,1,2,3,1\n"),
              HasSubstr("t.csv:2:1: op_name: 'gemmm' is not known; did you mean 'gemm'?"));
  EXPECT_THAT(error_of("op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat16,1.5,2,3,1\n"),
              HasSubstr("t.csv:2:15: m: '1.5' is not a size"));
  EXPECT_THAT(error_of("op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat16,0,2,3,1\n"),
              HasSubstr("t.csv:2:1: params: 'm' must lie within 1"));
  EXPECT_THAT(error_of(std::string(kMoeHeader) + "moe,k,fp8,64,2048,768,8,128,1,8,zipf,0.18\n"),
              HasSubstr("distribution: 'zipf' is not known: expected balanced"));
  EXPECT_THAT(error_of("op,device,B,H,latency_ms\nsotfmax,Tesla T4,1,2,3\n"),
              HasSubstr("t.csv:2:1: op: 'sotfmax' is not known; did you mean 'softmax'?"));
  EXPECT_THAT(error_of("op,device,B,M,N,K,latency_ms\nlinear,Tesla T4,2,2,3,4,1\n"),
              HasSubstr("t.csv:2:17: B: linear has a batch of 1"));
}

TEST(MeasuredTable, RefusesOtherTables) {
  EXPECT_THAT(error_of("model_name,seqlen\ngpt2,1024\n"),
              HasSubstr("t.csv:1:1: not a table of measured kernels"));
  EXPECT_THAT(error_of("op,dtype,params,ms\nadd,bf16,{},1\n"),
              HasSubstr("t.csv:1:1: column 'us' is missing"));
  EXPECT_THAT(error_of("op,dtype,params,us\n"), HasSubstr("a table without rows"));
  EXPECT_THAT(error_of("op_name,latency\nnccl,1\n"), HasSubstr("'gemm_dtype' is missing"));
}

TEST(MeasuredTable, KnowsWhatDriversCallDevices) {
  EXPECT_EQ(catalogue_name("Tesla V100-PCIE-32GB"), "v100-pcie-32gb");
  EXPECT_EQ(catalogue_name("NVIDIA A100 80GB PCIe"), "a100-pcie-80gb");
  EXPECT_EQ(catalogue_name("h200"), "h200");
  const MeasuredTable t = read(
      "op,device,B,H,latency_ms\n"
      "add,Tesla T4,32,16,0.7\n"
      "add,Tesla P4,32,16,0.9\n"
      "add,Tesla T4,64,16,0.8\n");
  const MeasuredTable t4 = rows_on_device(t, "t4");
  ASSERT_EQ(t4.rows.size(), 2u);
  EXPECT_EQ(t4.rows[1].line, 4u);
  EXPECT_EQ(rows_on_device(t, "h200").rows.size(), 0u);
}

}  // namespace
}  // namespace orrery
