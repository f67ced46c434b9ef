// heed models, describe, info and health: what a server says of itself.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/commands.h"

namespace heed::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Models, AreListedWithTheirState) {
  FakeServer server;
  server.list_models = [](auto&, auto&, v1::ListModelsResponse& response) {
    auto* good = response.add_models();
    good->set_model("polarity");
    good->set_version("1");
    good->set_state(v1::MODEL_STATE_READY);
    auto* bad = response.add_models();
    bad->set_model("broken");
    bad->set_state(v1::MODEL_STATE_FAILED);
    bad->mutable_error()->set_message("config.json: no such file");
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"models"});
  EXPECT_EQ(run.out, "polarity  1  READY\nbroken       FAILED  config.json: no such file\n");
}

std::string PageOf(const v1::ModelDescription& model) {
  FakeServer server;
  server.describe_model = [&](auto&, auto&, v1::ModelDescription& described) {
    described = model;
    described.set_state(v1::MODEL_STATE_READY);
    return grpc::Status::OK;
  };
  return RunAt(server, {"describe"}).out;
}

TEST(Describe, SaysWhichNumbersAreRead) {
  v1::ModelDescription points;
  points.add_inputs(v1::INPUT_KIND_VECTORS);
  points.set_vector_size(1024);
  EXPECT_THAT(PageOf(points),
              AllOf(HasSubstr("inputs         vectors\n"), HasSubstr("vectors read   of 1,024 numbers\n"),
                    Not(HasSubstr("vocabulary"))));
  v1::ModelDescription picture;
  picture.add_inputs(v1::INPUT_KIND_IMAGE);
  v1::ImageInput* image = picture.mutable_image_input();
  image->set_channels(1);
  image->set_height(28);
  image->set_width(32);
  image->set_patch_size(4);
  EXPECT_THAT(PageOf(picture),
              AllOf(HasSubstr("inputs         image\n"),
                    HasSubstr("images         of 1 channel, 28 x 32, or any in patches of 4 x 4\n")));
  image->set_fixed(true);
  image->set_channels(3);
  EXPECT_THAT(PageOf(picture), HasSubstr("images         of 3 channels, 28 x 32\n"));
  picture.set_max_tokens(56);
  image->set_files(true);
  EXPECT_THAT(PageOf(picture), AllOf(HasSubstr("images         of 3 channels, 28 x 32; PNG and JPEG files\n"),
                                     HasSubstr("longest        56 patches\n")));
  image->set_resized_height(30);
  image->set_resized_width(28);
  EXPECT_THAT(PageOf(picture), HasSubstr("PNG and JPEG files, made 30 x 28\n"));
  image->set_resized_height(0);
  image->set_resized_shortest_edge(32);
  image->set_cropped_height(28);
  image->set_cropped_width(29);
  EXPECT_THAT(PageOf(picture), HasSubstr("files, whose shorter side is made 32 long, cut to 28 x 29\n"));
}

TEST(Describe, SaysWhichImageIsDrawn) {
  v1::ModelDescription artist;
  EXPECT_THAT(PageOf(artist), Not(HasSubstr("draws")));
  v1::GeneratedImage* image = artist.mutable_generated_image();
  image->set_height(28);
  image->set_width(32);
  image->set_channels(1);
  image->set_levels(16);
  image->set_begins(true);
  EXPECT_THAT(PageOf(artist), HasSubstr("draws          28 x 32 pixels of 16 levels\n"));
  image->set_channels(3);
  image->set_begins(false);
  EXPECT_THAT(PageOf(artist), HasSubstr("draws          3 channels of 28 x 32 pixels of 16 levels, after the "
                                        "first that a prompt has\n"));
}

TEST(Describe, TellsTheColumnsOfATable) {
  v1::ModelDescription people;
  people.add_inputs(v1::INPUT_KIND_ROW);
  people.add_inputs(v1::INPUT_KIND_TABLE);
  auto* job = people.mutable_table_input()->add_categorical();
  job->set_name("job");
  job->add_values("clerk");
  job->add_values("farmer");
  people.mutable_table_input()->add_numerical()->set_name("age");
  EXPECT_THAT(PageOf(people),
              AllOf(HasSubstr("inputs         row, table\n"),
                    HasSubstr("columns        job (2 values), age (a number)\n"), Not(HasSubstr("\nrows "))));
  people.mutable_table_input()->set_rows_meet(true);
  EXPECT_THAT(PageOf(people), HasSubstr("rows           of a table depend on each other\n"));
}

// A model of which everything is known.
v1::ModelDescription Known() {
  v1::ModelDescription model;
  model.set_model("polarity");
  model.set_version("2");
  model.set_state(v1::MODEL_STATE_READY);
  model.set_load_seconds(0.25);
  model.set_architecture(v1::ARCHITECTURE_ENCODER_DECODER);
  model.set_head(v1::HEAD_LANGUAGE_MODEL);
  model.set_decode_class(v1::DECODE_CLASS_EXACT);
  model.add_attention("softmax");
  model.add_attention("linear");
  model.add_inputs(v1::INPUT_KIND_TEXT);
  model.add_inputs(v1::INPUT_KIND_PAIR);
  model.add_rpcs("heed.v1.Inference.Score");
  model.add_rpcs("heed.v1.Inference.Generate");
  model.set_default_prompt_name("query");
  (*model.mutable_prompts())["query"] = "query: ";
  (*model.mutable_prompts())["document"] = "";
  model.set_parameters(1234567);
  model.set_weight_bytes(25'500'000);
  model.set_precision(v1::PRECISION_BF16);
  model.add_labels("bad");
  model.add_labels("good");
  model.set_embedding_size(384);
  v1::WeightsFile* file = model.add_weights_files();
  file->set_name("model.safetensors");
  file->set_bytes(51'000'000);
  file->set_sha256(std::string(64, 'a'));
  v1::SpecialTokens* special = model.mutable_special_tokens();
  special->set_bos_token_id(1);
  special->add_eos_token_ids(2);
  special->add_eos_token_ids(3);
  special->set_pad_token_id(0);
  special->set_mask_token_id(4);
  special->set_decoder_start_token_id(5);
  model.mutable_default_sampling()->set_temperature(0.5);
  model.mutable_default_sampling()->set_top_k(50);
  model.mutable_default_stopping()->set_max_tokens(256);
  model.set_state_bytes_per_token(4096);
  model.set_state_limit_bytes(2'000'000'000);
  auto* cost = model.add_costs();
  cost->set_tokens(1024);
  cost->set_state_bytes(4096 * 1024);
  cost->set_multiply_adds(3e9);
  return model;
}

TEST(Describe, IsAPageOfAllThatIsKnown) {
  FakeServer server;
  server.describe_model = [](auto&, auto&, v1::ModelDescription& model) {
    model = Known();
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"describe", "polarity"});
  EXPECT_EQ(run.exit, kDone);
  EXPECT_EQ(run.out, Cat("model          polarity\n"
                         "version        2\n"
                         "state          READY, loaded in 0.25 s\n"
                         "architecture   encoder-decoder\n"
                         "attention      softmax, linear\n"
                         "size           0 layers of width 0\n"
                         "head           language-model\n"
                         "labels         bad, good\n"
                         "vectors        of 384 numbers\n"
                         "inputs         text, pair\n"
                         "calls          Score, Generate\n"
                         "prompts        document \"\", query \"query: \" (by default)\n"
                         "decoding       exact\n"
                         "special tokens bos 1, eos 2 3, pad 0, mask 4, decoder start 5\n"
                         "longest        any length\n"
                         "source         any length\n"
                         "sampling       temperature: 0.5 top_k: 50\n"
                         "stopping       max_tokens: 256\n"
                         "parameters     1,234,567\n"
                         "weights        25.5 MB in memory, bf16\n"
                         "weights file   model.safetensors, 51.0 MB\n"
                         "sha256         ",
                         std::string(64, 'a'),
                         "\n"
                         "sequence state 4,096 bytes a token more\n"
                         "state at most  2.0 GB\n"
                         "\n"
                         "    tokens            state    bytes a token  multiply-adds\n"
                         "     1,024           4.2 MB            4,096          3e+09\n"));
  EXPECT_EQ(RunAt(server, {"describe", "a", "b"}).exit, kUsage);
}

TEST(Describe, SaysHowManyGlobalTokensAnInputMayNameAndWhatTheyCost) {
  FakeServer server;
  server.describe_model = [](auto&, auto&, v1::ModelDescription& model) {
    model = Known();
    model.set_max_global_tokens(4096);
    model.mutable_costs(0)->set_global_state_bytes(9'000'000);
    model.mutable_costs(0)->set_global_multiply_adds(5e9);
    return grpc::Status::OK;
  };
  EXPECT_THAT(RunAt(server, {"describe", "polarity"}).out,
              AllOf(HasSubstr("global tokens  at most 4,096 of an input's own\n"),
                    HasSubstr("bytes a token  multiply-adds  with all global  multiply-adds\n"
                              "     1,024           4.2 MB            4,096          3e+09           9.0 MB  "
                              "        5e+09\n")));
}

TEST(Describe, SaysWhatASecondInputIs) {
  v1::ModelDescription model;
  EXPECT_THAT(PageOf(model), Not(HasSubstr("global input")));
  model.mutable_global_input()->set_tokens_per_global(16);
  EXPECT_THAT(PageOf(model),
              HasSubstr("global input   tokens, where an input gives none one for every 16 of its own\n"));
  model.set_max_source_tokens(4096);
  model.mutable_global_input()->set_required(true);
  EXPECT_THAT(PageOf(model), HasSubstr("global input   at most 4,096 tokens, which an input must give\n"));
}

TEST(Describe, CountsWhatTheModelReads) {
  v1::ModelDescription model;
  model.add_costs()->set_tokens(49);
  model.set_state_bytes_per_token(12);
  v1::ModelDescription picture = model, points = model, people = model;
  picture.mutable_image_input();
  points.set_vector_size(2);
  people.mutable_table_input();
  const std::pair<v1::ModelDescription, std::string> cases[] = {
      {model, "token"}, {picture, "patch"}, {points, "vector"}, {people, "row"}};
  for (const auto& [described, unit] : cases) {
    EXPECT_THAT(PageOf(described), AllOf(HasSubstr(Cat("bytes a ", unit, "  multiply-adds\n")),
                                         HasSubstr(Cat("sequence state 12 bytes a ", unit, " more\n"))));
  }
  EXPECT_THAT(PageOf(picture), HasSubstr("\n   patches            state    bytes a patch  multiply-adds\n"));
}

TEST(Describe, SaysWhichWeightsOfAttentionMayBeAskedFor) {
  FakeServer server;
  server.describe_model = [](auto&, auto&, v1::ModelDescription& model) {
    model = Known();
    for (const int heads : {4, 0, 4, 2}) {
      auto* layer = model.add_attention_layers();
      layer->set_heads(heads);
      layer->set_cross_heads(8);
    }
    model.set_attention_limit_bytes(5'000'000);
    return grpc::Status::OK;
  };
  EXPECT_THAT(RunAt(server, {"describe", "polarity"}).out,
              HasSubstr("details        attention of 2 heads in layers 3, 4 heads in layers 0 2; "
                        "cross-attention of 8 heads "
                        "in layers 0 1 2 3; at most 5.0 MB an input\n"));
}

// The defaults as a server gives them where a model changes nothing.
v1::SamplingOptions NeutralSampling() {
  v1::SamplingOptions sampling;
  sampling.set_repetition_penalty(1);
  sampling.set_presence_penalty(0);
  sampling.set_frequency_penalty(0);
  sampling.set_temperature(1);
  sampling.set_top_k(256);
  sampling.set_typical_p(1);
  sampling.set_top_p(1);
  sampling.set_min_p(0);
  sampling.set_samples(1);
  return sampling;
}

// The page's line about them, of a model with a vocabulary of 256.
std::string SamplingLine(const v1::SamplingOptions& sampling) {
  FakeServer server;
  server.describe_model = [&](auto&, auto&, v1::ModelDescription& model) {
    model.set_state(v1::MODEL_STATE_READY);
    model.set_vocab_size(256);
    *model.mutable_default_sampling() = sampling;
    return grpc::Status::OK;
  };
  const std::string page = RunAt(server, {"describe"}).out;
  const size_t begin = page.find("\nsampling ") + 1;
  return page.substr(begin, page.find('\n', begin) - begin);
}

TEST(Describe, OfTheSamplingDefaultsOnlyThoseThatChangeSomethingAreShown) {
  v1::SamplingOptions sampling = NeutralSampling();
  EXPECT_EQ(SamplingLine(sampling), "sampling       from the model's probabilities as they are");
  sampling.set_temperature(0);
  sampling.set_top_k(50);
  EXPECT_EQ(SamplingLine(sampling), "sampling       temperature: 0 top_k: 50");
  const google::protobuf::Reflection& fields = *sampling.GetReflection();
  for (const char* name : {"repetition_penalty", "presence_penalty", "frequency_penalty", "temperature",
                           "typical_p", "top_p", "min_p"}) {
    sampling = NeutralSampling();
    fields.SetDouble(&sampling, sampling.GetDescriptor()->FindFieldByName(name), 0.5);
    EXPECT_EQ(SamplingLine(sampling), Cat("sampling       ", name, ": 0.5"));
  }
  sampling = NeutralSampling();
  sampling.set_samples(2);
  EXPECT_EQ(SamplingLine(sampling), "sampling       samples: 2");
}

TEST(Describe, JsonHasEveryDefault) {
  FakeServer server;
  server.describe_model = [](auto&, auto&, v1::ModelDescription& model) {
    *model.mutable_default_sampling() = NeutralSampling();
    return grpc::Status::OK;
  };
  EXPECT_THAT(
      RunAt(server, {"describe", "--json"}).out,
      HasSubstr("\"repetition_penalty\":1,\"presence_penalty\":0,\"frequency_penalty\":0,"
                "\"temperature\":1,\"top_k\":256,\"typical_p\":1,\"top_p\":1,\"min_p\":0,\"samples\":1"));
}

TEST(Describe, OneThatIsNotReadyIsDescribedWithWhy) {
  FakeServer server;
  server.describe_model = [](auto&, const v1::DescribeModelRequest& request, v1::ModelDescription& model) {
    const bool failed = request.model() == "broken";
    model.set_model(request.model());
    model.set_state(failed ? v1::MODEL_STATE_FAILED : v1::MODEL_STATE_LOADING);
    if (failed) model.mutable_error()->set_message("config.json: no such file");
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"describe", "broken"}).out,
            "model          broken\nstate          FAILED: config.json: no such file\n");
  EXPECT_EQ(RunAt(server, {"describe", "slow"}).out, "model          slow\nstate          LOADING\n");
}

TEST(Info, IsAPageOfTheServer) {
  FakeServer server;
  server.describe_server = [](auto&, auto&, v1::ServerDescription& description) {
    description.set_version("0.2.0");
    description.mutable_build()->set_compiler("GCC 14.2.0");
    description.mutable_build()->set_libraries("gRPC 1.51.1");
    description.mutable_build()->set_isa("avx512_core_bf16");
    description.mutable_build()->set_threads(2);
    description.mutable_started()->set_seconds(1'700'000'000);
    description.mutable_started()->set_nanos(123'456'789);
    description.add_features("reflection");
    description.mutable_limits()->set_inputs(1024);
    description.mutable_limits()->set_deadline_seconds(600);
    v1::ModelSummary* model = description.add_models();
    model->set_model("polarity");
    model->set_version("1");
    model->set_state(v1::MODEL_STATE_LOADING);
    return grpc::Status::OK;
  };
  const Outcome run = RunAt(server, {"info"});
  EXPECT_EQ(run.exit, kDone);
  EXPECT_THAT(run.out, AllOf(HasSubstr("version        0.2.0\n"), HasSubstr("compiler       GCC 14.2.0\n"),
                             HasSubstr("libraries      gRPC 1.51.1\n"),
                             HasSubstr("computes with  2 threads, avx512_core_bf16\n"),
                             HasSubstr("started        2023-11-14T22:13:20Z\n"),
                             HasSubstr("features       reflection\n"), HasSubstr("at most 1,024 inputs"),
                             HasSubstr("at most 600 s a request"), HasSubstr("polarity  1  LOADING\n")));
  EXPECT_THAT(RunAt(server, {"info", "--json"}).out, HasSubstr("\"version\":\"0.2.0\""));
}

TEST(Health, ExitStatusSaysWhetherItIsReady) {
  using grpc::health::v1::HealthCheckResponse;
  FakeServer server;
  server.check = [](auto&, const auto& request, HealthCheckResponse& response) {
    if (request.service() == "nobody") return grpc::Status(grpc::NOT_FOUND, "unknown service");
    response.set_status(request.service().empty() ? HealthCheckResponse::SERVING
                                                  : HealthCheckResponse::NOT_SERVING);
    return grpc::Status::OK;
  };
  EXPECT_EQ(RunAt(server, {"health"}).exit, kDone);
  EXPECT_EQ(RunAt(server, {"health"}).out, "SERVING\n");
  EXPECT_EQ(RunAt(server, {"health", "--model=loading"}).exit, kFailed);
  EXPECT_EQ(RunAt(server, {"health", "--model=loading"}).out, "NOT_SERVING\n");
  EXPECT_EQ(RunAt(server, {"health", "--model=nobody"}).exit, kFailed);
}

}  // namespace
}  // namespace heed::cli
